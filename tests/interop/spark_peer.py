"""delta-spark in a process of its own: `python -m tests.interop.spark_peer JARS`, in the environment of the peers.

It answers requests until its input ends (`bench/engine.py`). Rows leave it as Arrow files; what it refuses, as text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather
import pyspark
from delta.tables import DeltaTable
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import holdfast
from bench.engine import serve
from tests.interop.changes import CHANGES, IDS, Change
from tests.interop.features import Recipe
from tests.interop.rows import written
from tests.interop.tables import frame

_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # Tables of a few rows: whatever is spread over tasks takes longer.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def read(spark: SparkSession, path: str, made_of: list[str], where: list[str], out: str, ids: bool) -> None:
    """The rows that each condition leaves, as one Arrow file per condition."""
    df = spark.read.format("delta").load(path)
    told = [f"_metadata.row_id AS {IDS[0]}", f"_metadata.row_commit_version AS {IDS[1]}"] if ids else []
    names = [f"to_json({name}) AS {name}" if name == "var" else name for name in df.columns]
    parts = [df.where(condition).selectExpr(f"{i} AS _part", *names, *told) for i, condition in enumerate(where)]
    rows = reduce(DataFrame.union, parts).toArrow()  # one job for all of them: most of the time goes into starting jobs
    for i in range(len(where)):
        part = rows.filter(pc.equal(rows["_part"], i)).drop_columns("_part")
        pyarrow.feather.write_feather(part, f"{out}.{i}", compression="uncompressed")


def versions(spark: SparkSession, path: str, made_of: list[str], at: list[int], out: str) -> None:
    """The rows of each version with their ids, as one Arrow file."""
    told = ["_metadata.row_id AS _row_id", "_metadata.row_commit_version AS _row_version"]
    parts = [
        spark.read.format("delta").option("versionAsOf", version).load(path).selectExpr(f"{version} AS _at", "*", *told)
        for version in at
    ]
    rows = reduce(DataFrame.union, parts).toArrow()
    pyarrow.feather.write_feather(rows, out, compression="uncompressed")


def feed(spark: SparkSession, path: str, made_of: list[str], start: int, end: int, out: str) -> None:
    """The change data feed of versions, as one Arrow file."""
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    rows = reader.option("startingVersion", start).option("endingVersion", end).load(path)
    pyarrow.feather.write_feather(rows.drop("_commit_timestamp").toArrow(), out, compression="uncompressed")


def statement(spark: SparkSession, path: str, made_of: list[str], text: str) -> None:
    """Run a statement of SQL."""
    spark.sql(text).collect()


def change(spark: SparkSession, path: str, made_of: list[str], wanted: str) -> None:
    """Do to the table what a change says."""
    asked, recipe = CHANGES[wanted], frozenset(made_of)
    table = DeltaTable.forPath(spark, path)
    match wanted:
        case "append":
            _rows(spark, recipe, asked.added).write.format("delta").mode("append").save(path)
        case "update":
            table.update(f"id IN {asked.updated}", {"v": str(asked.value)})
        case "merge":
            _merge(spark, table, recipe, asked)
        case "delete":
            table.delete(f"id IN {asked.deleted}")
        case "optimize":
            table.optimize().executeCompaction()
        case _:
            raise AssertionError(f"delta-spark has no {wanted}")


def _merge(spark: SparkSession, table: DeltaTable, recipe: Recipe, wanted: Change) -> None:
    rows = _rows(spark, recipe, (*wanted.updated, *wanted.added))
    given = {name: f"s.{name}" for name in rows.columns}
    (
        table.alias("t")
        .merge(rows.alias("s"), "t.id = s.id")
        .whenMatchedUpdate(set={"v": str(wanted.value)})
        .whenNotMatchedInsert(values=given)
        .execute()
    )


def _rows(spark: SparkSession, recipe: Recipe, ids: tuple[int, ...]) -> DataFrame:
    return frame(spark, written(recipe, ids), recipe)


def _answering(spark: SparkSession, act: Callable[..., None]) -> Callable[..., dict[str, Any]]:
    def answer(**asked: Any) -> dict[str, Any]:
        try:
            act(spark, **asked)
        except (PySparkException, Py4JError) as error:
            return {"refused": str(error)}
        return {"refused": None}

    return answer


def main(jars: str) -> None:
    spark = holdfast.session("interop", master="local[2]", **_SETTINGS, **{"spark.jars": jars})
    serve(
        {
            "start": lambda: {"spark": pyspark.__version__, "arrow": pa.__version__},
            "read": _answering(spark, read),
            "change": _answering(spark, change),
            "versions": _answering(spark, versions),
            "feed": _answering(spark, feed),
            "statement": _answering(spark, statement),
        }
    )


if __name__ == "__main__":
    main(sys.argv[1])
