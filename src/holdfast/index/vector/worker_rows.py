"""What an engine's workers do for a vector index: sample vectors, fill segments, compare a query with every row.

1. A job runs exactly once; what retried attempts leave behind is below directories that nobody knows of.
2. Tasks need numpy and, for lists or a graph, faiss, and no Holdfast; a worker that lacks one says so.
3. What comes back to this process is bounded: a sample by its size, segments by a row each, the nearest by k for each
   task and query.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.env import system
from holdfast.errors import Unsupported
from holdfast.index.vector.coder import Trained
from holdfast.index.vector.column import VectorMatrix, vectors_of
from holdfast.index.vector.fill import SEGMENT_ROWS, Filler, WrittenSegment
from holdfast.index.vector.library import INSTALL, PACKAGE
from holdfast.index.vector.metric import Metric, Near, Numbers, Points, nearer, nearest_rows
from holdfast.model.snapshot import Snapshot
from holdfast.plan.indexing import IndexedFiles, IndexedRows, TaskFunction, Workers, WorkerTask
from holdfast.schema.types import LONG, STRING, Field, Primitive
from holdfast.storage.base import ObjectStore
from holdfast.storage.remote import RemoteStore
from holdfast.storage.sink import FileSink, open_sink, put

TASK_ROWS = 1 << 20  # per segment, at least; and at most MOST_TASKS tasks
MOST_TASKS = 32

_SEGMENTS = (Field("segment", STRING), Field("odd", LONG))
_NEAR = (
    Field("query", LONG),
    Field("id", LONG),
    Field("distance", Primitive("double")),
    Field("odd", LONG),
)
_NEAR_ARROW = pa.schema([("query", pa.int64()), ("id", pa.int64()), ("distance", pa.float64()), ("odd", pa.int64())])


@dataclass(frozen=True)
class WorkerVectorRows:
    """Rows of a table with their vectors, read by workers."""

    workers: Workers
    snapshot: Snapshot
    column: Field
    parts: Sequence[IndexedFiles]

    @property
    def _rows(self) -> IndexedRows:
        return IndexedRows(self.snapshot, self.parts, [self.column])

    def sample(self, count: int, rows: int, seed: int) -> VectorMatrix:
        """About `count` vectors out of all, at random."""
        return vectors_of(self.workers.sample(self._rows, count, 1.2 * count / max(rows, 1), seed), None)

    def fill(self, trained: Trained, quantizer: str | None, directory: str) -> tuple[list[WrittenSegment], int]:
        """Write segments of all rows, each to its own directory; and count vectors of another length."""
        location = self.snapshot.location
        if location.store.url.startswith("memory:"):
            raise Unsupported(f"{location.url} is in this process's memory, where Spark's workers cannot write")
        store = self.workers.carried(location.store)
        sink = open_sink(replace(location, store=store), system().now_ms)
        needs = ["numpy", *([PACKAGE] if quantizer is not None else [])]
        needs += ["obstore"] if isinstance(store, RemoteStore) else []
        task = WorkerTask(
            _filling(store, None if quantizer is None else location.key(quantizer), sink, trained, directory),
            _SEGMENTS,
            tuple(needs),
            work="fill this vector index",
            label="filling a vector index",
            otherwise=f" ({INSTALL})",
        )
        most = sum(n or 0 for part in self.parts for n in part.files.num_records.to_pylist())
        segments = self.workers.map_rows(self._rows, task, min(max(1, most // TASK_ROWS), MOST_TASKS)).to_pylist()
        odd = sum(one["odd"] for one in segments)
        return [WrittenSegment(**json.loads(one["segment"])) for one in segments if one["segment"] is not None], odd

    def nearest(
        self, queries: NDArray[np.float64], k: int, metric: Metric, allowed: Numbers | None
    ) -> tuple[list[Near], int]:
        """The k nearest rows of each query; and how many rows have vectors of another length."""
        task = nearest_task(queries, k, metric, allowed)
        return nearest_of(self.workers.map_rows(self._rows, task), len(queries), k)


def nearest_task(queries: NDArray[np.float64], k: int, metric: Metric, allowed: Numbers | None = None) -> WorkerTask:
    """The task that compares queries with rows that have their vectors first and their ids second."""
    compare = _comparing(queries, k, metric, allowed)
    return WorkerTask(compare, _NEAR, ("numpy",), work="look at vectors", label="looking at vectors")


def nearest_of(answers: pa.Table, queries: int, k: int) -> tuple[list[Near], int]:
    """The k nearest rows of each query out of the tasks' answers; and how many rows have vectors of another length."""
    odd = sum(answers.column("odd").to_pylist())  # k rows for each task and query, at most
    number, ids, distances = (answers.column(name).to_numpy() for name in ("query", "id", "distance"))
    best = []
    for query in range(queries):
        mine = number == query
        order = np.lexsort((ids[mine], distances[mine]))[:k]
        best.append(Near(ids[mine][order], distances[mine][order]))
    return best, odd


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
    """Write a segment; the answer describes it."""
    filled = filler.finish()
    segment = None
    if filled is not None:
        directory = f"{directory}/{uuid4()}"
        for name, data in filled.files.items():
            put(sink, f"{directory}/{name}", [data])
        segment = json.dumps(asdict(filled.written(directory)))
    return pa.RecordBatch.from_arrays(
        [pa.array([segment], pa.string()), pa.array([filler.odd])], names=["segment", "odd"]
    )


def _comparing(queries: NDArray[np.float64], k: int, metric: Metric, allowed: Numbers | None) -> TaskFunction:
    """What a task does to look at every row."""

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
