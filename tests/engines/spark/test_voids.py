"""Structs with void fields: data files hold what is beside the void, and nobody loses it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.errors import SchemaMismatch

_S = pa.struct([("a", pa.int32())])


def made(path: Path) -> None:
    builder = DeltaTable.create(None).location(str(path)).addColumn("id", "long")
    builder = builder.addColumn("s", "struct<a:int,v:void>").addColumn("l", "array<struct<a:int,v:void>>")
    values = {"id": [1, 2, 3], "s": pa.array([{"a": 1}, {"a": 2}, None], _S)}
    builder.execute().append(pa.table({**values, "l": pa.array([[{"a": 1}], [], None], pa.list_(_S))}))


@pytest.mark.everywhere
def test_what_stands_beside_a_void_is_read_and_survives_a_merge(spark: SparkSession, tmp_path: Path) -> None:
    for mode in ("merge-on-read", "copy-on-write"):
        made(tmp_path / mode)
        table = DeltaTable.forPath(spark, tmp_path / mode)
        rows = table.toDF().orderBy("id").collect()
        assert [None if r.s is None else (r.s.a, r.s.v) for r in rows] == [(1, None), (2, None), None]
        assert [None if r.l is None else [e.a for e in r.l] for r in rows] == [[1], [], None]
        source = spark.sql("SELECT 1L AS id, named_struct('v', 'x', 'b', 7L) AS s")
        merge = table.alias("t").merge(source.alias("src"), "t.id = src.id", mode=mode).withSchemaEvolution()
        merge.whenMatchedUpdateAll().execute()
        found = DeltaTable.forPath(None, tmp_path / mode).toArrow().sort_by("id")
        assert found["s"].to_pylist() == [{"a": 1, "v": "x", "b": 7}, {"a": 2, "v": None, "b": None}, None]
        assert table.toDF().where("id = 1").collect()[0].s.asDict() == {"a": 1, "v": "x", "b": 7}
        assert found["l"].to_pylist()[0] == [{"a": 1, "v": None}]


@pytest.mark.everywhere
def test_a_value_that_lacks_fields_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark_rows = spark.sql("SELECT 1L AS id, named_struct('a', 1, 'b', 2) AS x")
    DeltaTable.create(spark).location(str(tmp_path / "t")).addColumns(spark_rows.schema).execute().append(spark_rows)
    table = DeltaTable.forPath(spark, tmp_path / "t")
    with pytest.raises(SchemaMismatch, match=r"x has no x\.b, which would become null"):
        table.update("id = 1", {"x": "named_struct('a', 5)"})
    source = spark.sql("SELECT 1L AS id, named_struct('a', 5) AS x").alias("s")
    with pytest.raises(SchemaMismatch, match=r"x\.b"):
        table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdate(set={"x": "s.x"}).execute()
    table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().execute()
    assert table.toDF().collect()[0].x.asDict() == {"a": 5, "b": 2}
