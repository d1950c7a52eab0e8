"""Qualified names in statements: an alias comes before a struct of its name, as in Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import DeltaTable


@pytest.mark.everywhere
def test_an_alias_comes_before_a_struct_of_its_name(spark: SparkSession, tmp_path: Path) -> None:
    at = f"delta.`{tmp_path / 't'}`"
    rows = "SELECT * FROM VALUES (1, 10, named_struct('a', 2)), (2, 20, named_struct('a', 1)) AS r(id, a, t)"
    with holdfast.enable(spark):
        spark.sql(rows).write.format("delta").save(str(tmp_path / "t"))
        spark.sql(f"UPDATE {at} AS t SET t.a = 9 WHERE t.a = 10")
        spark.sql(f"UPDATE {at} AS t SET t.t.a = 7 WHERE t.t.a = 1")
        source = "(SELECT 20 AS a, 5 AS n, named_struct('a', 9) AS s)"
        spark.sql(f"MERGE INTO {at} AS t USING {source} AS s ON t.a = s.a WHEN MATCHED THEN UPDATE SET t.a = s.n")
        found = sorted((r.id, r.a, r.t.a) for r in spark.read.format("delta").load(str(tmp_path / "t")).collect())
    assert found == [(1, 9, 2), (2, 5, 7)]
    # The source's alias is the name of a struct in it, and of a field that its own column has too.
    table = DeltaTable.forPath(spark, tmp_path / "t")
    frame = spark.sql("SELECT 9 AS a, 8 AS n, named_struct('a', 5) AS s").alias("s")
    table.alias("t").merge(frame, "t.a = s.a").whenMatchedUpdate(set={"t.a": F.col("s.n")}).execute()
    assert sorted((r.id, r.a, r.t.a) for r in table.toDF().collect()) == [(1, 8, 2), (2, 5, 7)]
