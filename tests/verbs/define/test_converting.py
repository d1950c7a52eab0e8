"""A directory of Parquet files becomes a table: no file changes, and every row is there, has an id and can be found."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from holdfast import DeltaTable, Invalid, Unsupported, env
from holdfast.formats.delta.state import is_table, load
from holdfast.schema.ddl import parse_type
from holdfast.schema.types import Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.define.convert import convert, partitions_of
from tests.support.damage import opened
from tests.support.depth import examples
from tests.support.faulty import every_fault


def put(store: ObjectStore, key: str, table: pa.Table, **how: Any) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **how)
    store.put(f"t/{key}", sink.getvalue().to_pybytes())


def converted(store: ObjectStore, partitions: str | None = None, **properties: str) -> DeltaTable:
    convert(Location(store, "t"), partitions_of(partitions), properties, env.system(), plain=False)
    return opened(store)


def test_nothing_is_rewritten_and_every_row_has_an_id() -> None:
    store = MemoryStore()
    put(store, "a.parquet", pa.table({"n": [1, 2, 3]}))
    put(store, "deep/b c%.parquet", pa.table({"n": [4, 5]}))
    for name in ("_SUCCESS", ".hidden", "_temporary/0/c.parquet", "deep/_x.parquet"):
        store.put(f"t/{name}", b"not Parquet")
    before = {meta.key: store.get(meta.key) for meta in store.list_all("t")}
    table = converted(store)
    after = {meta.key: store.get(meta.key) for meta in store.list_all("t") if "_delta_log" not in meta.key}
    assert before == after
    rows = table.toArrow(metadata=["_row_id", "_row_commit_version"]).to_pylist()
    assert sorted((row["n"], row["_row_id"], row["_row_commit_version"]) for row in rows) == [
        (n, n - 1, 0) for n in range(1, 6)
    ]
    assert table.historyArrow().column("operation").to_pylist() == ["CONVERT"]
    assert table.check().findings == ()
    table.update("n = 4", {"n": "40"})
    assert sorted(table.toArrow()["n"].to_pylist()) == [1, 2, 3, 5, 40]


def test_hive_partitions_need_types_and_get_them() -> None:
    store = MemoryStore()
    put(store, "day=2024-05-01/k=a%20b/x.parquet", pa.table({"n": [1]}))
    put(store, "day=2024-05-02/k=__HIVE_DEFAULT_PARTITION__/x.parquet", pa.table({"n": [2], "day": ["not this"]}))
    with pytest.raises(Invalid, match="partitionSchema='day string, k string'"):
        converted(store)
    with pytest.raises(Invalid, match=r"\(day, k\).*\(day\)"):
        converted(store, "day date")
    with pytest.raises(Invalid, match="another type"):
        converted(store, "day int, k string")
    assert not is_table(Location(store, "t"))
    table = converted(store, "day date, k string")
    assert table.toArrow(["n", "day", "k"]).sort_by("n").to_pylist() == [
        {"n": 1, "day": datetime.date(2024, 5, 1), "k": "a b"},
        {"n": 2, "day": datetime.date(2024, 5, 2), "k": None},
    ]
    assert table.toArrow(["n"], where="day = '2024-05-02'")["n"].to_pylist() == [2]
    assert load(Location(store, "t")).snapshot.partition_columns == ("day", "k")


def test_files_that_differ_are_joined_or_refused() -> None:
    store = MemoryStore()
    put(store, "a.parquet", pa.table({"n": [1], "s": [{"x": 1}]}))
    put(store, "b.parquet", pa.table({"n": [2], "s": [{"y": "q"}], "more": [1.5]}))
    table = converted(store)
    assert table.toArrow().sort_by("n").to_pylist() == [
        {"n": 1, "s": {"x": 1, "y": None}, "more": None},
        {"n": 2, "s": {"x": None, "y": "q"}, "more": 1.5},
    ]
    other = MemoryStore()
    put(other, "a.parquet", pa.table({"s": [{"x": 1}]}))
    put(other, "b.parquet", pa.table({"s": [{"x": "one"}]}))
    with pytest.raises(Invalid, match=r"b\.parquet has s\.x as string, and another file has it as long"):
        converted(other)
    put(other, "b.parquet", pa.table({"s": pa.array([1], pa.duration("s"))}))
    with pytest.raises(Invalid, match=r"b\.parquet"):
        converted(other)


def test_what_is_no_parquet_file_is_named() -> None:
    store = MemoryStore()
    put(store, "a.parquet", pa.table({"n": [1]}))
    store.put("t/notes.txt", b"something else altogether")
    with pytest.raises(Invalid, match=r"notes\.txt .* begins with _"):
        converted(store)
    with pytest.raises(Invalid, match="no Parquet file"):
        converted(MemoryStore())
    with pytest.raises(Invalid, match="map columns"):
        converted(store, **{"delta.columnMapping.mode": "name"})


def test_a_table_that_is_one_already_stays() -> None:
    store = MemoryStore()
    put(store, "a.parquet", pa.table({"n": [1]}))
    converted(store)
    put(store, "b.parquet", pa.table({"n": [2]}))
    assert converted(store).toArrow()["n"].to_pylist() == [1]
    assert opened(store).version == 0


def test_properties_and_features() -> None:
    store = MemoryStore()
    put(store, "a.parquet", pa.table({"n": [1]}))
    convert(Location(store, "t"), Struct(), {"delta.appendOnly": "true"}, env.system(), plain=True)
    state = load(Location(store, "t"))
    assert state.snapshot.identity is None
    assert state.protocol.min_writer_version == 2
    assert state.snapshot.properties == {"delta.appendOnly": "true"}


_MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)
_columns: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "s": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=40)),
    "f": (pa.float64(), st.sampled_from([1.5, -2.0, float("nan"), float("inf"), 0.0])),
    "d": (pa.date32(), st.dates(datetime.date(1700, 1, 1), datetime.date(2200, 1, 1))),
    "m": (pa.decimal128(9, 2), st.integers(-999, 999).map(lambda n: decimal.Decimal(n) / 100)),
    "us": (pa.timestamp("us", "UTC"), st.integers(-5, 5).map(lambda n: _MOMENT + datetime.timedelta(hours=n))),
    "ms": (
        pa.timestamp("ms"),
        st.integers(-5, 5).map(lambda n: _MOMENT.replace(microsecond=0) + datetime.timedelta(n)),
    ),
}


@st.composite
def _tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(1, 6))
    values = {
        name: pa.array(draw(st.lists(st.one_of(st.none(), each), min_size=rows, max_size=rows)), type_)
        for name, (type_, each) in _columns.items()
    }
    return pa.table(values)


@examples(40)
@given(st.lists(_tables(), min_size=1, max_size=4), st.integers(1, 3), st.data())
def test_pruning_by_foreign_statistics_loses_no_row(tables: list[pa.Table], group: int, data: st.DataObject) -> None:
    store = MemoryStore()
    for n, rows in enumerate(tables):
        put(store, f"{n}.parquet", rows, row_group_size=group)
    table = converted(store)
    whole = table.toArrow()
    assert whole.num_rows == sum(rows.num_rows for rows in tables)
    assert sorted(map(str, whole["i"].to_pylist())) == sorted(str(v) for t in tables for v in t["i"].to_pylist())
    number = data.draw(st.sampled_from([v for v in whole["i"].to_pylist() if v is not None] or [0]))
    text = data.draw(st.sampled_from([v for v in whole["s"].to_pylist() if v and not set(v) & set("'\"\\")] or ["x"]))
    day = data.draw(
        st.sampled_from([v for v in whole["d"].to_pylist() if v is not None] or [datetime.date(2000, 1, 1)])
    )
    for condition, keep in (
        (f"i >= {number}", lambda row: row["i"] is not None and row["i"] >= number),
        (f"s = '{text}'", lambda row: row["s"] == text),
        (f"d <= date'{day}'", lambda row: row["d"] is not None and row["d"] <= day),
        ("f > 1.0", lambda row: row["f"] is not None and (row["f"] > 1.0 or np.isnan(row["f"]))),
        ("m is null", lambda row: row["m"] is None),
        (
            "us >= timestamp'2024-02-29 12:30:15Z'",
            lambda row: row["us"] is not None and row["us"].timestamp() >= 1709209815,
        ),
    ):
        found = table.toArrow(where=condition)
        assert found.num_rows == sum(map(keep, whole.to_pylist())), condition


def test_statistics_are_those_of_the_footer() -> None:
    store = MemoryStore()
    put(store, "a.parquet", pa.table({"n": [3, None, 1], "s": ["b", "a", "c"], "f": [1.0, float("nan"), 2.0]}))
    converted(store)
    (add,) = [
        json.loads(line)["add"] for line in store.get(f"t/_delta_log/{0:020d}.json").splitlines() if b'"add"' in line
    ]
    assert json.loads(add["stats"]) == {
        "numRecords": 3,
        "minValues": {"n": 1, "s": "a", "f": 1.0},
        "maxValues": {"n": 3, "s": "c"},
        "nullCount": {"n": 1, "s": 0, "f": 0},
        "tightBounds": True,
    }


def test_a_fault_anywhere_makes_the_table_or_leaves_the_directory() -> None:
    def make() -> ObjectStore:
        store = MemoryStore()
        put(store, "p=1/a.parquet", pa.table({"n": [1, 2]}))
        put(store, "p=2/b.parquet", pa.table({"n": [3]}))
        return store

    def check(store: ObjectStore) -> None:
        if is_table(Location(store, "t")):
            assert sorted(opened(store).toArrow()["n"].to_pylist()) == [1, 2, 3]
            assert opened(store).check().clean
        assert len([meta for meta in store.list_all("t") if meta.key.endswith(".parquet")]) == 2

    assert every_fault(lambda store: converted(store, "p int"), check, make=make) > 10


def test_how_a_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="parquet"):
        DeltaTable.convertToDelta(None, str(tmp_path))
    with pytest.raises(Unsupported, match="iceberg"):
        DeltaTable.convertToDelta(None, f"iceberg.`{tmp_path}`")
    assert parse_type("struct<a int>") == partitions_of("a int")


def test_what_spark_wrote_is_converted_with_its_own_types(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "p")
    query = "select id, cast(id as short) as s, timestamp_millis(id) as t, id % 2 as p from range(10)"
    spark.sql(query).write.partitionBy("p").parquet(path)
    table = DeltaTable.convertToDelta(spark, f"parquet.`{path}`", "p long")
    df = table.scan(metadata=["_row_id"])
    assert df.schema.simpleString() == "struct<id:bigint,s:smallint,t:timestamp,p:bigint,_row_id:bigint>"
    rows = df.toArrow().sort_by("id").to_pylist()
    assert [(row["id"], row["s"], row["p"]) for row in rows] == [(n, n, n % 2) for n in range(10)]
    assert sorted(row["_row_id"] for row in rows) == list(range(10))
    assert DeltaTable.isDeltaTable(spark, path)
