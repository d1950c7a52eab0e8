"""Streams from and into tables: limits, starts, changes upstream, upserts per batch, complete aggregates."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tests.dropin.recipes import refused, told


def into_a_named_table(spark: SparkSession, where: str) -> None:
    spark.range(6).repartition(3).write.format("delta").save(f"{where}/source")
    try:
        query = (
            spark.readStream.format("delta")
            .option("maxFilesPerTrigger", 1)
            .load(f"{where}/source")
            .writeStream.format("delta")
            .outputMode("append")
            .option("checkpointLocation", f"{where}/checkpoint")
            .trigger(availableNow=True)
            .toTable("recipe_streamed")
        )
        query.awaitTermination()
        assert spark.table("recipe_streamed").count() == 6
        stream = spark.readStream.table("recipe_streamed")
        assert stream.isStreaming
        assert stream.columns == ["id"]
    finally:
        spark.sql("DROP TABLE IF EXISTS recipe_streamed")


def goes_on_where_it_stopped(spark: SparkSession, where: str) -> None:
    def step() -> None:
        query = (
            spark.readStream.format("delta")
            .load(f"{where}/source")
            .writeStream.format("delta")
            .option("checkpointLocation", f"{where}/checkpoint")
            .trigger(availableNow=True)
            .start(f"{where}/target")
        )
        query.awaitTermination()

    spark.range(3).write.format("delta").save(f"{where}/source")
    step()
    spark.range(3, 5).write.format("delta").mode("append").save(f"{where}/source")
    step()
    step()
    assert told(spark.read.format("delta").load(f"{where}/target")) == [(n,) for n in range(5)]


def from_a_version(spark: SparkSession, where: str) -> None:
    path = f"{where}/source"
    for start in (0, 10, 20):
        spark.range(start, start + 2).write.format("delta").mode("append").save(path)
    query = (
        spark.readStream.format("delta")
        .option("startingVersion", "1")
        .load(path)
        .writeStream.format("delta")
        .option("checkpointLocation", f"{where}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{where}/target")
    )
    query.awaitTermination()
    assert told(spark.read.format("delta").load(f"{where}/target")) == [(10,), (11,), (20,), (21,)]


def upsert_from_a_stream(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/totals"
    spark.createDataFrame([("a", 1)], "k STRING, n LONG").write.format("delta").save(path)
    news = spark.createDataFrame([("a", 5), ("b", 7)], "k STRING, n LONG")
    news.write.format("delta").save(f"{where}/news")

    def upsert(batch: DataFrame, number: int) -> None:
        table = DeltaTable.forPath(batch.sparkSession, path)
        (
            table.alias("t")
            .merge(batch.alias("s"), "s.k = t.k")
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        )

    query = (
        spark.readStream.format("delta")
        .load(f"{where}/news")
        .writeStream.foreachBatch(upsert)
        .outputMode("update")
        .option("checkpointLocation", f"{where}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert told(spark.read.format("delta").load(path)) == [("a", 5), ("b", 7)]


def complete_aggregates(spark: SparkSession, where: str) -> None:
    spark.createDataFrame([("a", 1), ("a", 2), ("b", 3)], "k STRING, n INT").write.format("delta").save(f"{where}/in")
    query = (
        spark.readStream.format("delta")
        .load(f"{where}/in")
        .groupBy("k")
        .count()
        .writeStream.format("delta")
        .outputMode("complete")
        .option("checkpointLocation", f"{where}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{where}/out")
    )
    query.awaitTermination()
    assert told(spark.read.format("delta").load(f"{where}/out")) == [("a", 2), ("b", 1)]


def changes_upstream(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/source"
    spark.range(4).write.format("delta").save(path)
    DeltaTable.forPath(spark, path).delete("id = 2")
    spark.range(7, 8).write.format("delta").mode("append").save(path)

    def read(name: str, **options: str) -> None:
        query = (
            spark.readStream.format("delta")
            .options(startingVersion="0", **options)
            .load(path)
            .writeStream.format("delta")
            .option("checkpointLocation", f"{where}/{name}-checkpoint")
            .trigger(availableNow=True)
            .start(f"{where}/{name}")
        )
        query.awaitTermination()

    with refused(Exception, "skipChangeCommits"):
        read("strict")
    read("lenient", skipChangeCommits="true")
    assert told(spark.read.format("delta").load(f"{where}/lenient")) == [(0,), (1,), (2,), (3,), (7,)]


def a_stream_of_changes(spark: SparkSession, where: str) -> None:
    path = f"{where}/source"
    spark.sql(f"CREATE TABLE delta.`{path}` (id LONG) USING DELTA TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.range(3).write.format("delta").mode("append").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    query = (
        spark.readStream.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", 1)
        .load(path)
        .select("id", "_change_type", "_commit_version")
        .writeStream.format("delta")
        .option("checkpointLocation", f"{where}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{where}/target")
    )
    query.awaitTermination()
    assert told(spark.read.format("delta").load(f"{where}/target")) == [
        (0, "insert", 1),
        (1, "delete", 2),
        (1, "insert", 1),
        (2, "insert", 1),
    ]
