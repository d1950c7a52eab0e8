"""Partition values as texts and directories, and what other readers make of the files."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal as Dec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engines.local.write import write_table
from holdfast.env import fixed, system
from holdfast.errors import Invalid
from holdfast.model.write_spec import write_spec
from holdfast.parquet.write import WriteSpec
from holdfast.schema.arrow import arrow_schema, arrow_type
from holdfast.schema.partition import typed
from holdfast.schema.partition_text import directory, partition_texts
from holdfast.schema.types import LONG, STRING, Array, DataType, Decimal, Field, Primitive, Struct, render_schema
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location
from tests.parquet.strategies import types, values
from tests.support import smith_values
from tests.support.depth import examples

AWKWARD = [
    "a b",
    "100%",
    "x=y",
    "a:b",
    "ü ß",
    "[z]",
    "*",
    "?",
    "#1",
    "c\\d",
    "e'f",
    'g"h',
    "日本",
    "a/b",
    "\x01",
    "~",
    "..",
    "",
]


@examples(150)
@given(st.data())
def test_texts_read_back_as_the_values_they_were_made_from(data: st.DataObject) -> None:
    type_ = data.draw(types(nested=False))
    whole = values(type_).filter(lambda v: not isinstance(v, bytes) or _is_text(v))
    array = pa.array(data.draw(st.lists(whole, max_size=8)), arrow_type(type_))
    texts = partition_texts(array, type_, column="p")
    expected = [None if value in ("", b"") else value for value in array.to_pylist()]
    assert typed(texts, type_, where="p").to_pylist() == expected


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        (Primitive("timestamp"), dt.datetime(2020, 1, 2, 3, 4, 5, 6, dt.UTC), "2020-01-02T03:04:05.000006Z"),
        (Primitive("timestamp"), dt.datetime(1, 1, 1, tzinfo=dt.UTC), "0001-01-01T00:00:00.000000Z"),
        (Primitive("timestamp_ntz"), dt.datetime(2020, 1, 2), "2020-01-02 00:00:00.000000"),
        (Primitive("date"), dt.date(1969, 12, 31), "1969-12-31"),
        (Decimal(38, 18), Dec("0.000000000000000001"), "0.000000000000000001"),
        (Decimal(10, 2), Dec("-5.00"), "-5.00"),
        (Primitive("boolean"), True, "true"),
        (Primitive("float"), 1.1, "1.1"),
        (Primitive("double"), math.nan, "NaN"),
        (Primitive("double"), -math.inf, "-Infinity"),
        (Primitive("binary"), b"\x01\x02", "\x01\x02"),
        (STRING, "", None),
        (Primitive("long"), None, None),
    ],
)
def test_values_are_spelled_as_the_protocol_says(type_: DataType, value: Any, text: str | None) -> None:
    array = pa.array([value], arrow_type(type_))
    assert partition_texts(array, type_, column="p").to_pylist() == [text]


def test_what_has_no_text_is_refused_by_name() -> None:
    with pytest.raises(Invalid, match=r"column p has the value b'\\xff'"):
        partition_texts(pa.array([b"\xff"]), Primitive("binary"), column="p")
    with pytest.raises(Invalid, match="p cannot be a partition column"):
        write_table(
            Location(MemoryStore(), "t"),
            [pa.record_batch({"p": pa.array([[1]]), "a": [1]})],
            WriteSpec((Field("p", Array(LONG)), Field("a", LONG)), ("p",)),
            fixed(),
        )


@given(st.text(), st.none() | st.text(min_size=1))
def test_directories_are_spelled_as_hive_does(name: str, text: str | None) -> None:
    expected = smith_values.hive_directory({name: text}).removesuffix("/")
    assert directory(name, text) == expected.replace("\0", "%00")


def commit(path: Path, schema: Struct, partitions: tuple[str, ...], staged: pa.Table) -> None:
    """The first version of a table that holds the staged files."""
    lines: list[Any] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "t",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": render_schema(schema),
                "partitionColumns": list(partitions),
                "configuration": {},
            }
        },
    ]
    for row in staged.to_pylist():
        add = {
            "path": quote(row["key"]),
            "partitionValues": dict(row["partition_values"]),
            "size": row["size"],
            "modificationTime": row["modified_ms"],
            "dataChange": True,
            "stats": row["stats"],
        }
        lines.append({"add": add})
    (path / "_delta_log").mkdir()
    (path / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)))


def test_deltalake_reads_what_we_write(tmp_path: Path) -> None:
    schema = Struct(
        (
            Field("p", STRING),
            Field("t", Primitive("timestamp")),
            Field("n", LONG),
            Field("d", Decimal(20, 4)),
            Field("f", Primitive("double")),
            Field("s", Struct((Field("x", STRING), Field("l", Array(Primitive("date")))))),
        )
    )
    moments = [dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=i) for i in range(2)]
    rows = [
        {
            "p": p,
            "t": moments[i % 2],
            "n": i,
            "d": Dec(i) / 16,
            "f": [0.5, math.inf, None][i % 3],
            "s": {"x": "é" * i, "l": [dt.date(2020, 1, 1), None]},
        }
        for i, p in enumerate([*AWKWARD, None])
    ]
    partitions = ("p", "t")
    table = pa.Table.from_pylist(rows, schema=arrow_schema(schema))
    staged = write_table(open_location(str(tmp_path)), table, write_spec(schema, partitions, {}), system())
    commit(tmp_path, schema, partitions, staged)
    read = DeltaTable(str(tmp_path)).to_pyarrow_table()
    expected = sorted(({**row, "p": row["p"] or None} for row in rows), key=lambda row: row["n"])
    assert read.select(schema.names).sort_by("n").to_pylist() == expected
    actions = pa.table(DeltaTable(str(tmp_path)).get_add_actions(flatten=True))
    assert sum(actions["num_records"].to_pylist()) == len(rows)
    by_row = {row["min.n"]: row for row in actions.to_pylist()}
    assert by_row[3]["max.n"] == 3
    assert by_row[3]["min.s.x"] == "ééé"
    assert by_row[3]["max.d"] == Dec("0.1875")


def test_a_thousand_partitions(tmp_path: Path) -> None:
    table = pa.table({"p": [i % 1000 for i in range(3000)], "a": range(3000)})
    fields = (Field("p", LONG), Field("a", LONG))
    staged = write_table(open_location(str(tmp_path)), table, WriteSpec(fields, ("p",)), system())
    assert staged["num_records"].to_pylist() == [3] * 1000
    assert len({key.partition("/")[0] for key in staged["key"].to_pylist()}) == 1000
    assert len(list(tmp_path.iterdir())) == 1000
