"""The change data feed: turned on, read in a range as a batch, by SQL functions, and carried downstream."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.dropin.recipes import told


def _table(spark: SparkSession, path: str) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, v STRING) USING DELTA TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    spark.sql(f"UPDATE delta.`{path}` SET v = 'B' WHERE id = 2")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")


def in_a_range(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    _table(spark, path)
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2)
    found = feed.option("endingVersion", 3).load(path)
    assert found.columns == ["id", "v", "_change_type", "_commit_version", "_commit_timestamp"]
    assert told(found.drop("_commit_timestamp")) == [
        (2, "B", "update_postimage", 2),
        (2, "b", "update_preimage", 2),
        (3, "c", "delete", 3),
    ]
    assert (
        spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(path).count() == 6
    )


def by_function(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    _table(spark, path)
    found = spark.sql(f"SELECT id, _change_type FROM table_changes_by_path('{path}', 2)")
    assert told(found) == [(2, "update_postimage"), (2, "update_preimage"), (3, "delete")]
    spark.sql(f"CREATE TABLE recipe_fed USING DELTA LOCATION '{path}'")
    try:
        found = spark.sql(
            "SELECT c.id FROM table_changes('recipe_fed', 0, 3) c WHERE c._change_type = 'insert' ORDER BY c.id"
        )
        assert [row[0] for row in found.collect()] == [1, 2, 3]
        assert spark.read.option("readChangeFeed", "true").option("startingVersion", 3).table("recipe_fed").count() == 1
    finally:
        spark.sql("DROP TABLE recipe_fed")


def turned_on_later(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.range(3).write.format("delta").save(path)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 0")
    feed = spark.read.format("delta").option("readChangeFeed", "true")
    assert told(feed.option("startingVersion", 1).load(path).select("id", "_change_type")) == [(0, "delete")]


def carried_downstream(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    path, copy = f"{where}/t", f"{where}/copy"
    _table(spark, path)
    spark.read.format("delta").option("versionAsOf", 1).load(path).write.format("delta").save(copy)
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(path)
    changes = feed.where("_change_type != 'update_preimage'")
    (
        DeltaTable.forPath(spark, copy)
        .alias("t")
        .merge(changes.alias("s"), "t.id = s.id")
        .whenMatchedDelete(condition="s._change_type = 'delete'")
        .whenMatchedUpdate(set={"v": "s.v"})
        .whenNotMatchedInsert(condition="s._change_type != 'delete'", values={"id": "s.id", "v": "s.v"})
        .execute()
    )
    assert told(spark.read.format("delta").load(copy)) == [(1, "a"), (2, "B")]
