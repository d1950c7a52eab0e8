from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import DeltaTable


@pytest.fixture
def target(enabled: SparkSession) -> Iterator[str]:
    name = "holdfast_target"
    enabled.sql(f"DROP TABLE IF EXISTS {name}")
    rows = enabled.range(4).select("id", F.concat(F.lit("old"), "id").alias("name"))
    rows.write.format("delta").saveAsTable(name)
    yield name
    enabled.sql(f"DROP TABLE {name}")


def source(spark: SparkSession) -> DataFrame:
    return spark.range(2, 6).select("id", F.concat(F.lit("new"), "id").alias("name"))


def names(spark: SparkSession, table: str) -> list[str]:
    return [row.name for row in spark.table(table).orderBy("id").collect()]


@pytest.mark.connect
def test_an_upsert_by_name(enabled: SparkSession, target: str) -> None:
    ids = {r.id: r.row_id for r in enabled.table(target).select("id", "_metadata.row_id").collect()}
    rows = source(enabled).alias("source")
    done = rows.mergeInto(target, F.expr(f"{target}.id = source.id")).whenMatched().updateAll()  # type: ignore[arg-type]
    done.whenNotMatched().insertAll().merge()
    assert names(enabled, target) == ["old0", "old1", "new2", "new3", "new4", "new5"]
    found = {r.id: r.row_id for r in enabled.table(target).select("id", "_metadata.row_id").collect()}
    assert found.items() > ids.items()
    assert DeltaTable.forName(enabled, target).historyArrow(1).to_pylist()[0]["operation"] == "MERGE"


@pytest.mark.connect
def test_columns_of_the_source(enabled: SparkSession, target: str) -> None:
    rows = source(enabled)
    merge = rows.mergeInto(target, F.col(f"{target}.id") == rows.id)
    merge = merge.whenMatched(rows.id == 3).update({"name": F.concat(rows.name, F.lit("!"))}).whenMatched().delete()
    merge = merge.whenNotMatched(rows.id < 5).insert({"id": rows.id, "name": F.upper(rows["name"])})
    merge.whenNotMatchedBySource(F.col(f"{target}.id") == 0).update({"name": F.lit("alone")}).merge()
    assert names(enabled, target) == ["alone", "old1", "new3!", "NEW4"]


@pytest.mark.connect
def test_columns_of_the_source_in_a_merge_of_delta_spark(enabled: SparkSession, target: str) -> None:
    from delta.tables import DeltaTable  # type: ignore[import-not-found]

    rows, table = source(enabled), DeltaTable.forName(enabled, target)
    merge = table.alias("t").merge(rows.alias("s"), "t.id = s.id")
    new = F.when(rows.id < 0, F.lit(None)).otherwise(rows.name)
    merge.whenMatchedUpdate(rows.id.cast("int") + 1 == 3, {"name": new}).execute()
    assert names(enabled, target) == ["old0", "old1", "new2", "old3"]
    mine = table.toDF()
    table.alias(target).merge(rows, mine.id == rows.id).whenMatchedUpdateAll().execute()
    assert names(enabled, target) == ["old0", "old1", "new2", "new3"]
    merge = table.alias("t").merge(rows, F.col("t.id") == rows["id"])
    with pytest.raises(PySparkException, match="alias"):
        merge.whenMatchedUpdate(set={"name": F.transform(F.array(rows.name), F.upper)[0]})


def test_every_clause_and_a_new_column(enabled: SparkSession, target: str, tmp_path: Path) -> None:
    rows = source(enabled).withColumn("more", F.lit(7)).alias("s")
    merge = rows.mergeInto(target, F.expr(f"{target}.id = s.id")).withSchemaEvolution()
    merge.whenMatched().updateAll().whenNotMatched().insertAll().whenNotMatchedBySource().delete().merge()
    assert [tuple(r) for r in enabled.table(target).orderBy("id").collect()] == [(n, f"new{n}", 7) for n in range(2, 6)]
    place = str(tmp_path / "p")
    enabled.range(3).write.format("delta").save(place)
    enabled.range(2, 5).mergeInto(f"delta.`{place}`", F.lit(False)).whenNotMatched().insertAll().merge()
    assert enabled.read.format("delta").load(place).count() == 6


def test_what_is_refused(enabled: SparkSession, target: str) -> None:
    rows = source(enabled).alias("s")
    same = F.expr(f"{target}.id = s.id")
    with pytest.raises(AnalysisException):
        rows.mergeInto(target, same).merge()
    with pytest.raises(AnalysisException, match="say what to set"):
        rows.mergeInto(target, same).whenNotMatchedBySource().updateAll()
    with pytest.raises(PySparkException):
        rows.mergeInto("holdfast_nowhere", same).whenNotMatched().insertAll().merge()
    assert names(enabled, target) == ["old0", "old1", "old2", "old3"]
