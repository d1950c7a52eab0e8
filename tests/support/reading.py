"""Read a table on either engine, as plain rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.engines.spark.scan.arrow_path import has_connector
from holdfast.storage.open import open_location
from tests.support.tablesmith import Tablesmith

IDS = ("_row_id", "_row_commit_version", "_row_index")


def spark_opens(spark: SparkSession, path: Path | str) -> bool:
    """Whether Spark reads files of a table itself; Arrow does in its tasks where it does not."""
    return has_connector(spark, open_location(str(path)).spark_store())


def spark_rows(spark: SparkSession, path: Path | str, **asked: Any) -> list[dict[str, Any]]:
    """What `scan` gives, on Spark."""
    return DeltaTable.forPath(spark, str(path)).scan(**asked).toArrow().to_pylist()


def local_rows(path: Path | str, **asked: Any) -> list[dict[str, Any]]:
    """What `toArrow` gives, without Spark."""
    return DeltaTable.forPath(None, str(path)).toArrow(**asked).to_pylist()


def both(spark: SparkSession, path: Path | str, **asked: Any) -> list[dict[str, Any]]:
    """What both engines give, after making sure that it is the same."""
    on_spark = sorted_rows(spark_rows(spark, path, **asked))
    assert on_spark == sorted_rows(local_rows(path, **asked))
    return on_spark


def known(smith: Tablesmith, *columns: str, version: int | None = None) -> list[dict[str, Any]]:
    """What the smith says the rows are, sorted; all columns and ids by default."""
    rows = smith.rows(version)
    wanted = columns or (*(f["name"] for f in smith.fields(version)), *IDS)
    return sorted_rows({name: row[name] for name in wanted} for row in rows)


def sorted_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: tuple(repr(value) for value in row.values()))
