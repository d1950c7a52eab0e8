"""Batch reads and writes: modes, partitions, conditions, schemas, idempotent writes, properties."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.dropin.recipes import refused, told


def partitioned_by(spark: SparkSession, where: str) -> None:
    path = f"{where}/events"
    events = spark.createDataFrame([(1, "eu"), (2, "us"), (3, "eu")], "id INT, region STRING")
    events.write.format("delta").partitionBy("region").save(path)
    assert told(spark.read.format("delta").load(path).where("region = 'eu'").select("id")) == [(1,), (3,)]
    assert spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first()["partitionColumns"] == ["region"]


def modes(spark: SparkSession, where: str) -> None:
    from pyspark.errors import AnalysisException

    path = f"{where}/t"
    one, two = spark.range(1), spark.range(1, 2)
    one.write.format("delta").mode("append").save(path)
    two.write.mode("append").format("delta").save(path)
    two.write.format("delta").mode("ignore").save(path)
    assert told(spark.read.format("delta").load(path)) == [(0,), (1,)]
    with refused(AnalysisException, "DELTA_PATH_EXISTS"):
        two.write.format("delta").save(path)
    two.write.save(path, format="delta", mode="overwrite")
    assert told(spark.read.load(path, format="delta")) == [(1,)]


def replace_where(spark: SparkSession, where: str) -> None:
    from pyspark.errors import AnalysisException

    path = f"{where}/events"
    events = spark.createDataFrame([("2017-01-01", 1), ("2017-01-02", 2), ("2017-02-01", 3)], "day STRING, n INT")
    events.write.format("delta").partitionBy("day").save(path)
    january = spark.createDataFrame([("2017-01-05", 50)], "day STRING, n INT")
    (
        january.write.format("delta")
        .mode("overwrite")
        .option("replaceWhere", "day >= '2017-01-01' AND day <= '2017-01-31'")
        .save(path)
    )
    assert told(spark.read.format("delta").load(path)) == [("2017-01-05", 50), ("2017-02-01", 3)]
    with refused(AnalysisException, "DELTA_REPLACE_WHERE_MISMATCH"):
        events.write.format("delta").mode("overwrite").option("replaceWhere", "day = '2017-01-01'").save(path)


def replace_where_on_any_column(spark: SparkSession, where: str) -> None:
    path = f"{where}/events"
    spark.range(10).selectExpr("id", "id * 10 AS v").write.format("delta").save(path)
    news = spark.createDataFrame([(3, 333)], "id LONG, v LONG")
    news.write.format("delta").mode("overwrite").option("replaceWhere", "id BETWEEN 2 AND 8").save(path)
    assert told(spark.read.format("delta").load(path)) == [(0, 0), (1, 10), (3, 333), (9, 90)]


def dynamic_partitions(spark: SparkSession, where: str) -> None:
    path = f"{where}/events"
    spark.createDataFrame([("a", 1), ("b", 2)], "p STRING, n INT").write.format("delta").partitionBy("p").save(path)
    news = spark.createDataFrame([("b", 20)], "p STRING, n INT")
    news.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(path)
    assert told(spark.read.format("delta").load(path)) == [("a", 1), ("b", 20)]


def a_schema_that_grows(spark: SparkSession, where: str) -> None:
    from pyspark.errors import AnalysisException

    path = f"{where}/t"
    spark.createDataFrame([(1,)], "id INT").write.format("delta").save(path)
    wider = spark.createDataFrame([(2, "new")], "id INT, note STRING")
    with refused(AnalysisException, "note"):
        wider.write.format("delta").mode("append").save(path)
    wider.write.format("delta").mode("append").option("mergeSchema", "true").save(path)
    assert told(spark.read.format("delta").load(path)) == [(1, None), (2, "new")]


def a_schema_replaced(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.createDataFrame([(1,)], "id INT").write.format("delta").save(path)
    other = spark.createDataFrame([("x", 1.5)], "name STRING, weight DOUBLE")
    other.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    found = spark.read.format("delta").load(path)
    assert found.columns == ["name", "weight"]
    assert told(found) == [("x", 1.5)]


def the_same_batch_twice(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    batch = spark.range(3)
    for _ in range(2):
        batch.write.format("delta").mode("append").option("txnAppId", "job").option("txnVersion", 1).save(path)
    assert spark.read.format("delta").load(path).count() == 3
    batch.write.format("delta").mode("append").option("txnAppId", "job").option("txnVersion", 2).save(path)
    assert spark.read.format("delta").load(path).count() == 6


def metadata_of_a_commit(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/t"
    spark.range(1).write.format("delta").option("userMetadata", "the first load").save(path)
    spark.range(1).write.format("delta").mode("overwrite").option("userMetadata", "fixed").save(path)
    said = DeltaTable.forPath(spark, path).history().select("version", "operation", "userMetadata")
    assert told(said) == [(0, "WRITE", "the first load"), (1, "WRITE", "fixed")]


def properties_when_created(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.range(1).write.format("delta").option("delta.appendOnly", "true").save(path)
    assert spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first()["properties"]["delta.appendOnly"] == "true"
    spark.conf.set("spark.databricks.delta.properties.defaults.deletedFileRetentionDuration", "interval 3 days")
    try:
        spark.range(1).write.format("delta").save(f"{where}/u")
    finally:
        spark.conf.unset("spark.databricks.delta.properties.defaults.deletedFileRetentionDuration")
    found = spark.sql(f"DESCRIBE DETAIL delta.`{where}/u`").first()["properties"]
    assert found["delta.deletedFileRetentionDuration"] == "interval 3 days"


def at_a_time(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.range(1).write.format("delta").save(path)
    spark.range(1).write.format("delta").mode("append").save(path)
    first = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").where("version = 0").first()["timestamp"]
    then = first.strftime("%Y-%m-%d %H:%M:%S.%f")
    assert spark.read.format("delta").option("timestampAsOf", then).load(path).count() == 1
    assert spark.sql(f"SELECT * FROM delta.`{path}` TIMESTAMP AS OF '{then}'").count() == 1


def values_that_are_hard(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    frame = spark.sql(
        "SELECT 1Y AS b, 2S AS s, 3 AS i, 4L AS l, 1.5F AS f, 2.5D AS d, 1.25BD AS m, DATE'2024-02-29' AS day, "
        "TIMESTAMP'2024-02-29 12:00:00' AS at, true AS yes, 'ä ''q''' AS t, X'00FF' AS raw, "
        "array(1, NULL) AS xs, map('a', 1) AS kv, named_struct('x', 1, 'y', 'z') AS st, CAST(NULL AS STRING) AS nothing"
    )
    frame.write.format("delta").save(path)
    found = spark.read.format("delta").load(path)
    assert found.schema.simpleString() == frame.schema.simpleString()
    assert told(found) == told(frame)
