"""Streams for the archive: their source, the tables they write, and the checkpoints of their queries.

Spark keeps a checkpoint, and our source and sink decide what stands in it and what a table notes of a query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import holdfast
from holdfast import DeltaTable
from tests.disk.delta_tables import plain

KINDS = {
    "appends": {"maxFilesPerTrigger": "1"},
    "feed": {"readChangeFeed": "true", "startingVersion": "0"},
    "append-only": {"kind": "append-only", "startingVersion": "0"},
    "upsert": {"kind": "upsert", "startingVersion": "0"},
    "min-delta": {"kind": "min-delta", "startingVersion": "0"},
    "full-delta": {"kind": "full-delta", "startingVersion": "0"},
}


def some(*values: int, s: str = "row") -> pa.Table:
    """Rows of every table here."""
    return pa.table({"n": pa.array(values, pa.int64()), "s": [f"{s} {n}" for n in values]})


def stream_tables(spark: SparkSession, root: Path) -> dict[str, Any]:
    """A table that is followed, and queries over it that ran to its end."""
    builder = DeltaTable.create(None).location(root / "followed").addColumn("n", "long").addColumn("s", "string")
    followed = builder.property("delta.enableChangeDataFeed", "true").execute()
    followed.append(some(1, 2))
    followed.append(some(3))
    DeltaTable.create(None).location(root / "merged").addColumns(some(0).schema).execute()
    written = run_all(spark, root)
    return {
        "batches": written,
        "sunk": plain(DeltaTable.forPath(None, root / "sunk").toArrow()),
        "merged": plain(DeltaTable.forPath(None, root / "merged").toArrow()),
    }


def generated_table(spark: SparkSession, path: Path) -> dict[str, Any]:
    """A column that only Spark computes, and a default that is another in every row."""
    builder = DeltaTable.create(spark).location(path).addColumn("n", "bigint")
    builder = builder.addColumn("doubled", "bigint", generatedAlwaysAs="n * 2")
    table = builder.addColumn("at", "timestamp", default="current_timestamp()").execute()
    table.append(spark.range(3).withColumnRenamed("id", "n"))
    return {"rows": plain(table.toArrow(metadata=["_row_id"]))}


def run_all(spark: SparkSession, root: Path, kinds: Sequence[str] = tuple(KINDS)) -> dict[str, list[Any]]:
    """Run the queries from where their checkpoints say to the end of the table; what each was given, by query."""
    holdfast.register(spark)
    given: dict[str, list[Any]] = {}

    @contextmanager
    def gathering(name: str) -> Iterator[Any]:
        given[name] = []

        def gather(rows: DataFrame, batch: int) -> None:
            given[name].extend([batch, row.asDict()] for row in rows.collect())

        yield gather

    for kind in kinds:
        rows = spark.readStream.format("holdfast").options(**KINDS[kind]).load(str(root / "followed"))
        with gathering(kind) as gather:
            finish(_writer(rows.writeStream.foreachBatch(gather), root, kind).start())
    with gathering("stream-changes") as gather:
        table = DeltaTable.forPath(spark, root / "followed")
        checkpoint = str(root / "checkpoints" / "stream-changes")
        finish(table.streamChanges("min-delta", gather, checkpointLocation=checkpoint, availableNow=True))
    rows = spark.readStream.format("holdfast").load(str(root / "followed"))
    finish(_writer(rows.writeStream.format("holdfast"), root, "sunk").start(str(root / "sunk")))
    merge = DeltaTable.forPath(spark, root / "merged").alias("t").mergeStream("t.n = source.n", appId="merging")
    changes = spark.readStream.format("holdfast").options(kind="upsert").load(str(root / "followed"))
    finish(_writer(changes.select("n", "s").writeStream.foreachBatch(merge), root, "merged").start())
    return given


def _writer(writer: Any, root: Path, name: str) -> Any:
    return writer.option("checkpointLocation", str(root / "checkpoints" / name)).trigger(availableNow=True)


def finish(query: StreamingQuery) -> None:
    """Wait for a query that ends by itself."""
    assert query.awaitTermination(120), "the query ends by itself"
