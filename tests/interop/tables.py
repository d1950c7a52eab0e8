"""Tables of the feature matrix, written by Holdfast.

A table grows in four stretches: an append, changes of what the table is, an append and a checkpoint, rows hidden, two
appends, a compaction of the log. Which of these happen is the recipe's to say; the rows are the same.

1. Every commit goes through the public `DeltaTable`.
2. A checkpoint is read by whoever opens the table: the commits before it are gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import DeltaTable
from holdfast.env import system
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.log.compaction import write_log_compaction
from holdfast.formats.delta.log.file_names import LOG
from holdfast.formats.delta.state import load
from holdfast.storage.open import open_location
from holdfast.verbs.define.builder import IdentityGenerator
from tests.interop.features import Recipe
from tests.interop.rows import (
    CHANGED,
    CHANGED_TO,
    FIRST,
    FOURTH,
    HIDDEN,
    IDENTITY_START,
    IDENTITY_STEP,
    SECOND,
    THIRD,
    columns,
    partition_columns,
    written,
)

_PROPERTIES = {
    "mapping_name": ("delta.columnMapping.mode", "name"),
    "mapping_id": ("delta.columnMapping.mode", "id"),
    "vectors": ("delta.enableDeletionVectors", "true"),
    "row_tracking": ("delta.enableRowTracking", "true"),
    "v2_checkpoint": ("delta.checkpointPolicy", "v2"),
    "widened": ("delta.enableTypeWidening", "true"),
    "in_commit_timestamps": ("delta.enableInCommitTimestamps", "true"),
    "check": ("delta.constraints.sane", "id >= 0 AND id < 1000000"),
    "change_data_feed": ("delta.enableChangeDataFeed", "true"),
}


def build(recipe: Recipe, path: Path, spark: SparkSession | None = None) -> None:
    """Write the table of a recipe; one that is written by Spark needs a session."""
    assert ("spark" in recipe) <= (spark is not None), "a table written by Spark needs a session"
    table = _create(recipe, path)
    _append(table, recipe, FIRST, spark, first=True)
    _change(table, recipe)
    _append(table, recipe, SECOND, spark)
    settled = 0
    if recipe & {"classic_checkpoint", "v2_checkpoint"}:
        settled = _checkpoint(path)
    if "changed" in recipe:
        _change_rows(DeltaTable.forPath(spark, path), recipe, spark)
    if "vectors" in recipe:
        opened = DeltaTable.forPath(spark if "spark" in recipe else None, path)
        opened.delete(f"id IN {tuple(sorted(HIDDEN))}", mode="merge-on-read")
    _append(table, recipe, THIRD, spark)
    _append(table, recipe, FOURTH, spark)
    if "log_compaction" in recipe:
        write_log_compaction(open_location(str(path)), settled + 1, table.version)


def _create(recipe: Recipe, path: Path) -> DeltaTable:
    builder = DeltaTable.create().location(path).property("holdfast.plain", "true")
    for column in columns(recipe, first=True):
        match column.name:
            case "twice":
                builder.addColumn(column.name, column.sql, generatedAlwaysAs="id * 2")
            case "number":
                identity = IdentityGenerator(IDENTITY_START, IDENTITY_STEP)
                builder.addColumn(column.name, column.sql, generatedAlwaysAs=identity)
            case _:
                builder.addColumn(column.name, column.sql, nullable=column.nullable)
    for name, (key, value) in _PROPERTIES.items():
        if name in recipe:
            builder.property(key, value)
    if "partitioned" in recipe:
        builder.partitionedBy(*partition_columns(recipe))
    if "clustered" in recipe:
        builder.clusterBy("id", "day")
    return builder.execute()


def _change(table: DeltaTable, recipe: Recipe) -> None:
    if "widened" in recipe:
        table.changeColumnType("v", "bigint")
        table.changeColumnType("f", "double")
        table.changeColumnType("dd", "decimal(12,4)")
    if "renamed" in recipe:
        table.renameColumn("s", "text")
        table.dropColumn("gone")
    if "added" in recipe:
        table.addColumns([("extra", "double"), ("more", "array<int>")])


def _change_rows(table: DeltaTable, recipe: Recipe, spark: SparkSession | None) -> None:
    assert spark is not None, "checked when the table was begun"
    updated, *merged = CHANGED
    table.update(f"id = {updated}", {"v": str(CHANGED_TO)})
    source = frame(spark, written(recipe, merged), recipe).select("id")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdate(set={"v": str(CHANGED_TO)}).execute()


def _append(
    table: DeltaTable, recipe: Recipe, ids: Iterable[int], spark: SparkSession | None, *, first: bool = False
) -> None:
    rows = written(recipe, ids, first=first)
    if "spark" in recipe:
        assert spark is not None, "checked when the table was begun"
        opened = DeltaTable.forPath(spark, table.handle.state.snapshot.location.url)
        opened.append(frame(spark, rows, recipe))
    else:
        table.append(rows)


def frame(spark: SparkSession, rows: pa.Table, recipe: Recipe) -> DataFrame:
    """Rows as a DataFrame in one partition, so that numbers are given out in their order."""
    df = spark.createDataFrame(rows).coalesce(1)
    if "ntz" in recipe:
        df = df.withColumn("ntz", F.col("ntz").cast("timestamp_ntz"))  # from Arrow it comes as an instant
    return df.withColumn("var", F.parse_json("var")) if "variant" in recipe else df


def _checkpoint(path: Path) -> int:
    """Write a checkpoint of the newest version and remove the commits before it."""
    location = open_location(str(path))
    state = load(location)
    write_checkpoint(state, system())
    for file in (path / LOG).iterdir():
        if file.name[:20].isdecimal() and int(file.name[:20]) < state.version:
            file.unlink()
    return state.version
