from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import DeltaTable
from holdfast.errors import SchemaMismatch


def rows(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.range(start, end).select("id", (F.col("id") % 2).alias("p"))


def ids(spark: SparkSession, path: str) -> list[int]:
    return sorted(row.id for row in spark.read.format("delta").load(path).collect())


@pytest.mark.connect
def test_the_save_modes(enabled: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    rows(enabled, 0, 2).write.format("delta").partitionBy("p").save(place)
    assert DeltaTable.forPath(enabled, place).version == 0
    with pytest.raises(AnalysisException) as there:
        rows(enabled, 0, 2).write.format("delta").mode("error").save(place)
    assert there.value.getCondition() == "DELTA_PATH_EXISTS"
    rows(enabled, 5, 6).write.format("delta").mode("ignore").save(place)
    rows(enabled, 2, 4).write.format("delta").mode("append").save(place)
    assert ids(enabled, place) == [0, 1, 2, 3]
    assert len(enabled.read.format("delta").load(place).where("p = 1").inputFiles()) == 2
    rows(enabled, 9, 10).write.mode("overwrite").save(place, format="delta", replaceWhere="p = 1")
    assert ids(enabled, place) == [0, 2, 9]
    rows(enabled, 8, 9).write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(place)
    assert ids(enabled, place) == [8, 9]
    rows(enabled, 1, 2).write.format("delta").mode("overwrite").save(place)
    assert ids(enabled, place) == [1]


def test_schemas_meet_or_are_refused(enabled: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    rows(enabled, 0, 2).write.format("delta").save(place)
    wide = rows(enabled, 2, 3).withColumn("more", F.lit("x"))
    with pytest.raises(AnalysisException) as mismatch:
        wide.write.format("delta").mode("append").save(place)
    assert isinstance(mismatch.value, SchemaMismatch)
    assert mismatch.value.getCondition() == "DELTA_METADATA_MISMATCH"
    wide.write.format("delta").mode("append").option("mergeSchema", "true").save(place)
    assert enabled.read.format("delta").load(place).columns == ["id", "p", "more"]
    enabled.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    try:
        wide.withColumn("most", F.lit(1)).write.format("delta").mode("append").save(place)
    finally:
        enabled.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
    other = enabled.range(1).select(F.col("id").cast("string").alias("name"), F.lit(1).alias("k"))
    other.write.format("delta").mode("overwrite").option("overwriteSchema", True).partitionBy("k").save(place)
    assert enabled.read.format("delta").load(place).columns == ["name", "k"]
    assert DeltaTable.forPath(enabled, place).detailArrow().column("partitionColumns").to_pylist() == [["k"]]
    other.drop("k").write.format("delta").mode("overwrite").option("overwriteSchema", True).save(place)
    assert DeltaTable.forPath(enabled, place).detailArrow().column("partitionColumns").to_pylist() == [[]]
    with pytest.raises(AnalysisException, match="partitioned by"):
        other.write.format("delta").mode("append").partitionBy("name").save(place)


def test_what_a_write_says_of_itself(enabled: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    write = rows(enabled, 0, 2).write.format("delta").option("userMetadata", "first")
    write.option("delta.enableChangeDataFeed", "true").option("txnAppId", "a").option("txnVersion", 1).save(place)
    rows(enabled, 2, 3).write.format("delta").mode("append").options(txnAppId="a", txnVersion="1").save(place)
    assert ids(enabled, place) == [0, 1]
    enabled.conf.set("spark.databricks.delta.commitInfo.userMetadata", "second")
    enabled.conf.set("spark.databricks.delta.properties.defaults.appendOnly", "true")
    try:
        rows(enabled, 2, 3).write.format("delta").mode("append").option("compression", "snappy").save(place)
        rows(enabled, 0, 1).write.format("delta").save(place + "2")
    finally:
        enabled.conf.unset("spark.databricks.delta.commitInfo.userMetadata")
        enabled.conf.unset("spark.databricks.delta.properties.defaults.appendOnly")
    table = DeltaTable.forPath(enabled, place)
    history = table.historyArrow().to_pylist()
    assert [h["userMetadata"] for h in history] == ["second", "first"]
    assert history[1]["operation"] == "WRITE"
    feed = enabled.read.format("delta").option("readChangeFeed", True).option("startingVersion", 0).load(place)
    assert feed.columns[-3:] == ["_change_type", "_commit_version", "_commit_timestamp"]
    assert feed.count() == 3
    properties = dict(DeltaTable.forPath(enabled, place + "2").detailArrow().column("properties").to_pylist()[0])
    assert properties["delta.appendOnly"] == "true"


def test_options_work_or_are_refused(enabled: SparkSession, tmp_path: Path) -> None:
    write = rows(enabled, 0, 2).write.format("delta")
    for name, value in {
        "maxRecordsPerFile": "ten",
        "dataChange": "false",
        "mergeShema": "true",
        "txnAppId": "a",
    }.items():
        with pytest.raises(PySparkException, match=name.replace("mergeShema", "mergeSchema")):
            rows(enabled, 0, 2).write.format("delta").option(name, value).save(str(tmp_path / "no"))
    assert not (tmp_path / "no").exists()
    write.option("checkpointLocation", "of nobody's").save(str(tmp_path / "yes"))
    with pytest.raises(AnalysisException):
        write.mode("upsert").save(str(tmp_path / "yes"))


def counts(spark: SparkSession, path: str) -> list[int]:
    """How many rows each file has, the fewest first."""
    per_file = spark.read.format("delta").load(path).groupBy("_metadata.file_name").count()
    return sorted(row["count"] for row in per_file.collect())


def test_files_have_no_more_rows_than_they_may(enabled: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    enabled.range(0, 10, 1, 1).write.format("delta").option("maxRecordsPerFile", 4).save(place)
    assert counts(enabled, place) == [2, 4, 4]
    enabled.conf.set("spark.sql.files.maxRecordsPerFile", "3")
    try:
        enabled.range(0, 7, 1, 1).write.format("delta").mode("overwrite").save(place)
        assert counts(enabled, place) == [1, 3, 3]
        enabled.range(0, 7, 1, 1).write.format("delta").mode("overwrite").option("maxRecordsPerFile", 0).save(place)
        assert counts(enabled, place) == [7]
    finally:
        enabled.conf.unset("spark.sql.files.maxRecordsPerFile")


@pytest.mark.connect
def test_rows_rearranged_by_hand_stay_themselves(enabled: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    rows(enabled, 0, 20).repartition(4).write.format("delta").partitionBy("p").save(place)
    DeltaTable.forPath(enabled, place).delete("id = 7")
    told = ["id", "_metadata.row_id", "_metadata.row_commit_version"]
    before = sorted(tuple(row) for row in enabled.read.format("delta").load(place).select(told).collect())

    def write(read: DataFrame, **options: str) -> None:
        read.write.option("dataChange", "false").options(**options).format("delta").mode("overwrite").save(place)

    write(enabled.read.format("delta").load(place).repartition(1))
    assert counts(enabled, place) == [9, 10]
    half = enabled.read.format("delta").load(place).where("p = 1").repartition(2)
    write(half.sortWithinPartitions("id"), replaceWhere="p = 1", maxRecordsPerFile="3")
    assert max(counts(enabled, place)) == 10
    assert sum(counts(enabled, place)) == 19
    after = enabled.read.format("delta").load(place).select(told)
    assert sorted(tuple(row) for row in after.collect()) == before
    table = DeltaTable.forPath(enabled, place)
    assert table.changes(2, 3).toDF().count() == 0
    entries = [json.loads(x) for x in (Path(place) / "_delta_log" / f"{2:020}.json").read_text().splitlines()]
    assert {entry[kind]["dataChange"] for entry in entries for kind in ("add", "remove") if kind in entry} == {False}
    read = enabled.read.format("delta").load(place)
    attempts: list[tuple[Callable[[], None], str]] = [
        (lambda: write(read.limit(19)), "optimize"),
        (lambda: write(read.where("id > 3")), "no 19"),
        (lambda: write(read.where("p = 0"), replaceWhere="p = 1"), "replaceWhere"),
        (lambda: write(read, mergeSchema="true"), "mergeSchema"),
        (lambda: read.write.format("delta").mode("append").option("dataChange", "false").save(place), "overwrite"),
    ]
    for wrong, why in attempts:
        with pytest.raises(PySparkException, match=why):
            wrong()
    rows(enabled, 20, 21).write.format("delta").mode("append").save(place)
    with pytest.raises(PySparkException, match="read them again"):
        write(read.coalesce(1))
    assert DeltaTable.forPath(enabled, place).version == 4


def test_rows_without_ids_are_rearranged_too(enabled: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    plain = {"delta.enableRowTracking": "false", "delta.enableDeletionVectors": "false"}
    rows(enabled, 0, 20).repartition(4).write.format("delta").options(**plain).save(place)
    read = enabled.read.format("delta").load(place)
    again = read.distinct().repartition(2).write.format("delta").mode("overwrite").option("dataChange", "false")
    again.save(place)
    assert ids(enabled, place) == list(range(20))
    assert len(counts(enabled, place)) == 2
    with pytest.raises(PySparkException, match="columns"):
        read.select("id").write.format("delta").mode("overwrite").option("dataChange", "false").save(place)


def test_delta_as_the_default_source(enabled: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    enabled.conf.set("spark.sql.sources.default", "delta")
    try:
        rows(enabled, 0, 2).write.save(place)
        assert ids(enabled, place) == sorted(row.id for row in enabled.read.load(place).collect()) == [0, 1]
    finally:
        enabled.conf.unset("spark.sql.sources.default")
