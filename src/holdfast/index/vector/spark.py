"""Reads vectors of a table on Spark: for samples, for segments that tasks write, and to compare every row.

1. A job runs exactly once; files of retried attempts are in directories that nothing refers to.
2. Tasks need numpy and, for lists or a graph, faiss, but not Holdfast; a worker without them raises a clear error.
3. The rows collected are bounded: a sample by its size, one row per segment, k rows per task and query.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engines.spark.indexing import Files, indexed_frame
from holdfast.engines.spark.session.carry import TaskFunction, by_value, carried
from holdfast.engines.spark.session.progress import tasks
from holdfast.engines.spark.types import spark_struct
from holdfast.env import system
from holdfast.errors import Unsupported
from holdfast.index.tail import TailPart
from holdfast.index.vector.coder import Trained
from holdfast.index.vector.column import VectorMatrix, vectors_of
from holdfast.index.vector.fill import SEGMENT_ROWS, Filler, WrittenSegment, summed
from holdfast.index.vector.library import INSTALL, PACKAGE
from holdfast.index.vector.metric import Metric, Near, Numbers, Points, nearer, nearest_rows
from holdfast.model.snapshot import Snapshot
from holdfast.schema.types import LONG, STRING, Field, Primitive
from holdfast.storage.base import ObjectStore
from holdfast.storage.remote import RemoteStore
from holdfast.storage.sink import FileSink, open_sink, put

TASK_ROWS = 1 << 20  # per segment, at least; and at most MOST_TASKS tasks
MOST_TASKS = 32

_WRITTEN = (Field("segment", STRING), Field("odd", LONG))
_NEAR = (
    Field("query", LONG),
    Field("id", LONG),
    Field("distance", Primitive("double")),
    Field("odd", LONG),
)
_NEAR_ARROW = pa.schema([("query", pa.int64()), ("id", pa.int64()), ("distance", pa.float64()), ("odd", pa.int64())])


@dataclass(frozen=True)
class SparkVectorRows:
    """Rows of some files with their vectors, read by the session's workers."""

    spark: SparkSession
    snapshot: Snapshot
    column: Field
    parts: Sequence[TailPart]

    def sample(self, count: int, rows: int, seed: int) -> VectorMatrix:
        """About `count` random vectors."""
        vectors = self._frame().where(F.col("k0").isNotNull()).select("k0")
        share = 1.2 * count / max(rows, 1)
        with tasks(self.spark, "sampling vectors"):  # bounded by `count`
            sample = (
                None if share >= 1 or count == 1 else vectors.sample(share, seed % (1 << 31)).limit(count).toArrow()
            )
            if sample is None or not sample.num_rows:
                sample = vectors.limit(count).toArrow()
        return vectors_of(sample.column(0), None)

    def fill(self, trained: Trained, quantizer: str | None, directory: str) -> tuple[list[WrittenSegment], int]:
        """Write segments of all rows, each to its own directory; and count vectors of another length."""
        location = self.snapshot.location
        if location.store.url.startswith("memory:"):
            raise Unsupported(f"{location.url} is in this process's memory, where Spark's workers cannot write")
        store = carried(location.store)
        needs = _needs(store, *((PACKAGE,) if quantizer is not None else ()))
        sink = open_sink(replace(location, store=store), system().now_ms)
        filling = _filling(store, None if quantizer is None else location.key(quantizer), sink, trained, directory)
        task = by_value(filling, needs, work="fill this vector index", otherwise=f" ({INSTALL})")
        most = sum(n or 0 for part in self.parts for n in part.files.num_records.to_pylist())
        frame = self._frame().coalesce(min(max(1, most // TASK_ROWS), MOST_TASKS))
        with tasks(self.spark, "filling a vector index"):
            written = frame.mapInArrow(task, spark_struct(_WRITTEN)).toArrow().to_pylist()  # a row per segment
        odd = sum(one["odd"] for one in written)
        return [WrittenSegment(**json.loads(one["segment"])) for one in written if one["segment"] is not None], odd

    def nearest(
        self, queries: NDArray[np.float64], k: int, metric: Metric, allowed: Numbers | None
    ) -> tuple[list[Near], int]:
        """The k nearest rows of each query, and how many rows have vectors of another length."""
        return nearest_in(self._frame(), queries, k, metric, allowed)

    def _frame(self) -> DataFrame:
        files = [Files(part.files, part.hidden, part.newer_than) for part in self.parts]
        return indexed_frame(self.spark, self.snapshot, files, [self.column])


def nearest_in(
    rows: DataFrame, queries: NDArray[np.float64], k: int, metric: Metric, allowed: Numbers | None = None
) -> tuple[list[Near], int]:
    """The k nearest rows, by vectors in the first column and ids in the second, and how many have another length."""
    task = by_value(_comparing(queries, k, metric, allowed), ("numpy",), work="look at vectors")
    with tasks(rows.sparkSession, "looking at vectors"):
        rows_near = rows.mapInArrow(task, spark_struct(_NEAR)).toArrow()  # k rows for each task and query, at most
    odd = sum(rows_near.column("odd").to_pylist())
    number, ids, distances = (rows_near.column(name).to_numpy() for name in ("query", "id", "distance"))
    best = []
    for query in range(len(queries)):
        own = number == query
        order = np.lexsort((ids[own], distances[own]))[:k]
        best.append(Near(ids[own][order], distances[own][order]))
    return best, odd


def _needs(store: ObjectStore, *more: str) -> tuple[str, ...]:
    return ("numpy", *more, *(("obstore",) if isinstance(store, RemoteStore) else ()))


def _filling(
    store: ObjectStore, quantizer: str | None, sink: FileSink, trained: Trained, directory: str
) -> TaskFunction:
    """The task that fills segments."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        trained_bytes = b"" if quantizer is None else store.get(quantizer)
        filler = Filler(trained, trained_bytes)
        for batch in batches:
            filler.add(batch.column(0), batch.column(1), batch.column(2))
            if len(filler) >= SEGMENT_ROWS:
                yield _written(filler, sink, directory)
                filler = Filler(trained, trained_bytes)
        yield _written(filler, sink, directory)

    return run


def _written(filler: Filler, sink: FileSink, directory: str) -> pa.RecordBatch:
    """Write a segment; returns its description as a row."""
    filled = filler.finish()
    summary = None
    if filled is not None:
        directory = f"{directory}/{uuid4()}"
        for name, data in filled.files.items():
            put(sink, f"{directory}/{name}", [data])
        summary = json.dumps(summed(directory, filled))
    return pa.RecordBatch.from_arrays(
        [pa.array([summary], pa.string()), pa.array([filler.odd])], names=["segment", "odd"]
    )


def _comparing(queries: NDArray[np.float64], k: int, metric: Metric, allowed: Numbers | None) -> TaskFunction:
    """The task that compares every row."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        best, odd = [Near.none()] * len(queries), 0
        for batch in batches:
            vectors = vectors_of(batch.column(0), queries.shape[1])
            odd += vectors.odd
            ids = batch.column(1).to_numpy()[vectors.rows]
            near_here = nearest_rows(Points(vectors.matrix, ids).among(allowed), queries, k, metric)
            best = [nearer(one, other, k) for one, other in zip(best, near_here, strict=True)]
        sizes = [len(near) for near in best]
        columns = [
            np.repeat(np.arange(len(best)), sizes),
            np.concatenate([near.ids for near in best]),
            np.concatenate([near.distances for near in best]),
            np.zeros(sum(sizes), np.int64),
        ]
        yield pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=_NEAR_ARROW)
        yield pa.RecordBatch.from_arrays(
            [pa.array([-1]), pa.array([-1]), pa.array([0.0]), pa.array([odd])], schema=_NEAR_ARROW
        )

    return run
