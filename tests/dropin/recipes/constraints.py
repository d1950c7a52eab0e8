"""Constraints, generated columns, defaults: what a table refuses, and what it fills in."""

from __future__ import annotations

import datetime

from pyspark.sql import SparkSession

from tests.dropin.recipes import refused, told


def not_null(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT NOT NULL, name STRING) USING DELTA")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a')")
    with refused(Exception, "id"):
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (CAST(NULL AS INT), 'b')")
    spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN id DROP NOT NULL")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (CAST(NULL AS INT), 'b')")
    assert told(spark.read.format("delta").load(path)) == [(1, "a"), (None, "b")]


def check(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, born DATE) USING DELTA")
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT inRange CHECK (born > '1900-01-01')")
    with refused(Exception, "inrange"):
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, DATE'1815-12-10')")
    properties = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first()["properties"]
    assert properties["delta.constraints.inrange"] == "born > '1900-01-01'"
    spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT inRange")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, DATE'1815-12-10')")
    assert told(spark.read.format("delta").load(path)) == [(1, datetime.date(1815, 12, 10))]


def generated(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), v INT) "
        "USING DELTA PARTITIONED BY (day)"
    )
    frame = spark.sql("SELECT TIMESTAMP'2024-03-01 10:00:00' AS at, 1 AS v")
    frame.write.format("delta").mode("append").save(path)
    assert told(spark.read.format("delta").load(path).selectExpr("CAST(day AS STRING)", "v")) == [("2024-03-01", 1)]
    wrong = spark.sql("SELECT TIMESTAMP'2024-03-01 10:00:00' AS at, DATE'2020-01-01' AS day, 1 AS v")
    with refused(Exception, "day"):
        wrong.write.format("delta").mode("append").save(path)


def identity(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5), "
        "v STRING) USING DELTA"
    )
    spark.sql(f"INSERT INTO delta.`{path}` (v) VALUES ('a')")
    spark.sql(f"INSERT INTO delta.`{path}` (v) VALUES ('b')")
    ids = [row[0] for row in spark.read.format("delta").load(path).orderBy("v").collect()]
    assert ids[0] == 10
    assert ids[1] > 10
    assert (ids[1] - 10) % 5 == 0


def defaults(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, state STRING DEFAULT 'new') USING DELTA "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` (id) VALUES (1)")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (2, DEFAULT)")
    assert told(spark.read.format("delta").load(path)) == [(1, "new"), (2, "new")]
    spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN state SET DEFAULT 'old'")
    spark.sql(f"INSERT INTO delta.`{path}` (id) VALUES (3)")
    assert told(spark.read.format("delta").load(path)) == [(1, "new"), (2, "new"), (3, "old")]
