"""Spark's workers read rows that are to be indexed: they sample keys, run tasks, or write sorted runs of entries.

1. A job runs exactly once; what retried attempts leave behind has names that nobody knows of.
2. The answer of `write_runs` has a row per run, with the sparse level above it.
3. A run is right whatever order rows come in; Spark's order only keeps runs apart, so that a lookup opens few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engines.spark.scan.native import scan_frame
from holdfast.engines.spark.session.carry import by_value, carried
from holdfast.engines.spark.session.failing import jobs
from holdfast.engines.spark.session.progress import tasks
from holdfast.engines.spark.types import named, spark_struct
from holdfast.env import system
from holdfast.errors import Unsupported
from holdfast.parquet.index_runs import RUN_ROWS, EntryRun, bitmap_run, entry_runs
from holdfast.plan.indexing import IndexedRows, TaskFunction, WorkerTask
from holdfast.plan.scan.metadata_columns import MetadataColumns
from holdfast.plan.scan.request import ScanPlan
from holdfast.rows.columns import ROW_COMMIT_VERSION, ROW_ID
from holdfast.schema.types import LONG, Field, Primitive
from holdfast.storage.base import ObjectStore
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


@dataclass(frozen=True, slots=True)
class SparkWorkers:
    """The workers of a Spark session."""

    spark: SparkSession

    def carried(self, store: ObjectStore) -> ObjectStore:
        return carried(store)

    def sample(self, rows: IndexedRows, count: int, share: float, seed: int) -> pa.ChunkedArray:
        keys = self._frame(rows).where(F.col("k0").isNotNull()).select("k0")
        with tasks(self.spark, "sampling vectors"):  # bounded by `count`
            sample = None if share >= 1 or count == 1 else keys.sample(share, seed % (1 << 31)).limit(count).toArrow()
            if sample is None or not sample.num_rows:
                sample = keys.limit(count).toArrow()
        return sample.column(0)

    def map_rows(self, rows: IndexedRows, task: WorkerTask, most_tasks: int | None = None) -> pa.Table:
        frame = self._frame(rows)
        return map_frame(frame if most_tasks is None else frame.coalesce(most_tasks), task)

    def write_runs(self, rows: IndexedRows, directory: str, most_rows: int, *, bitmaps: bool) -> pa.Table:
        location, keys, frame = rows.snapshot.location, len(rows.fields), self._frame(rows)
        store = carried(location.store)
        if store.url.startswith("memory:"):
            raise Unsupported(f"{location.url} is in this process's memory, where Spark's workers cannot write")
        if not bitmaps:
            names = [f"k{n}" for n in range(keys)]
            parts = max(1, -(-most_rows // RUN_ROWS))
            frame = frame.repartitionByRange(parts, *names) if parts > 1 else frame.coalesce(1)
            frame = frame.sortWithinPartitions(*names)
        sink = open_sink(replace(location, store=store), system().now_ms)
        needs = ("numpy", "pyroaring", *(("obstore",) if isinstance(store, RemoteStore) else ()))
        task = by_value(_writer(sink, directory, keys, bitmaps), needs, work="write this index")
        with jobs():
            answer = frame.mapInArrow(task, spark_struct(_ANSWER)).toArrow()
        return answer.sort_by("name")  # a row per run

    def _frame(self, rows: IndexedRows) -> DataFrame:
        """The keys under plain names, the row id and the row commit version."""
        frames = []
        metadata = MetadataColumns({ID: ROW_ID, VERSION: ROW_COMMIT_VERSION})
        for part in rows.parts:
            plan = ScanPlan(rows.snapshot, part.files, (), tuple(rows.fields), metadata, None)
            frame = scan_frame(self.spark, plan, part.hidden)
            frames.append(frame if part.newer_than is None else frame.where(F.col(VERSION) > part.newer_than))
        keys = [named(f.name).alias(f"k{n}") for n, f in enumerate(rows.fields)]
        return reduce(DataFrame.unionAll, frames).select(*keys, F.col(ID), F.col(VERSION))


def map_frame(frame: DataFrame, task: WorkerTask) -> pa.Table:
    """The answers of a task over the rows of a DataFrame."""
    function = by_value(task.run, task.needs, work=task.work, otherwise=task.otherwise)
    with tasks(frame.sparkSession, task.label):
        return frame.mapInArrow(function, spark_struct(task.answer)).toArrow()


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
            counts = (len(run.data), run.crc, run.footer, run.entries, run.low_id, run.high_id)
            values = [[name], *([count] for count in counts), [top.getvalue().to_pybytes()]]
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
