"""Variants that were read come back as variants, whoever read them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.errors import SchemaMismatch
from holdfast.schema.arrow import arrow_schema

FIVE = {"value": b"\x0c\x05", "metadata": b"\x01\x00\x00"}
ROWS = [
    {"id": 1, "v": FIVE, "s": {"a": 1, "v": FIVE}, "l": [FIVE, None]},
    {"id": 2, "v": None, "s": None, "l": None},
]


def made(place: Path, spark: SparkSession | None = None) -> DeltaTable:
    builder = DeltaTable.create(spark).location(place).addColumn("id", "bigint").addColumn("v", "variant")
    table = builder.addColumn("s", "struct<a: int, v: variant>").addColumn("l", "array<variant>").execute()
    table.append(pa.Table.from_pylist(ROWS, arrow_schema(table.handle.newest().snapshot.schema)))
    return table


def test_what_was_read_is_appended_merged_and_created_from(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    read = table.toArrow()
    table.append(read)
    table.append(pa.concat_tables([read, read]).slice(1, 2).select(["v", "id"]))
    assert (
        table.toArrow(columns=["id", "v"]).sort_by("id").to_pylist()
        == [{"id": 1, "v": FIVE}] * 3 + [{"id": 2, "v": None}] * 3
    )
    other = DeltaTable.create(None).location(tmp_path / "other").addColumns(read.schema).execute()
    merge = other.alias("t").merge(read, "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert other.toArrow().sort_by("id").to_pylist() == ROWS
    assert other.handle.newest().snapshot.schema == table.handle.newest().snapshot.schema
    plain = pa.Table.from_pylist([{"id": 3, "v": FIVE}])
    with pytest.raises(SchemaMismatch, match="give it as variant"):
        table.append(plain)


@pytest.mark.everywhere
def test_between_spark_and_arrow(spark: SparkSession, tmp_path: Path) -> None:
    table = made(tmp_path / "t", spark)
    table.append(table.toArrow())
    one = table.scan(columns=["id", "v"], where="id = 1").limit(1).toArrow()
    table.append(one)
    table.append(spark.createDataFrame(one))
    shown = table.toDF().selectExpr("id", "CAST(v AS INT) v", "CAST(s.v AS INT) sv", "CAST(l[0] AS INT) l")
    found = sorted(map(tuple, shown.where("id = 1").collect()), key=str)
    assert found == [(1, 5, 5, 5)] * 2 + [(1, 5, None, None)] * 2
