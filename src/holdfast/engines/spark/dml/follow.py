"""Finds rows in other files by row id and row commit version, with one join on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engines.spark.dml.bits import bits_of, positions_of
from holdfast.engines.spark.scan.native import scan_frame
from holdfast.engines.spark.session.failing import jobs
from holdfast.engines.spark.session.progress import tasks
from holdfast.engines.spark.types import named
from holdfast.plan.dml.follow import Followed, LocatedRows
from holdfast.plan.scan.metadata_columns import MetadataColumns
from holdfast.rows import columns as names

BROADCAST_ROWS = 1_000_000

_METADATA = {
    names.FILE_NUMBER: "file",
    names.ROW_INDEX: "position",
    names.ROW_ID: "id",
    names.ROW_COMMIT_VERSION: "version",
}


def follow(spark: SparkSession, old: LocatedRows, new: LocatedRows) -> Followed:
    """Where the rows of one place are in another."""
    if not len(old.plan.files) or not len(new.plan.files):
        return Followed()
    lost = _rows(spark, old, "o_")
    few = sum(n or 0 for n in old.plan.files.num_records.to_pylist()) - sum(map(len, old.hidden.positions.values()))
    pairs = _rows(spark, new, "n_").join(
        F.broadcast(lost) if few <= BROADCAST_ROWS else lost, named("o_id") == named("n_id"), "inner"
    )
    same = named("o_version") == named("n_version")
    both = pairs.select(same.alias("same"), F.explode(F.array(_address("old", "o_"), _address("new", "n_"))).alias("a"))
    flat = both.select("same", "a.side", "a.file", "a.position")
    with tasks(spark, "following rows that moved"):
        bits = bits_of(flat, "file", "position", "same", "side").toArrow()  # a bit per row of the files

    def told_of(side: str, is_same: bool) -> dict[str, BitMap64]:
        mask = pc.and_(pc.equal(bits.column("side"), side), pc.equal(bits.column("same"), is_same))
        keys = (old if side == "old" else new).plan.files.column("key")
        return positions_of(bits.filter(mask), "file", keys)

    return Followed(told_of("old", True), told_of("new", True), told_of("old", False))


def ids(spark: SparkSession, place: LocatedRows, limit: int) -> Sequence[int]:
    """Some ids of rows."""
    if not len(place.plan.files):
        return []
    with jobs():
        rows = _rows(spark, place, "").select("id").limit(limit).toArrow()
    return sorted(rows.column("id").to_pylist())


def _rows(spark: SparkSession, place: LocatedRows, prefix: str) -> DataFrame:
    metadata = {name: prefix + label for name, label in _METADATA.items()}
    frame = scan_frame(
        spark, replace(place.plan, columns=(), metadata=MetadataColumns.of_outputs(metadata), where=None), place.hidden
    )
    return frame.select(*metadata.values())


def _address(side: str, prefix: str) -> Column:
    return F.struct(
        F.lit(side).alias("side"), named(prefix + "file").alias("file"), named(prefix + "position").alias("position")
    )
