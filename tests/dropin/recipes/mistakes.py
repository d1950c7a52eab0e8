"""What goes wrong, and the classes by which pipelines catch it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.dropin.recipes import refused, told


def wrong_columns(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable
    from pyspark.errors import AnalysisException

    path = f"{where}/t"
    spark.range(3).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    attempts = {
        "delete": lambda: table.delete("nope = 1"),
        "update": lambda: table.update("id = 1", {"nope": "1"}),
        "select": lambda: spark.sql(f"SELECT nope FROM delta.`{path}`"),
        "sql": lambda: spark.sql(f"DELETE FROM delta.`{path}` WHERE nope = 1"),
        "filter": lambda: spark.read.format("delta").load(path).where("nope = 1"),
        "alter": lambda: spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN nope"),
    }
    for name, attempt in attempts.items():
        try:
            attempt()
        except AnalysisException:
            continue
        raise AssertionError(f"{name} took a column that is not there")
    assert told(table.toDF()) == [(0,), (1,), (2,)]


def no_table(spark: SparkSession, where: str) -> None:
    from delta.tables import DeltaTable
    from pyspark.errors import AnalysisException

    for attempt in (
        lambda: DeltaTable.forPath(spark, f"{where}/none"),
        lambda: DeltaTable.forName(spark, "recipe_nobody"),
        lambda: spark.read.format("delta").load(f"{where}/none"),
        lambda: spark.sql(f"SELECT * FROM delta.`{where}/none`"),
        lambda: spark.sql("SELECT * FROM recipe_nobody"),
        lambda: spark.table("recipe_nobody"),
    ):
        try:
            attempt()
        except AnalysisException:
            continue
        raise AssertionError("a table was found that is not there")
    assert not DeltaTable.isDeltaTable(spark, f"{where}/none")


def types_that_do_not_fit(spark: SparkSession, where: str) -> None:
    from pyspark.errors import AnalysisException

    path = f"{where}/t"
    spark.createDataFrame([(1,)], "id INT").write.format("delta").save(path)
    with refused(AnalysisException, "DELTA_FAILED_TO_MERGE_FIELDS"):
        spark.createDataFrame([(["x"],)], "id ARRAY<STRING>").write.format("delta").mode("append").save(path)


def a_lost_race(spark: SparkSession, where: str) -> None:
    from delta import exceptions
    from pyspark.errors import PySparkException

    for name in (
        "ConcurrentAppendException",
        "ConcurrentDeleteDeleteException",
        "ConcurrentDeleteReadException",
        "ConcurrentTransactionException",
        "ConcurrentWriteException",
        "DeltaConcurrentModificationException",
        "MetadataChangedException",
        "ProtocolChangedException",
    ):
        assert issubclass(getattr(exceptions, name), PySparkException), name


def versions_that_are_not(spark: SparkSession, where: str) -> None:
    from pyspark.errors import AnalysisException

    path = f"{where}/t"
    spark.range(1).write.format("delta").save(path)
    for option, value in (("versionAsOf", "7"), ("timestampAsOf", "2001-01-01")):
        try:
            spark.read.format("delta").option(option, value).load(path).count()
        except AnalysisException:
            continue
        raise AssertionError(f"{option} {value} was read")
    with refused(AnalysisException, "DELTA_MISSING_CHANGE_DATA"):
        spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(path).count()


def append_only(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT) USING DELTA TBLPROPERTIES ('delta.appendOnly' = 'true')")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1)")
    with refused(Exception, "DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
