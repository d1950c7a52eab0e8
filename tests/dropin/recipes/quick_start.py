"""The first page: a table made, overwritten, changed on a condition, read as it was."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.dropin.recipes import told


def create_and_read(spark: SparkSession, where: str) -> None:
    path = f"{where}/numbers"
    spark.range(0, 5).write.format("delta").save(path)
    assert told(spark.read.format("delta").load(path)) == [(n,) for n in range(5)]


def overwrite(spark: SparkSession, where: str) -> None:
    path = f"{where}/numbers"
    spark.range(0, 5).write.format("delta").save(path)
    spark.range(5, 10).write.format("delta").mode("overwrite").save(path)
    assert told(spark.read.format("delta").load(path)) == [(n,) for n in range(5, 10)]


def change_on_a_condition(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable
    from pyspark.sql.functions import col, expr

    path = f"{where}/numbers"
    spark.range(5, 10).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    table.update(condition=expr("id % 2 == 0"), set={"id": expr("id + 100")})
    assert told(spark.read.format("delta").load(path)) == [(106,), (108,), (5,), (7,), (9,)]
    table.delete(condition=expr("id % 2 == 0"))
    assert told(spark.read.format("delta").load(path)) == [(5,), (7,), (9,)]
    news = spark.range(0, 8)
    (
        table.alias("old")
        .merge(news.alias("new"), "old.id = new.id")
        .whenMatchedUpdate(set={"id": col("new.id")})
        .whenNotMatchedInsert(values={"id": col("new.id")})
        .execute()
    )
    assert told(spark.read.format("delta").load(path)) == [(n,) for n in (0, 1, 2, 3, 4, 5, 6, 7, 9)]


def earlier_versions(spark: SparkSession, where: str) -> None:
    path = f"{where}/numbers"
    spark.range(0, 2).write.format("delta").save(path)
    spark.range(2, 4).write.format("delta").mode("append").save(path)
    assert told(spark.read.format("delta").option("versionAsOf", 0).load(path)) == [(0,), (1,)]
    assert told(spark.read.format("delta").option("versionAsOf", "1").load(path)) == [(0,), (1,), (2,), (3,)]
    assert told(spark.read.format("delta").load(f"{path}@v0")) == [(0,), (1,)]


def write_and_read_a_stream(spark: SparkSession, where: str) -> None:
    source, path = f"{where}/source", f"{where}/target"
    spark.range(0, 4).write.format("delta").save(source)
    stream = spark.readStream.format("delta").load(source).selectExpr("id AS value")
    query = (
        stream.writeStream.format("delta")
        .option("checkpointLocation", f"{where}/checkpoint")
        .trigger(availableNow=True)
        .start(path)
    )
    query.awaitTermination()
    assert told(spark.read.format("delta").load(path)) == [(0,), (1,), (2,), (3,)]


def sql_from_the_start(spark: SparkSession, where: str) -> None:
    path = f"{where}/numbers"
    spark.sql(f"CREATE TABLE delta.`{path}` USING DELTA AS SELECT col1 AS id FROM VALUES 0, 1, 2, 3, 4")
    assert told(spark.sql(f"SELECT * FROM delta.`{path}`")) == [(n,) for n in range(5)]
    spark.sql(f"INSERT OVERWRITE delta.`{path}` SELECT col1 AS id FROM VALUES 5, 6, 7, 8, 9")
    spark.sql(f"UPDATE delta.`{path}` SET id = id + 100 WHERE id % 2 == 0")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 2 == 0")
    assert told(spark.sql(f"SELECT * FROM delta.`{path}`")) == [(5,), (7,), (9,)]
    spark.sql("CREATE OR REPLACE TEMP VIEW newData AS SELECT col1 AS id FROM VALUES 1, 3, 5, 7, 9, 11")
    spark.sql(
        f"""MERGE INTO delta.`{path}` AS oldData
            USING newData
            ON oldData.id = newData.id
            WHEN MATCHED THEN UPDATE SET id = newData.id
            WHEN NOT MATCHED THEN INSERT (id) VALUES (newData.id)"""
    )
    assert told(spark.sql(f"SELECT * FROM delta.`{path}`")) == [(1,), (11,), (3,), (5,), (7,), (9,)]
    assert told(spark.sql(f"SELECT * FROM delta.`{path}` VERSION AS OF 0")) == [(n,) for n in range(5)]
