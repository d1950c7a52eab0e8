"""Table utility commands: vacuum, history, detail, restore, clone, conversion, manifests."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.dropin.recipes import files, refused, told


def vacuum(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/t"
    spark.range(3).coalesce(1).write.format("delta").save(path)
    spark.range(3, 6).coalesce(1).write.format("delta").mode("overwrite").save(path)
    assert len(files(path)) == 2
    DeltaTable.forPath(spark, path).vacuum()
    assert len(files(path)) == 2
    with refused(Exception, "retentionDurationCheck"):
        DeltaTable.forPath(spark, path).vacuum(0)
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        assert len(spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS DRY RUN").collect()) == 1
        assert len(files(path)) == 2
        spark.sql(f"VACUUM '{path}' RETAIN 0 HOURS")
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert len(files(path)) == 1
    assert told(spark.read.format("delta").load(path)) == [(3,), (4,), (5,)]


def history(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/t"
    spark.range(3).coalesce(1).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    table.delete("id = 0")
    table.update("id = 1", {"id": "10"})
    full = table.history()
    assert [row["operation"] for row in full.orderBy("version").collect()] == ["WRITE", "DELETE", "UPDATE"]
    last = table.history(1).collect()
    assert [row["version"] for row in last] == [2]
    assert last[0]["operationMetrics"]["numUpdatedRows"] == "1"
    assert [row["version"] for row in spark.sql(f"DESCRIBE HISTORY '{path}' LIMIT 2").collect()] == [2, 1]
    assert full.columns == [
        "version",
        "timestamp",
        "userId",
        "userName",
        "operation",
        "operationParameters",
        "job",
        "notebook",
        "clusterId",
        "readVersion",
        "isolationLevel",
        "isBlindAppend",
        "operationMetrics",
        "userMetadata",
        "engineInfo",
    ]


def detail(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/t"
    spark.range(3).coalesce(1).write.format("delta").save(path)
    found = DeltaTable.forPath(spark, path).detail().first()
    assert found["format"] == "delta"
    assert found["numFiles"] == 1
    assert found["location"].endswith("/t")
    assert found["partitionColumns"] == []
    assert (found["minReaderVersion"], found["minWriterVersion"]) >= (1, 2)
    assert found["sizeInBytes"] > 0


def restore(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/t"
    spark.range(3).coalesce(1).write.format("delta").save(path)
    spark.range(1).coalesce(1).write.format("delta").mode("overwrite").save(path)
    table = DeltaTable.forPath(spark, path)
    metrics = table.restoreToVersion(0).first()
    assert metrics["num_restored_files"] == 1
    assert metrics["num_removed_files"] == 1
    assert told(table.toDF()) == [(0,), (1,), (2,)]
    spark.sql(f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 1")
    assert told(spark.read.format("delta").load(path)) == [(0,)]


def shallow_clone(spark: SparkSession, where: str) -> None:
    path, copy = f"{where}/t", f"{where}/copy"
    spark.range(3).write.format("delta").save(path)
    spark.sql(f"CREATE TABLE delta.`{copy}` SHALLOW CLONE delta.`{path}`")
    spark.sql(f"DELETE FROM delta.`{copy}` WHERE id = 1")
    assert told(spark.read.format("delta").load(copy)) == [(0,), (2,)]
    assert told(spark.read.format("delta").load(path)) == [(0,), (1,), (2,)]


def convert_parquet(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    spark.range(4).selectExpr("id", "CAST(id % 2 AS INT) AS p").write.partitionBy("p").parquet(f"{where}/a")
    DeltaTable.convertToDelta(spark, f"parquet.`{where}/a`", "p int")
    assert DeltaTable.isDeltaTable(spark, f"{where}/a")
    assert told(spark.read.format("delta").load(f"{where}/a").where("p = 1").select("id")) == [(1,), (3,)]
    spark.range(4).write.parquet(f"{where}/b")
    assert not DeltaTable.isDeltaTable(spark, f"{where}/b")
    spark.sql(f"CONVERT TO DELTA parquet.`{where}/b`")
    assert spark.read.format("delta").load(f"{where}/b").count() == 4


def manifests(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/t"
    spark.range(4).coalesce(1).write.format("delta").save(path)
    DeltaTable.forPath(spark, path).generate("symlink_format_manifest")
    listed = [file for file in Path(path, "_symlink_format_manifest").iterdir() if file.name == "manifest"]
    assert len(listed) == 1
    assert len(listed[0].read_text().split()) == 1


def features(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/t"
    spark.range(1).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    table.upgradeTableProtocol(3, 7)
    table.addFeatureSupport("deletionVectors")
    assert "deletionVectors" in table.detail().first()["tableFeatures"]
