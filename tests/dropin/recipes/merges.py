"""Merges: deduplication, slowly changing dimensions of type 2, changes of a source, schemas that grow, full syncs."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.dropin.recipes import refused, told


def without_duplicates(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/logs"
    spark.createDataFrame([(1, "a"), (2, "b")], "id INT, line STRING").write.format("delta").save(path)
    news = spark.createDataFrame([(2, "b"), (3, "c"), (3, "c")], "id INT, line STRING").dropDuplicates(["id"])
    result = (
        DeltaTable.forPath(spark, path)
        .alias("logs")
        .merge(news.alias("news"), "logs.id = news.id")
        .whenNotMatchedInsertAll()
        .execute()
    )
    assert told(DeltaTable.forPath(spark, path).toDF()) == [(1, "a"), (2, "b"), (3, "c")]
    assert tuple(result.first()) == (1, 0, 0, 1)
    assert result.columns == ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]


def slowly_changing_dimension(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/customers"
    schema = "id INT, address STRING, current BOOLEAN, since STRING, until STRING"
    known = [(1, "old street", True, "2020", None), (2, "hill", True, "2021", None), (3, "quay", True, "2022", None)]
    spark.createDataFrame(known, schema).write.format("delta").save(path)
    customers = DeltaTable.forPath(spark, path)
    news = spark.createDataFrame(
        [(1, "new street", "2024"), (4, "park", "2024"), (2, "hill", "2024")], "id INT, address STRING, since STRING"
    )
    moved = (
        news.alias("news")
        .join(customers.toDF().alias("customers"), "id")
        .where("customers.current = true AND news.address <> customers.address")
        .selectExpr("NULL AS mergeKey", "news.*")
    )
    staged = moved.union(news.selectExpr("id AS mergeKey", "*"))
    (
        customers.alias("customers")
        .merge(staged.alias("staged"), "customers.id = mergeKey")
        .whenMatchedUpdate(
            condition="customers.current = true AND customers.address <> staged.address",
            set={"current": "false", "until": "staged.since"},
        )
        .whenNotMatchedInsert(
            values={
                "id": "staged.id",
                "address": "staged.address",
                "current": "true",
                "since": "staged.since",
                "until": "null",
            }
        )
        .execute()
    )
    assert told(customers.toDF().select("id", "address", "current", "until")) == [
        (1, "new street", True, None),
        (1, "old street", False, "2024"),
        (2, "hill", True, None),
        (3, "quay", True, None),
        (4, "park", True, None),
    ]


def changes_of_a_source(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/target"
    spark.createDataFrame([("a", "0"), ("b", "1"), ("c", "2"), ("d", "3")], "key STRING, value STRING").write.format(
        "delta"
    ).save(path)
    changes = spark.createDataFrame(
        [
            ("a", "10", False, 0),
            ("a", None, True, 1),
            ("b", None, True, 2),
            ("c", None, True, 3),
            ("c", "20", False, 4),
            ("e", "50", False, 5),
        ],
        "key STRING, newValue STRING, deleted BOOLEAN, time LONG",
    )
    latest = (
        changes.selectExpr("key", "struct(time, newValue, deleted) AS otherCols")
        .groupBy("key")
        .agg({"otherCols": "max"})
        .selectExpr("key", "`max(otherCols)`.*")
    )
    (
        DeltaTable.forPath(spark, path)
        .alias("t")
        .merge(latest.alias("s"), "s.key = t.key")
        .whenMatchedDelete(condition="s.deleted = true")
        .whenMatchedUpdate(set={"key": "s.key", "value": "s.newValue"})
        .whenNotMatchedInsert(condition="s.deleted = false", values={"key": "s.key", "value": "s.newValue"})
        .execute()
    )
    assert told(spark.read.format("delta").load(path)) == [("c", "20"), ("d", "3"), ("e", "50")]


def a_full_sync(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/t"
    spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "id INT, v STRING").write.format("delta").save(path)
    source = spark.createDataFrame([(2, "B"), (4, "D")], "id INT, v STRING")
    (
        DeltaTable.forPath(spark, path)
        .alias("t")
        .merge(source.alias("s"), "t.id = s.id")
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .whenNotMatchedBySourceUpdate(condition="t.id = 1", set={"v": "'gone'"})
        .whenNotMatchedBySourceDelete()
        .execute()
    )
    assert told(spark.read.format("delta").load(path)) == [(1, "gone"), (2, "B"), (4, "D")]


def in_sql(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, v STRING, n INT) USING DELTA")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a', 0), (2, 'b', 0), (3, 'c', 0)")
    result = spark.sql(
        f"""
        MERGE INTO delta.`{path}` t
        USING (SELECT * FROM VALUES (1, 'A', true), (2, 'B', false), (9, 'I', false) AS s(id, v, gone)) s
        ON t.id = s.id -- the key
        WHEN MATCHED AND s.gone THEN DELETE
        WHEN MATCHED THEN UPDATE SET t.v = s.v, n = t.n + 1
        WHEN NOT MATCHED AND NOT s.gone THEN INSERT (id, v, n) VALUES (s.id, s.v, -1)
        WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET t.v = concat(t.v, '!')
        """
    )
    assert tuple(result.first()) == (4, 2, 1, 1)
    assert told(spark.sql(f"SELECT * FROM delta.`{path}`")) == [(2, "B", 1), (3, "c!", 0), (9, "I", -1)]
    spark.createDataFrame([(2, "two", 5), (7, "seven", 6)], "id INT, v STRING, n INT").createOrReplaceTempView("news")
    spark.sql(
        f"MERGE INTO delta.`{path}` AS old USING news ON old.id = news.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert told(spark.sql(f"SELECT id, v FROM delta.`{path}`")) == [(2, "two"), (3, "c!"), (7, "seven"), (9, "I")]


def a_schema_that_grows(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/t"
    spark.createDataFrame([(1, "a")], "id INT, v STRING").write.format("delta").save(path)
    source = spark.createDataFrame([(1, "A", 10), (2, "B", 20)], "id INT, v STRING, extra INT")
    (
        DeltaTable.forPath(spark, path)
        .alias("t")
        .merge(source.alias("s"), "t.id = s.id")
        .withSchemaEvolution()
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
    )
    assert told(spark.read.format("delta").load(path)) == [(1, "A", 10), (2, "B", 20)]
    spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    try:
        more = spark.createDataFrame([(3, "C", 30, True)], "id INT, v STRING, extra INT, flag BOOLEAN")
        table = DeltaTable.forPath(spark, path)
        table.alias("t").merge(more.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()
    finally:
        spark.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
    assert told(spark.read.format("delta").load(path).where("id = 3")) == [(3, "C", 30, True)]


def two_sources_for_a_row(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path = f"{where}/t"
    spark.range(2).write.format("delta").save(path)
    twice = spark.createDataFrame([(1, 5), (1, 6)], "id LONG, other LONG")
    merge = DeltaTable.forPath(spark, path).alias("t").merge(twice.alias("s"), "t.id = s.id")
    with refused(Exception, "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"):
        merge.whenMatchedUpdate(set={"id": "s.other"}).execute()
    assert told(spark.read.format("delta").load(path)) == [(0,), (1,)]
