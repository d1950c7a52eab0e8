"""Write runs of index entries from tasks: Spark sorts by the key, tasks store what comes as sorted blocks.

1. The job runs exactly once; what retried attempts leave behind has names nobody knows of.
2. The answer holds as many rows as there are runs, and of each the sparse level above it.
3. A run is right whatever order rows come in; Spark's order only keeps runs apart, so that few are looked into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engines.spark.scan.native import SparkRunner
from holdfast.engines.spark.session.carry import TaskFunction, by_value, carried
from holdfast.engines.spark.session.failing import jobs
from holdfast.engines.spark.types import named, spark_struct
from holdfast.env import system
from holdfast.errors import Unsupported
from holdfast.model.files import FileTable
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.parquet.index_runs import RUN_ROWS, EntryRun, bitmap_run, entry_runs
from holdfast.plan.scan.metadata_columns import MetadataColumns
from holdfast.plan.scan.request import ScanPlan
from holdfast.rows.columns import ROW_COMMIT_VERSION, ROW_ID
from holdfast.schema.types import LONG, Field, Primitive
from holdfast.storage.location import Location
from holdfast.storage.remote import RemoteStore
from holdfast.storage.sink import FileSink, open_sink, put

ID, VERSION = "__hf_row_id", "__hf_row_version"
_ANSWER = (
    Field("name", Primitive("string")),
    Field("size", LONG),
    Field("crc", LONG),
    Field("footer", LONG),
    Field("entries", LONG),
    Field("low_id", LONG),
    Field("high_id", LONG),
    Field("top", Primitive("binary")),
)


@dataclass(frozen=True)
class Files:
    """Files to be indexed, what they hide, and the version that rows must be newer than."""

    files: FileTable
    hidden: HiddenRows
    newer_than: int | None


def indexed_frame(
    spark: SparkSession, snapshot: Snapshot, parts: Sequence[Files], fields: Sequence[Field]
) -> DataFrame:
    """Keys under plain names, row id and row commit version, of the rows that are to be indexed."""
    frames = []
    for part in parts:
        plan = ScanPlan(
            snapshot, part.files, (), tuple(fields), MetadataColumns({ID: ROW_ID, VERSION: ROW_COMMIT_VERSION}), None
        )
        rows = SparkRunner(spark).scan(plan, part.hidden)
        frames.append(rows if part.newer_than is None else rows.where(F.col(VERSION) > part.newer_than))
    keys = [named(f.name).alias(f"k{n}") for n, f in enumerate(fields)]
    return reduce(DataFrame.unionAll, frames).select(*keys, F.col(ID), F.col(VERSION))


def write_runs(
    rows: DataFrame, location: Location, directory: str, keys: int, most_rows: int, *, bitmaps: bool
) -> list[dict[str, Any]]:
    """Write runs below a directory of the table; what was written, a row per run."""
    store = carried(location.store)
    if store.url.startswith("memory:"):
        raise Unsupported(f"{location.url} is in this process's memory, where Spark's workers cannot write")
    if not bitmaps:
        names = [f"k{n}" for n in range(keys)]
        parts = max(1, -(-most_rows // RUN_ROWS))
        rows = rows.repartitionByRange(parts, *names) if parts > 1 else rows.coalesce(1)
        rows = rows.sortWithinPartitions(*names)
    sink = open_sink(replace(location, store=store), system().now_ms)
    needs = ("numpy", "pyroaring", *(("obstore",) if isinstance(store, RemoteStore) else ()))
    task = by_value(_writer(sink, directory, keys, bitmaps), needs, work="write this index")
    with jobs():
        answer = rows.mapInArrow(task, spark_struct(_ANSWER)).toArrow()
    return list(answer.sort_by("name").to_pylist())  # one per run


def _writer(sink: FileSink, directory: str, keys: int, bitmaps: bool) -> TaskFunction:
    """What a task does."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = (pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
        if bitmaps:
            one = bitmap_run(tables, keys)
            runs: Iterable[EntryRun] = () if one is None else (one,)
        else:
            runs = chain.from_iterable(entry_runs(held, keys) for held in _gathered(tables))
        for run in runs:
            name = f"part-{uuid4()}.parquet"
            put(sink, f"{directory}/{name}", [run.data])
            top = pa.BufferOutputStream()
            with pa.ipc.new_stream(top, run.top.schema) as stream:
                stream.write_table(run.top)
            told = (name, len(run.data), run.crc, run.footer, run.entries, run.low_id, run.high_id)
            values = [*([value] for value in told), [top.getvalue().to_pybytes()]]
            yield pa.RecordBatch.from_arrays(
                [pa.array(v, t) for v, t in zip(values, _TYPES, strict=True)], names=[f.name for f in _ANSWER]
            )

    return write


_TYPES = (pa.string(), *(pa.int64() for _ in range(6)), pa.binary())


def _gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """As many rows at a time as a run has."""
    held: list[pa.Table] = []
    count = 0
    for table in tables:
        held.append(table)
        count += table.num_rows
        if count >= RUN_ROWS:
            yield pa.concat_tables(held)
            held, count = [], 0
    if held:
        yield pa.concat_tables(held)
