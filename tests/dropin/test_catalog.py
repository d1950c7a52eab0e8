from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import DeltaTable
from holdfast.engines.spark.session import catalog
from holdfast.engines.spark.session.unpatched import plain
from holdfast.errors import Invalid, NotATable, Unsupported


@pytest.fixture
def database(enabled: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A database of its own, which is gone afterwards."""
    name = "holdfast_names"
    enabled.sql(f"CREATE DATABASE {name} LOCATION '{tmp_path / 'warehouse'}'")
    yield name
    enabled.sql(f"DROP DATABASE {name} CASCADE")


@pytest.mark.connect
def test_a_table_by_name(enabled: SparkSession, database: str, tmp_path: Path) -> None:
    name = f"{database}.people"
    enabled.range(3).withColumn("s", F.lit("a")).write.format("delta").saveAsTable(name)
    assert enabled.catalog.tableExists(name)
    assert [t.name for t in enabled.catalog.listTables(database) if not t.isTemporary] == ["people"]
    assert enabled.catalog.getTable(name).tableType == "MANAGED"
    assert enabled.table(name).count() == enabled.read.table(name).count() == 3
    enabled.range(3, 4).withColumn("s", F.lit("b")).write.mode("append").saveAsTable(name)
    enabled.range(4, 5).select(F.col("id").alias("x"), F.lit("c")).write.insertInto(name)
    assert sorted(row.id for row in enabled.table(name).where("people.id > 1").collect()) == [2, 3, 4]
    entry = catalog.find(enabled, catalog.split(name))
    assert entry is not None
    assert entry.managed
    assert entry.is_delta
    assert DeltaTable.forName(enabled, name).version == 2
    assert DeltaTable.forName(enabled, f"spark_catalog.{name}").version == 2
    with pytest.raises(AnalysisException) as there:
        enabled.range(1).write.format("delta").saveAsTable(name)
    assert there.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    catalog.rename(enabled, catalog.split(name), (database, "folk"))
    assert enabled.table(f"{database}.folk").count() == 5
    catalog.forget(enabled, (database, "folk"))
    assert not (tmp_path / "warehouse" / "folk").exists()
    with pytest.raises(AnalysisException):
        enabled.table(f"{database}.folk").collect()


@pytest.mark.connect
def test_the_catalog_tells_what_a_table_is_now(enabled: SparkSession, database: str) -> None:
    name = f"{database}.changing"
    rows = enabled.range(3).withColumn("p", F.col("id") % 2)
    rows.write.format("delta").partitionBy("p").saveAsTable(name)
    enabled.sql(f"ALTER TABLE {name} ADD COLUMNS (note STRING COMMENT 'of anything')")
    rows.withColumn("more", F.lit(1.5)).write.format("delta").mode("append").option("mergeSchema", True).saveAsTable(
        name
    )
    told = {c.name: c for c in enabled.catalog.listColumns(name)}
    assert [(c.name, c.dataType) for c in told.values()] == [
        *(("id", "bigint"), ("p", "bigint"), ("note", "string"), ("more", "double")),
    ]
    assert [c.name for c in told.values() if c.isPartition] == ["p"]
    assert told["note"].description == "of anything"
    described = enabled.sql(f"DESCRIBE TABLE {name}").collect()
    assert [row.col_name for row in described][:4] == list(told)
    enabled.sql(f"CREATE TABLE {database}.told (a INT) USING delta COMMENT 'for telling'")
    assert enabled.catalog.getTable(f"{database}.told").description == "for telling"
    assert enabled.catalog.getTableProperties(name)["delta.enableRowTracking"] == "true"
    assert "`more` DOUBLE" in enabled.catalog.getCreateTableString(name)
    rows.select(F.col("id").alias("n")).write.format("delta").mode("overwrite").option(
        "overwriteSchema", True
    ).saveAsTable(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        assert [c.name for c in enabled.catalog.listColumns("changing", database)] == ["n"]
    enabled.range(1).createOrReplaceTempView("plain_view")
    assert [c.name for c in enabled.catalog.listColumns("plain_view")] == ["id"]
    enabled.catalog.dropTempView("plain_view")


def test_a_table_at_a_place_of_its_own(enabled: SparkSession, database: str, tmp_path: Path) -> None:
    name, place = f"{database}.outside", tmp_path / "out side"
    enabled.range(2).write.format("delta").option("path", str(place)).saveAsTable(name)
    entry = catalog.find(enabled, (database, "outside"))
    assert entry is not None
    assert not entry.managed
    assert DeltaTable.forName(enabled, name).version == DeltaTable.forPath(enabled, place).version == 0
    catalog.forget(enabled, (database, "outside"))
    assert DeltaTable.isDeltaTable(enabled, str(place))


def test_write_to(enabled: SparkSession, database: str, tmp_path: Path) -> None:
    name = f"{database}.v2"
    rows = enabled.range(4).withColumn("p", F.col("id") % 2)
    rows.writeTo(name).using("delta").partitionedBy(F.col("p")).tableProperty("delta.appendOnly", "false").create()
    with pytest.raises(AnalysisException):
        rows.writeTo(name).using("delta").create()
    rows.writeTo(name).append()
    assert enabled.table(name).count() == 8
    rows.where("id = 1").writeTo(name).overwritePartitions()
    assert sorted(r.id for r in enabled.table(name).collect()) == [0, 0, 1, 2, 2]
    rows.where("id = 2").writeTo(name).overwrite(F.col("p") == 0)
    assert sorted(r.id for r in enabled.table(name).collect()) == [1, 2]
    enabled.range(1).writeTo(name).using("delta").createOrReplace()
    assert enabled.table(name).columns == ["id"]
    assert DeltaTable.forName(enabled, name).version == 4
    enabled.range(7).writeTo(f"delta.`{tmp_path / 'p'}`").using("delta").create()
    assert enabled.read.format("delta").load(str(tmp_path / "p")).count() == 7
    with pytest.raises(AnalysisException):
        rows.writeTo(f"{database}.missing").append()


def test_readers_inside_of_spark_are_told(enabled: SparkSession, database: str) -> None:
    enabled.range(2).write.format("delta").saveAsTable(f"{database}.t")
    with pytest.raises(AnalysisException, match=r"holdfast\.enable"):
        plain(type(enabled).table)(enabled, f"{database}.t").collect()


def test_sessions_enter_tables_one_after_the_other(enabled: SparkSession, database: str) -> None:
    enabled.range(2).write.format("delta").saveAsTable(f"{database}.first")
    other = enabled.newSession()
    enabled.createDataFrame([], "x INT")  # the first session is the active one
    with holdfast.enable(other):
        other.range(3).write.format("delta").saveAsTable(f"{database}.second")
        assert other.table(f"{database}.second").count() == 3
    assert enabled.table(f"{database}.second").count() == 3


def test_a_failed_creation_leaves_no_name(enabled: SparkSession, database: str) -> None:
    bad = enabled.range(1).select(F.col("id").alias("a b;c"))
    with pytest.raises(AnalysisException):
        bad.write.format("delta").saveAsTable(f"{database}.bad")
    assert not enabled.catalog.tableExists(f"{database}.bad")


def test_names_without_a_session() -> None:
    assert catalog.split("a.`b.c`.d") == ("a", "b.c", "d")
    assert catalog.split("`we``ird`") == ("we`ird",)
    for wrong in ("", "a.", "a b", ".a", "`a"):
        with pytest.raises(Invalid):
            catalog.split(wrong)
    with pytest.raises(Invalid, match="session"):
        DeltaTable.forName(None, "people")
    with pytest.raises(NotATable):
        DeltaTable.forName(None, "delta.`/nowhere/at/all`")


def test_other_catalogs_are_refused(enabled: SparkSession) -> None:
    with pytest.raises(Unsupported, match="catalog"):
        DeltaTable.forName(enabled, "unity.db.t")
