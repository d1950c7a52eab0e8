"""Columns added, renamed, dropped, widened and commented, by column mapping where that is needed."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.dropin.recipes import files, told


def add_columns(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.range(1).write.format("delta").save(path)
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (name STRING COMMENT 'who', size INT)")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a', 2)")
    assert told(spark.read.format("delta").load(path)) == [(0, None, None), (1, "a", 2)]
    spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN size COMMENT 'in metres'")
    field = spark.read.format("delta").load(path).schema["size"]
    assert field.metadata["comment"] == "in metres"


def rename_and_drop(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.createDataFrame([(1, "a", 2.0)], "id INT, old STRING, waste DOUBLE").coalesce(1).write.format("delta").save(
        path
    )
    before = files(path)
    spark.sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')"
    )
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN old TO new")
    spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN waste")
    assert files(path) == before
    found = spark.read.format("delta").load(path)
    assert found.columns == ["id", "new"]
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (2, 'b')")
    assert told(spark.read.format("delta").load(path).where("new >= 'a'")) == [(1, "a"), (2, "b")]


def names_with_spaces(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (`a b` INT, `c;d` STRING) USING DELTA "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'x')")
    assert told(spark.sql(f"SELECT `a b` FROM delta.`{path}` WHERE `c;d` = 'x'")) == [(1,)]


def widen(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.sql(f"CREATE TABLE delta.`{path}` (n INT) USING DELTA TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1)")
    spark.sql(f"ALTER TABLE delta.`{path}` CHANGE COLUMN n TYPE BIGINT")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (5000000000)")
    found = spark.read.format("delta").load(path)
    assert dict(found.dtypes) == {"n": "bigint"}
    assert told(found) == [(1,), (5000000000,)]


def nested(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, at STRUCT<x: INT>) USING DELTA")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, named_struct('x', 1))")
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMNS (at.y INT)")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (2, named_struct('x', 2, 'y', 3))")
    spark.sql(f"UPDATE delta.`{path}` SET at.x = 9 WHERE id = 1")
    assert told(spark.sql(f"SELECT id, at.x, at.y FROM delta.`{path}`")) == [(1, 9, None), (2, 2, 3)]
