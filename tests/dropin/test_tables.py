from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

import holdfast


@pytest.fixture
def delta(enabled: SparkSession) -> Any:
    """The module `delta.tables`."""
    import delta.tables  # type: ignore[import-not-found]

    return delta.tables


@pytest.fixture
def place(enabled: SparkSession, tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    enabled.range(5).withColumn("n", F.lit(0)).write.format("delta").save(path)
    return path


def rows(table: Any) -> list[tuple[int, int]]:
    return sorted((row.id, row.n) for row in table.toDF().collect())


@pytest.mark.connect
def test_verbs_and_what_they_give(enabled: SparkSession, delta: Any, place: str) -> None:
    table = delta.DeltaTable.forPath(enabled, place)
    assert table.delete("id = 0") is None
    assert table.update(set={"n": F.lit(1)}) is None
    assert table.update("id = 1", {"n": "n + 1"}) is None
    assert table.update(condition=F.col("id") == 2, set={"n": "7"}) is None
    assert rows(table) == [(1, 2), (2, 7), (3, 1), (4, 1)]
    source = enabled.range(4, 7).withColumn("n", F.lit(9))
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    done = merge.whenMatchedUpdate(set={"n": "s.n"}).whenNotMatchedInsertAll().execute()
    assert done.collect()[0].asDict() == {
        "num_affected_rows": 3,
        "num_updated_rows": 1,
        "num_deleted_rows": 0,
        "num_inserted_rows": 2,
    }
    assert rows(table)[-3:] == [(4, 9), (5, 9), (6, 9)]
    assert [r.operation for r in table.history(2).collect()] == ["MERGE", "UPDATE"]
    assert table.detail().collect()[0].format == "delta"
    assert "metrics" in table.optimize().executeCompaction().columns
    assert table.optimize().where("id > 0").executeZOrderBy("id").count() == 1
    assert table.restoreToVersion(0).columns[0] == "table_size_after_restore"
    assert rows(table) == [(n, 0) for n in range(5)]
    assert table.holdfast.version == table.history(1).collect()[0].version
    assert table.alias("x").toDF().where("x.id = 3").count() == 1


def test_merges_of_all_kinds(enabled: SparkSession, delta: Any, place: str) -> None:
    table = delta.DeltaTable.forPath(enabled, place)
    source = enabled.range(3, 6).withColumn("n", F.lit(5)).withColumn("more", F.lit("m"))
    (
        table.alias("t")
        .merge(source.alias("s"), F.expr("t.id = s.id"))
        .withSchemaEvolution()
        .whenMatchedDelete("s.id = 3")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsert(values={"id": "s.id", "n": "s.n + 1"})
        .whenNotMatchedBySourceUpdate("t.id = 0", {"n": "100"})
        .whenNotMatchedBySourceDelete(F.expr("t.id = 1"))
        .execute()
    )
    found = sorted((r.id, r.n, r.more) for r in table.toDF().collect())
    assert found == [(0, 100, None), (2, 0, None), (4, 5, "m"), (5, 6, None)]
    with pytest.raises(TypeError, match="dict"):
        table.merge(source, "t.id = s.id").whenMatchedUpdate(set="n = 1")
    with pytest.raises(PySparkException):
        table.merge(source, "t.id = s.id").execute()
    twice = source.union(source)
    with pytest.raises(PySparkException) as both:
        table.alias("t").merge(twice.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"n": "s.n"}).execute()
    assert both.value.getCondition() == "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"


def test_what_is_caught(enabled: SparkSession, delta: Any, place: str, tmp_path: Path) -> None:
    table = delta.DeltaTable.forPath(enabled, place)
    with pytest.raises(AnalysisException):
        table.delete("nope = 1")
    with pytest.raises(AnalysisException):
        table.update(set={"nope": "1"})
    with pytest.raises(AnalysisException) as missing:
        delta.DeltaTable.forPath(enabled, str(tmp_path / "nothing"))
    assert missing.value.getCondition() == "DELTA_MISSING_DELTA_TABLE"
    with pytest.raises(AnalysisException) as unnamed:
        delta.DeltaTable.forName(enabled, "no_such_table")
    assert unnamed.value.getCondition() == "DELTA_TABLE_NOT_FOUND"
    with pytest.raises(IllegalArgumentException) as early:
        table.vacuum(0)
    assert early.value.getCondition() == "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"
    enabled.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        assert table.vacuum(0).columns == ["path"]
    finally:
        enabled.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    with pytest.raises(PySparkException, match="every version of the protocol has it"):
        table.dropFeatureSupport("invariants", truncateHistory=False)
    table.upgradeTableProtocol(1, 3)
    assert delta.DeltaTable.isDeltaTable(enabled, place)
    assert not delta.DeltaTable.isDeltaTable(enabled, str(tmp_path))


@pytest.fixture
def database(enabled: SparkSession, tmp_path: Path) -> Iterator[str]:
    enabled.sql(f"CREATE DATABASE holdfast_built LOCATION '{tmp_path / 'warehouse'}'")
    yield "holdfast_built"
    enabled.sql("DROP DATABASE holdfast_built CASCADE")


def test_builders_make_tables_with_names(enabled: SparkSession, delta: Any, database: str, tmp_path: Path) -> None:
    DeltaTable = delta.DeltaTable
    made = (
        DeltaTable.create(enabled)
        .tableName(f"{database}.built")
        .addColumn("id", "BIGINT", generatedAlwaysAs=delta.IdentityGenerator(start=10, step=2))
        .addColumn("name", dataType="STRING", comment="called")
        .addColumn("birth", "TIMESTAMP")
        .addColumn("born", "DATE", generatedAlwaysAs="CAST(birth AS DATE)")
        .partitionedBy("born")
        .property("description", "people")
        .comment("all of them")
        .execute()
    )
    assert made.detail().collect()[0]["name"] == f"spark_catalog.{database}.built"
    enabled.sql(f"INSERT INTO {database}.built (name, birth) VALUES ('a', TIMESTAMP '2000-01-02 03:04:05')")
    assert [(r.id, str(r.born)) for r in DeltaTable.forName(enabled, f"{database}.built").toDF().collect()] == [
        (10, "2000-01-02")
    ]
    with pytest.raises(AnalysisException) as there:
        DeltaTable.create(enabled).tableName(f"{database}.built").addColumn("x", "int").execute()
    assert there.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    DeltaTable.createIfNotExists(enabled).tableName(f"{database}.built").addColumn("x", "int").execute()
    fields = StructType([StructField("k", LongType())])
    DeltaTable.createOrReplace(enabled).tableName(f"{database}.built").addColumns(fields).clusterBy("k").execute()
    assert enabled.table(f"{database}.built").columns == ["k"]
    with pytest.raises(AnalysisException):
        DeltaTable.replace(enabled).tableName(f"{database}.other").addColumns(fields).execute()
    DeltaTable.create().location(str(tmp_path / "p")).addColumns(fields).execute()
    assert DeltaTable.isDeltaTable(enabled, f"delta.`{tmp_path / 'p'}`")
    cloned = DeltaTable.forName(enabled, f"{database}.built").clone(f"{database}.copy", isShallow=True)
    assert cloned.toDF().columns == ["k"]
    assert enabled.catalog.tableExists(f"{database}.copy")


def test_the_table_behind(enabled: SparkSession, delta: Any, place: str) -> None:
    assert isinstance(delta.DeltaTable.forPath(enabled, place).holdfast, holdfast.DeltaTable)


@pytest.mark.connect
def test_what_is_no_condition_is_a_type_error_as_with_delta_spark(
    enabled: SparkSession, delta: Any, place: str
) -> None:
    table = delta.DeltaTable.forPath(enabled, place)
    source = enabled.range(4, 7).withColumn("n", F.lit(9)).alias("s")
    merge = table.alias("t").merge(source, "t.id = s.id")
    enabled.sql(f"CREATE TABLE cond_t USING delta LOCATION '{place}'")
    try:
        calls: list[Callable[[Any], Any]] = [
            table.delete,
            lambda c: table.update(c, {"n": "1"}),
            lambda c: table.merge(source, c),
            lambda c: table.optimize().where(c),
            lambda c: merge.whenMatchedUpdate(c, {"n": "s.n"}),
            merge.whenMatchedUpdateAll,
            merge.whenMatchedDelete,
            lambda c: merge.whenNotMatchedInsert(c, {"id": "s.id"}),
            merge.whenNotMatchedInsertAll,
            lambda c: merge.whenNotMatchedBySourceUpdate(c, {"n": "0"}),
            merge.whenNotMatchedBySourceDelete,
            lambda c: source.write.format("delta").mode("overwrite").option("replaceWhere", c).save(place),
            lambda c: source.writeTo("cond_t").overwrite(c),
            lambda c: source.mergeInto("cond_t", c),
            lambda c: source.mergeInto("cond_t", F.col("cond_t.id") == F.col("s.id")).whenMatched(c).delete(),
        ]
        for call, wrong in itertools.product(calls, (True, 1, ["id = 1"])):
            with pytest.raises(TypeError, match="takes a condition"):
                call(wrong)
    finally:
        enabled.sql("DROP TABLE cond_t")
    assert rows(table) == [(i, 0) for i in range(5)]


@pytest.mark.connect
def test_a_star_needs_every_column_unless_the_schema_evolves(enabled: SparkSession, delta: Any, place: str) -> None:
    """As delta-spark has it: a misspelt column of the source is not taken for one that is left out."""
    table = delta.DeltaTable.forPath(enabled, place)
    misspelt = enabled.range(4, 7).withColumn("m", F.lit(9)).alias("s")
    misspelt.createOrReplaceTempView("misspelt")
    begun = table.alias("t").merge(misspelt, "t.id = s.id")
    into = f"MERGE INTO delta.`{place}` AS t USING misspelt AS s ON t.id = s.id WHEN"
    for run in (
        begun.whenMatchedUpdateAll().execute,
        table.alias("t").merge(misspelt, "t.id = s.id").whenNotMatchedInsertAll().execute,
        lambda: enabled.sql(f"{into} MATCHED THEN UPDATE SET *"),
        lambda: enabled.sql(f"{into} NOT MATCHED THEN INSERT *"),
    ):
        with pytest.raises(AnalysisException, match="the source has no column n") as refused:
            run()
        assert refused.value.getCondition() == "DELTA_MERGE_UNRESOLVED_EXPRESSION"
    assert rows(table) == [(i, 0) for i in range(5)]
    evolving = table.alias("t").merge(misspelt, "t.id = s.id").withSchemaEvolution()
    evolving.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert sorted((r.id, r.n, r.m) for r in table.toDF().where("id > 3").collect()) == [
        (4, 0, 9),
        (5, None, 9),
        (6, None, 9),
    ]
