"""Files that cannot be read are refused when a scan is planned, with a remedy."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast import IcebergTable
from holdfast.errors import Damaged, Unsupported
from holdfast.formats.iceberg.metadata.types import NAME_MAPPING
from tests.formats.iceberg.smith import Entry, Smith, column
from tests.support.reading import spark_opens

NAMES = count()
INNER = {"type": "struct", "fields": [column(3, "a", "int"), column(4, "b", "string")]}
LIST = {"type": "list", "element-id": 6, "element": INNER}
COLUMNS = [column(1, "id"), column(2, "n", "string"), column(5, "l", LIST)]
ROWS = {"id": [1, 2], "n": ["x", None], "l": [[{"a": 1, "b": "y"}], None]}


def written() -> dict[str, pa.Array]:
    inner = pa.struct([("a", pa.int32()), ("b", pa.string())])
    return {"id": pa.array(ROWS["id"]), "n": pa.array(ROWS["n"]), "l": pa.array(ROWS["l"], pa.list_(inner))}


def nameless(builder: Smith, *, as_orc: bool) -> Entry:
    entry = builder.data(written(), with_ids=False) | {"null_value_counts": None}
    if as_orc:
        sink = pa.BufferOutputStream()
        orc.write_table(pa.table(written()), sink)
        data = sink.getvalue().to_pybytes()
        path = builder.put("data/o.orc", data)
        entry |= {"file_path": path, "file_format": "ORC", "file_size_in_bytes": len(data)}
    return entry


def table_of(builder: Smith, spark: SparkSession | None = None) -> IcebergTable:
    return IcebergTable.forMetadata(spark, builder.metadata())


def mapping_in(message: str) -> str:
    """What the message says to set the property to."""
    return message.split(f"{NAME_MAPPING} to ")[1].split(", else rewrite it")[0]


@pytest.mark.parametrize("as_orc", [False, True])
def test_a_file_without_ids_says_which_mapping_finds_its_columns(as_orc: bool) -> None:
    builder = Smith(f"memory://unreadable-{next(NAMES)}/t", COLUMNS)
    builder.commit([nameless(builder, as_orc=as_orc)])
    with pytest.raises(Damaged, match="has no field ids") as refused:
        table_of(builder).toArrow(columns=["id"])
    builder.properties[NAME_MAPPING] = mapping_in(str(refused.value))
    assert table_of(builder).toArrow().to_pydict() == ROWS
    assert table_of(builder).toArrow(columns=[], metadata=["_pos"]).to_pydict() == {"_pos": [0, 1]}


def avro(builder: Smith) -> list[Entry]:
    """A file that is read, and two that are not."""
    entries = [builder.data({"id": [n], "n": ["x"]}) for n in range(3)]
    return [entries[0], *(e | {"file_path": f"{e['file_path']}.avro", "file_format": "AVRO"} for e in entries[1:])]


def test_avro_files_are_refused_when_a_scan_is_planned() -> None:
    builder = Smith(f"memory://unreadable-{next(NAMES)}/t", COLUMNS)
    builder.commit(avro(builder))
    table = table_of(builder)
    for ask in (table.explain, table.toArrow):
        with pytest.raises(Unsupported, match=r"\.avro is an avro file \(one of 2 files\); .* Parquet and ORC"):
            ask()
    assert table.explain(where="id = 0").files_read == 1
    assert table.toArrow(where="id = 0", columns=["id"]).to_pylist() == [{"id": 0}]


@pytest.mark.everywhere
def test_both_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    builder = Smith(str(tmp_path / "avro"), COLUMNS)
    builder.commit(avro(builder))
    table = table_of(builder, spark)
    asks: list[Any] = [table.toDF, table.explain, lambda: table.scan(columns=["id"], metadata=["_pos"])]
    for ask in asks:
        with pytest.raises(Unsupported, match=r"\.avro is an avro file \(one of 2 files\)"):
            ask()
    assert table.scan(where="id = 0").count() == 1
    for as_orc in (False, True):
        other = Smith(str(tmp_path / f"nameless {as_orc}"), COLUMNS)
        other.commit([nameless(other, as_orc=as_orc)])
        unnamed = table_of(other, spark)
        by: type[Exception] = Damaged
        ask: Any = unnamed.toDF
        if not spark_opens(spark, other.root):  # tasks find out
            by, ask = PySparkException, lambda unnamed=unnamed: unnamed.toDF().collect()
        with pytest.raises(by, match=f"has no field ids.*{NAME_MAPPING}") as refused:
            ask()
        other.properties[NAME_MAPPING] = mapping_in(str(refused.value))
        found = table_of(other, spark).toDF().toArrow().to_pydict()
        assert found == ROWS
