"""Tables by name: made in SQL, by the builder, by writers; described, altered, dropped."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.dropin.recipes import told


def create_insert_select(spark: SparkSession, where: str) -> None:
    spark.sql("DROP TABLE IF EXISTS recipe_people")
    spark.sql("CREATE TABLE recipe_people (id INT, first STRING, last STRING) USING DELTA")
    try:
        spark.sql("INSERT INTO recipe_people VALUES (1, 'Ada', 'L'), (2, 'Grace', 'H')")
        spark.sql("INSERT INTO recipe_people (last, id) VALUES ('T', 3)")
        rows = [(1, "Ada", "L"), (2, "Grace", "H"), (3, None, "T")]
        assert told(spark.sql("SELECT * FROM recipe_people")) == rows
        assert told(spark.table("recipe_people")) == rows
        assert told(spark.read.table("recipe_people").where("id = 2")) == [(2, "Grace", "H")]
        assert told(spark.sql("SELECT count(*), max(p.id) FROM recipe_people p WHERE p.first IS NOT NULL")) == [(2, 2)]
        assert spark.catalog.tableExists("recipe_people")
        spark.sql("TRUNCATE TABLE recipe_people")
        assert spark.table("recipe_people").count() == 0
    finally:
        spark.sql("DROP TABLE recipe_people")
    assert not spark.catalog.tableExists("recipe_people")


def external_tables(spark: SparkSession, where: str) -> None:
    path = f"{where}/people"
    spark.range(3).write.format("delta").save(path)
    spark.sql(f"CREATE TABLE recipe_external USING DELTA LOCATION '{path}'")
    try:
        assert told(spark.sql("SELECT id FROM recipe_external WHERE id > 0")) == [(1,), (2,)]
        spark.sql("DELETE FROM recipe_external WHERE id = 1")
        spark.sql("CREATE TABLE IF NOT EXISTS recipe_external (id LONG) USING DELTA")
    finally:
        spark.sql("DROP TABLE recipe_external")
    assert Path(path, "_delta_log").is_dir()
    assert told(spark.read.format("delta").load(path)) == [(0,), (2,)]


def save_as_table(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable

    spark.sql("CREATE DATABASE IF NOT EXISTS recipe_db")
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id INT, v STRING")
    try:
        frame.write.format("delta").saveAsTable("recipe_db.saved")
        frame.write.format("delta").mode("append").saveAsTable("recipe_db.saved")
        frame.limit(1).write.insertInto("recipe_db.saved")
        assert spark.table("recipe_db.saved").count() == 5
        table = DeltaTable.forName(spark, "recipe_db.saved")
        table.delete("id = 2")
        assert told(table.toDF()) == [(1, "a")] * 3
        frame.write.format("delta").mode("overwrite").saveAsTable("recipe_db.saved")
        assert told(spark.sql("SELECT * FROM recipe_db.saved")) == [(1, "a"), (2, "b")]
        spark.sql("USE recipe_db")
        try:
            assert told(spark.sql("SELECT id FROM saved WHERE v = 'b'")) == [(2,)]
        finally:
            spark.sql("USE default")
    finally:
        spark.sql("DROP TABLE IF EXISTS recipe_db.saved")
        spark.sql("DROP DATABASE recipe_db CASCADE")


def write_to(spark: SparkSession, where: str) -> None:
    from pyspark.sql.functions import col

    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id INT, p STRING")
    try:
        frame.writeTo("recipe_v2").using("delta").partitionedBy(col("p")).create()
        frame.writeTo("recipe_v2").append()
        assert spark.table("recipe_v2").count() == 4
        frame.where("id = 2").writeTo("recipe_v2").overwrite(col("id") == 2)
        assert told(spark.table("recipe_v2")) == [(1, "a"), (1, "a"), (2, "b")]
        frame.where("id = 1").writeTo("recipe_v2").overwritePartitions()
        assert told(spark.table("recipe_v2")) == [(1, "a"), (2, "b")]
        frame.where("id = 1").writeTo("recipe_v2").using("delta").createOrReplace()
        assert told(spark.table("recipe_v2")) == [(1, "a")]
    finally:
        spark.sql("DROP TABLE IF EXISTS recipe_v2")


def the_builder(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable, IdentityGenerator

    try:
        (
            DeltaTable.createIfNotExists(spark)
            .tableName("recipe_built")
            .addColumn("id", "BIGINT", generatedAlwaysAs=IdentityGenerator())
            .addColumn("born", "TIMESTAMP")
            .addColumn("day", "DATE", generatedAlwaysAs="CAST(born AS DATE)")
            .addColumn("name", dataType="STRING", comment="what people say")
            .property("description", "people")
            .partitionedBy("day")
            .execute()
        )
        spark.sql("INSERT INTO recipe_built (born, name) VALUES (TIMESTAMP'1815-12-10 08:00:00', 'Ada')")
        assert told(spark.sql("SELECT id, CAST(day AS STRING), name FROM recipe_built")) == [(1, "1815-12-10", "Ada")]
    finally:
        spark.sql("DROP TABLE IF EXISTS recipe_built")


def create_table_as(spark: SparkSession, where: str) -> None:
    try:
        spark.sql("CREATE TABLE recipe_ctas USING DELTA PARTITIONED BY (p) AS SELECT id, id % 2 AS p FROM range(4)")
        assert told(spark.sql("SELECT p, count(*) FROM recipe_ctas GROUP BY p")) == [(0, 2), (1, 2)]
        spark.sql("CREATE OR REPLACE TABLE recipe_ctas USING DELTA AS SELECT 'one' AS word")
        assert told(spark.table("recipe_ctas")) == [("one",)]
        spark.sql("REPLACE TABLE recipe_ctas (n INT, word STRING) USING DELTA")
        assert spark.table("recipe_ctas").columns == ["n", "word"]
        assert told(spark.sql("SELECT word FROM recipe_ctas VERSION AS OF 1")) == [("one",)]
    finally:
        spark.sql("DROP TABLE IF EXISTS recipe_ctas")


def joins_with_anything(spark: SparkSession, where: str) -> None:
    spark.sql(f"CREATE TABLE delta.`{where}/o` (id INT, who INT, cents INT) USING DELTA")
    spark.sql(f"INSERT INTO delta.`{where}/o` VALUES (1, 1, 500), (2, 2, 900), (3, 1, 100)")
    spark.createDataFrame([(1, "Ada"), (2, "Bo"), (3, "Cy")], "id INT, name STRING").createOrReplaceTempView("who_is")
    query = f"""
        -- orders per person, also those without any
        WITH spent AS (SELECT who, sum(cents) AS cents FROM delta.`{where}/o` WHERE cents > 50 GROUP BY who)
        SELECT /*+ BROADCAST(w) */ w.name, s.cents
        FROM who_is w LEFT JOIN spent s ON s.who = w.id
        WHERE w.id IN (SELECT who FROM delta.`{where}/o` UNION ALL SELECT 3)
        ORDER BY w.name
    """
    assert [tuple(row) for row in spark.sql(query).collect()] == [("Ada", 600), ("Bo", 900), ("Cy", None)]
    spark.catalog.dropTempView("who_is")


def show_and_describe(spark: SparkSession, where: str) -> None:
    spark.sql(
        "CREATE TABLE recipe_shown (id INT COMMENT 'the key', day DATE) USING DELTA PARTITIONED BY (day) "
        "COMMENT 'to look at' TBLPROPERTIES ('team' = 'us', 'delta.appendOnly' = 'true')"
    )
    try:
        properties = dict(told(spark.sql("SHOW TBLPROPERTIES recipe_shown")))
        assert (properties["team"], properties["delta.appendOnly"]) == ("us", "true")
        assert told(spark.sql("SHOW TBLPROPERTIES recipe_shown ('team')")) == [("team", "us")]
        assert told(spark.sql("SHOW COLUMNS IN recipe_shown")) == [("day",), ("id",)]
        described = {row[0]: (row[1], row[2]) for row in spark.sql("DESCRIBE TABLE recipe_shown").collect()}
        assert described["id"] == ("int", "the key")
        extended = {row[0]: row[1] for row in spark.sql("DESCRIBE TABLE EXTENDED recipe_shown").collect()}
        assert extended["Provider"].lower() == "delta"
        assert extended["Location"].endswith("recipe_shown")
        assert "recipe_shown" in [row["tableName"] for row in spark.sql("SHOW TABLES").collect()]
        detail = spark.sql("DESCRIBE DETAIL recipe_shown").first()
        assert (detail["format"], detail["description"], detail["numFiles"]) == ("delta", "to look at", 0)
        spark.sql("ALTER TABLE recipe_shown RENAME TO recipe_renamed")
        spark.sql("ALTER TABLE recipe_renamed SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
        spark.sql("ALTER TABLE recipe_renamed UNSET TBLPROPERTIES ('team')")
        assert dict(told(spark.sql("SHOW TBLPROPERTIES recipe_renamed"))).get("delta.appendOnly") == "false"
        assert "team" not in dict(told(spark.sql("SHOW TBLPROPERTIES recipe_renamed")))
    finally:
        spark.sql("DROP TABLE IF EXISTS recipe_shown")
        spark.sql("DROP TABLE IF EXISTS recipe_renamed")


def frames_in_a_query(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.range(5).write.format("delta").save(path)
    frame = spark.read.format("delta").load(path)
    assert told(spark.sql("SELECT max(id) FROM {numbers} WHERE id < {most}", numbers=frame, most=4)) == [(3,)]
