"""The engines of `changes.py`, each in a process of its own: the first argument says which.

Both have the same session settings. A query is timed from opening the table to the last change, counted by its type.
Imports of an engine stand inside its function, because a process loads its own engine only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from engine import DELTA_SPARK, HEAP, serve

ONE_BATCH = "1000000"  # files: all that a stream has, at once


def ours() -> Mapping[str, Callable[..., Any]]:
    import holdfast
    from holdfast.table.delta import DeltaTable

    spark = holdfast.session("bench", **{"spark.driver.memory": HEAP})

    def changes(path: str, start: int, kind: str) -> tuple[Any, int]:
        found = DeltaTable.forPath(spark, path).changes(start, kind=kind)
        return found.toDF(), found.bytesRead

    def feed(path: str, start: int, kind: str) -> tuple[Any, int]:
        found = DeltaTable.forPath(spark, path).changeFeed(start)
        return found.toDF(), found.bytesRead

    def opened(path: str, start: int, kind: str) -> int:
        return DeltaTable.forPath(None, path).changes(start, kind=kind).bytesRead

    def source(path: str, start: int, kind: str) -> dict[str, Any]:
        options = {"kind": kind, "startingVersion": str(start), "maxFilesPerTrigger": ONE_BATCH}
        rows = spark.readStream.format("holdfast").options(**options).load(path)

        def begin(foreach: Any, checkpoint: str) -> Any:
            writer = rows.writeStream.foreachBatch(foreach).option("checkpointLocation", checkpoint)
            return writer.trigger(availableNow=True).start()

        return _streamed(begin, opened(path, start, kind))

    def stream_changes(path: str, start: int, kind: str) -> dict[str, Any]:
        def begin(foreach: Any, checkpoint: str) -> Any:
            limits = {"startingVersion": start, "maxFilesPerTrigger": int(ONE_BATCH), "availableNow": True}
            table = DeltaTable.forPath(spark, path)
            return table.streamChanges(kind, foreach, checkpointLocation=checkpoint, **limits)

        return _streamed(begin, opened(path, start, kind))

    streams = {"source": source, "streamChanges": stream_changes}
    return {"changes": _timed(changes), "feed": _timed(feed), **streams, "version": lambda: spark.version}


def delta_spark(jars: str) -> Mapping[str, Callable[..., Any]]:
    from pyspark.sql import functions as F

    import holdfast

    spark = holdfast.session("bench", **{"spark.driver.memory": HEAP, "spark.jars": jars}, **DELTA_SPARK)

    def feed(path: str, start: int, kind: str) -> tuple[Any, int]:
        reader = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", start)
        return reader.load(path), _feed_bytes(Path(path), start)

    def diff(path: str, start: int, kind: str) -> tuple[Any, int]:
        """Both states by row id; what differs is a change."""

        def rows(version: int | None, prefix: str) -> Any:
            reader = spark.read.format("delta")
            df = (reader if version is None else reader.option("versionAsOf", version)).load(path)
            told = {"id": "_metadata.row_id", "version": "_metadata.row_commit_version"}
            return df.select(
                F.struct("*").alias(f"{prefix}row"), *(F.col(c).alias(prefix + n) for n, c in told.items())
            )

        old, new = rows(start - 1, "old_"), rows(None, "new_")
        both = old.join(new, F.col("old_id") == F.col("new_id"), "full_outer")
        both = both.where(~F.col("old_version").eqNullSafe(F.col("new_version")))
        types = F.when(F.col("old_id").isNull(), F.array(F.lit("insert"))).when(
            F.col("new_id").isNull(), F.array(F.lit("delete"))
        )
        images = types.otherwise(F.array(F.lit("update_preimage"), F.lit("update_postimage")))
        told = both.select("old_row", "new_row", F.explode(images).alias("_change_type"))
        row = F.when(F.col("_change_type").isin("delete", "update_preimage"), F.col("old_row")).otherwise(
            F.col("new_row")
        )
        size = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").first().sizeInBytes
        return told.select(row.alias("row"), "_change_type").select("row.*", "_change_type"), 2 * size

    return {"feed": _timed(feed), "diff": _timed(diff), "version": lambda: spark.version}


def _streamed(begin: Callable[[Any, str], Any], opened: int) -> dict[str, Any]:
    """The changes of a stream's batches, and their time from looking for them to noting them; the start is left out."""
    counts: dict[str, Any] = {}

    def add(batch: Any, number: int) -> None:
        for type_, (rows, total) in _counted(batch).items():
            before = counts.get(type_, [0, "0"])
            counts[type_] = [before[0] + rows, str(int(before[1]) + int(total))]

    with TemporaryDirectory() as checkpoint:
        query = begin(add, checkpoint)
        query.awaitTermination()
        batches = [each["durationMs"] for each in query.recentProgress if "addBatch" in each["durationMs"]]
    return {"seconds": sum(each["triggerExecution"] for each in batches) / 1000, "counts": counts, "bytes": opened}


def _timed(query: Callable[..., tuple[Any, int]]) -> Callable[..., dict[str, Any]]:
    def call(**arguments: Any) -> dict[str, Any]:
        begun = perf_counter()
        df, opened = query(**arguments)
        counts = _counted(df)
        return {"seconds": perf_counter() - begun, "counts": counts, "bytes": opened}

    return call


def _counted(changes: Any) -> dict[str, Any]:
    """How many changes there are of each type, with a sum of their values: a count alone would read no column."""
    from pyspark.sql import functions as F

    values = [name for name in changes.columns if not name.startswith("_")]
    counted = changes.groupBy("_change_type").agg(F.count("*"), F.sum(F.xxhash64(*values).cast("decimal(38,0)")))
    return {row[0]: [row[1], str(row[2])] for row in counted.collect()}


def _feed_bytes(path: Path, start: int) -> int:
    """The size of change data files since a version."""
    total = 0
    for file in sorted((path / "_delta_log").glob("*.json")):
        if file.stem.isdigit() and int(file.stem) >= start:
            actions = map(json.loads, file.read_text().splitlines())
            total += sum(action["cdc"]["size"] for action in actions if "cdc" in action)
    return total


def main() -> None:
    match sys.argv[1:]:
        case ["ours"]:
            serve(ours())
        case ["delta-spark", jars]:
            serve(delta_spark(jars))
        case other:
            raise SystemExit(f"no engine {other}")


if __name__ == "__main__":
    main()
