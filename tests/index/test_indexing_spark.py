"""Indexes built, read and used on Spark: the same answers as without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import DeltaTable, between
from holdfast.index.scalar.kind import BITMAP, ENTRIES, ScalarKind
from holdfast.verbs.index import maintain as reindexing


def rows(spark: SparkSession, count: int) -> DataFrame:
    ids = spark.range(0, count, 1, 3)
    return ids.select(
        "id",
        F.concat(F.lit("n-"), F.col("id") % 11).alias("s"),
        F.when(F.col("id") % 5 != 0, F.timestamp_seconds(F.col("id") * 3600)).alias("at"),
        (F.col("id") / 4).cast("decimal(12,2)").alias("d"),
    )


@pytest.fixture
def on_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is too small to be built by Spark."""
    for kind in (ENTRIES, BITMAP):
        monkeypatch.setitem(reindexing.KINDS, kind, ScalarKind(kind, local_rows=-1))


def ids(table: DeltaTable, **by: Any) -> list[int]:
    matching = sorted(table.lookup(by).column("id").to_pylist())
    assert sorted(row["id"] for row in table.lookupDF(by).collect()) == matching
    return matching


@pytest.mark.everywhere
@pytest.mark.usefixtures("on_spark")
def test_an_index_made_by_spark_answers_as_a_scan(spark: SparkSession, tmp_path: Path) -> None:
    table = DeltaTable.create(spark).location(str(tmp_path / "t")).addColumns(rows(spark, 1).schema).execute()
    table.append(rows(spark, 300))
    assert table.createIndex("id").entries == 300
    table.createIndex(["s", "at"], name="several")
    table.createIndex("s", name="few", kind="bitmap")
    table.update("id = 7", {"s": "'n-0'"})
    table.append(rows(spark, 3).select((F.col("id") + 1000).alias("id"), "s", "at", "d"))
    table.delete("id = 11")
    for name in ("id", "several", "few"):
        table.refreshIndex(name)
        assert table.verifyIndex(name).is_right
    table.optimize().executeCompaction()
    assert ids(table, id=[7, 11, 1001]) == [7, 1001]
    assert ids(table, s="n-0") == sorted([7, 1000, *(n for n in range(0, 300, 11) if n != 11)])
    assert ids(table, s="n-7", at=None) == [n for n in range(7, 300, 11) if n % 5 == 0]
    assert ids(table, id=between(295, includeLow=False)) == [296, 297, 298, 299, 1000, 1001, 1002]


def test_spark_reads_only_files_with_hits(spark: SparkSession, tmp_path: Path) -> None:
    table = DeltaTable.create(spark).location(str(tmp_path / "t")).addColumns(rows(spark, 1).schema).execute()
    table.append(rows(spark, 300).repartition(4, F.col("id") % 4))
    table.createIndex("id")
    plan = {step.name: step for step in table.explain(where="id = 100").steps}
    assert plan["by_index"].kept == 1
    assert plan["by_index"].dropped >= 2
    assert table.scan(where="id = 100").count() == 1
    done = table.update(F.col("id") == 100, {"s": "'x'"})
    assert done.metrics["numScannedFiles"] == 1
    source = spark.createDataFrame([(100, "y"), (5000, "z")], "id long, s string")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    merged = merge.whenMatchedUpdate(set={"s": "s.s"}).whenNotMatchedInsert(values={"id": "s.id", "s": "s.s"}).execute()
    assert merged.metrics["numTargetFilesScanned"] <= 2
    assert sorted(table.lookup(id=[100, 5000]).column("s").to_pylist()) == ["y", "z"]
