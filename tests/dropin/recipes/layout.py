"""Layout: compaction, Z-order, liquid clustering, deletion vectors and their purge."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.dropin.recipes import told


def compaction(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/t"
    for start in range(3):
        spark.range(start, start + 1).coalesce(1).write.format("delta").mode("append").save(path)
    found = DeltaTable.forPath(spark, path).optimize().executeCompaction()
    assert found.columns == ["path", "metrics"]
    metrics = found.first()["metrics"]
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"]) == (1, 3)
    assert told(spark.read.format("delta").load(path)) == [(0,), (1,), (2,)]
    assert spark.sql(f"OPTIMIZE delta.`{path}`").first()["metrics"]["numFilesRemoved"] == 0


def compaction_of_a_partition(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/t"
    for _ in range(2):
        frame = spark.createDataFrame([(1, "2021-11-18"), (2, "2021-11-19")], "id INT, day STRING").coalesce(1)
        frame.write.format("delta").partitionBy("day").mode("append").save(path)
    metrics = (
        DeltaTable.forPath(spark, path).optimize().where("day = '2021-11-18'").executeCompaction().first()["metrics"]
    )
    assert (metrics["numFilesAdded"], metrics["numFilesRemoved"]) == (1, 2)
    metrics = spark.sql(f"OPTIMIZE '{path}' WHERE day = '2021-11-19'").first()["metrics"]
    assert metrics["numFilesRemoved"] == 2


def z_order(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/t"
    for start in (0, 50):
        spark.range(start, start + 50).selectExpr("id", "id % 7 AS k").write.format("delta").mode("append").save(path)
    DeltaTable.forPath(spark, path).optimize().executeZOrderBy("k", "id")
    spark.sql(f"OPTIMIZE delta.`{path}` ZORDER BY (k)")
    assert spark.read.format("delta").load(path).where("k = 3").count() == 14
    last = spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").first()
    assert last["operation"] == "OPTIMIZE"
    assert last["operationParameters"]["zOrderBy"] == '["k"]'


def clustering(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, k INT) USING DELTA CLUSTER BY (k)")
    spark.range(50).selectExpr("CAST(id AS INT) AS id", "CAST(id % 5 AS INT) AS k").write.format("delta").mode(
        "append"
    ).save(path)
    spark.sql(f"OPTIMIZE delta.`{path}`")
    assert spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first()["clusteringColumns"] == ["k"]
    spark.sql(f"ALTER TABLE delta.`{path}` CLUSTER BY (id, k)")
    assert DeltaTable.forPath(spark, path).detail().first()["clusteringColumns"] == ["id", "k"]
    spark.sql(f"OPTIMIZE delta.`{path}` FULL")
    spark.sql(f"ALTER TABLE delta.`{path}` CLUSTER BY NONE")
    assert spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first()["clusteringColumns"] == []
    assert spark.read.format("delta").load(path).where("id = 7").count() == 1


def clustering_through_apis(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    (
        DeltaTable.create(spark)
        .location(f"{where}/built")
        .addColumn("id", "INT")
        .addColumn("k", "STRING")
        .clusterBy("k")
        .execute()
    )
    assert DeltaTable.forPath(spark, f"{where}/built").detail().first()["clusteringColumns"] == ["k"]


def deletion_vectors(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.range(10).coalesce(1).write.format("delta").save(path)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id IN (3, 4)")
    metrics = spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").first()["operationMetrics"]
    assert (metrics["numDeletedRows"], metrics["numDeletionVectorsAdded"], metrics["numCopiedRows"]) == ("2", "1", "0")
    assert spark.read.format("delta").load(path).count() == 8
    spark.sql(f"REORG TABLE delta.`{path}` APPLY (PURGE)")
    assert spark.read.format("delta").load(path).count() == 8
    assert spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").first()["operation"] == "REORG"
