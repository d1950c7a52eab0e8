"""Finds the rows whose vectors are nearest to given ones.

1. Rows are of the version that the table object has pinned, as for `take` and `lookup`; `refresh()` moves it.
2. Every distance is exact, and rows without entries are read. Only entries of an approximate index can be missed, and
   `recall` measures how many.
3. Rows come nearest first; of rows at one distance the lowest row id first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.errors import Invalid, NoRowIdentity
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.index.search import Indexes, pays
from holdfast.index.tail import whole_of
from holdfast.index.vector.column import odd_lengths, queries_of, refuse_no_vectors
from holdfast.index.vector.metric import Metric, Near, Numbers
from holdfast.index.vector.nearest import NearestRequest, RowsOf, VectorRows, nearest, route
from holdfast.index.vector.options import Method
from holdfast.index.vector.recall import recall_of, some_vectors
from holdfast.index.vector.rows import LocalVectorRows
from holdfast.index.vector.worker_rows import WorkerVectorRows, nearest_of, nearest_task
from holdfast.model.snapshot import Snapshot
from holdfast.plan.indexing import IndexedFiles
from holdfast.plan.scan.request import Condition, Request, known_columns, plan_scan, refuse_unknown
from holdfast.predicate.evaluate import matches
from holdfast.predicate.records import columns_of, conjunction
from holdfast.rows.columns import ROW_ID
from holdfast.schema.types import Field
from holdfast.verbs.index import maintain as reindexing
from holdfast.verbs.index.pinned_readers import Pin
from holdfast.verbs.open.delta_handle import DeltaHandle
from holdfast.verbs.open.engine import LOCAL
from holdfast.verbs.open.handle import Metadata, Timestamp, Version
from holdfast.verbs.open.spark_values import stated_or_none, stated_without_spark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DISTANCE, QUERY = "_distance", "_query"
_ID = "__hf_row_id"


@dataclass(frozen=True)
class NearestPlan:
    """How `nearest` would find its answer. Printing it shows it."""

    metric: str
    index: str | None  # None: every row is looked at
    method: str | None
    entries: int
    tail_rows: int  # looked at beside the index, at most
    probes: int | None  # lists that are visited; None: there are none
    candidates: int | None  # entries that are compared exactly; None: all
    why: Mapping[str, str]  # of each index that is not used

    def __str__(self) -> str:
        if self.index is None:
            lines = [f"every row is looked at ({self.metric}): no vector index can be used"]
        else:
            lists = "" if self.probes is None else f", {self.probes} lists of them visited"
            compared = "all" if self.candidates is None else f"{self.candidates} candidates"
            lines = [
                f"by the index {self.index} ({self.method}, {self.metric}): {self.entries} entries{lists}, "
                f"{compared} compared exactly",
                f"  beside it {self.tail_rows} rows are looked at",
            ]
        return "\n".join([*lines, *(f"  not by {name}: {reason}" for name, reason in self.why.items())])

    __repr__ = __str__


Vectors: TypeAlias = npt.ArrayLike | pa.Array | pa.ChunkedArray


@dataclass(frozen=True)
class NearestCall:
    """What a user asks of `nearest`."""

    column: str
    vector: Vectors
    k: int
    metric: str | None
    nprobe: int | None
    refine: int | None

    def request(self, snapshot: Snapshot) -> tuple[NearestRequest, bool]:
        """The request, and whether it is by several vectors."""
        field = _field(snapshot, self.column)
        queries, several = queries_of(self.vector, field.name)
        numbers: dict[str, object] = {"k": self.k, "nprobe": self.nprobe, "refine": self.refine}
        for name, value in numbers.items():
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise Invalid(f"{name}= is a whole number from 1 on, not {value!r}")
        metrics = {each.value: each for each in Metric}
        if self.metric is not None and self.metric not in metrics:
            raise Invalid(f"metric= is one of {', '.join(metrics)}, not {self.metric!r}")
        metric = None if self.metric is None else metrics[self.metric]
        return NearestRequest(field, queries, self.k, metric, self.nprobe, self.refine), several


def nearest_rows(
    handle: DeltaHandle,
    call: NearestCall,
    where: str | None,
    version: Version,
    timestamp: Timestamp,
    columns: Sequence[str] | None,
    metadata: Metadata,
) -> pa.Table:
    """The k rows whose vectors are nearest, of those that satisfy `where`, with their distances."""
    text = stated_without_spark(where, "nearest(where=)")
    pin = handle.pinned(version, timestamp)
    snapshot = _tracked(pin)
    request, several = call.request(snapshot)
    _check_output(pin, columns, metadata, several)
    condition = handle.local_condition(text, snapshot, ())
    indexes = reindexing.opened(pin, handle.state)
    allowed = None if condition is None else _allowed(indexes, condition)
    answers = nearest(indexes, request, route(indexes, request), allowed, _local_rows(snapshot))
    return _table(pin, answers, columns, metadata, several=several)


def nearest_frame(
    handle: DeltaHandle,
    call: NearestCall,
    where: str | Column | None,
    version: Version,
    timestamp: Timestamp,
    columns: Sequence[str] | None,
    metadata: Metadata,
) -> DataFrame:
    """The same rows as a DataFrame: Spark evaluates `where` and reads the rows that no index answers for."""
    value = stated_or_none(where, "nearestDF(where=)")
    engine = handle.on_spark()
    pin = handle.pinned(version, timestamp)
    snapshot = _tracked(pin)
    request, several = call.request(snapshot)
    _check_output(pin, columns, metadata, several)
    condition = handle.condition(value, snapshot, ())
    indexes = reindexing.opened(pin, handle.state)
    way = route(indexes, request)

    def rows_of(field: Field, parts: Sequence[IndexedFiles]) -> VectorRows:
        return WorkerVectorRows(engine.workers, snapshot, field, parts)

    if way.index is None:
        frame = handle.opened(pin.state).scan(Request([request.column.name], condition, {ROW_ID: _ID}), engine)
        task = nearest_task(request.queries, request.k, way.metric)
        answers, odd = nearest_of(engine.map_frame(frame, task), len(request.queries), request.k)
        if odd:
            raise odd_lengths(request.column.name, odd, request.queries.shape[1])
    else:
        allowed = None
        if condition is not None:
            bits = engine.id_bitmap(*handle.opened(pin.state).plan(Request([], condition, {ROW_ID: _ID})), _ID)
            allowed = np.frombuffer(bits.to_array(), np.uint64).astype(np.int64)
        answers = nearest(indexes, request, way, allowed, rows_of)
    return engine.spark.createDataFrame(_table(pin, answers, columns, metadata, several=several))


def explain_nearest(handle: DeltaHandle, call: NearestCall, version: Version, timestamp: Timestamp) -> NearestPlan:
    """How `nearest` would find its answer, and why not otherwise."""
    pin = handle.pinned(version, timestamp)
    request, _ = call.request(_tracked(pin))
    indexes = reindexing.opened(pin, handle.state)
    way = route(indexes, request)
    if way.index is None:
        return NearestPlan(way.metric.value, None, None, 0, indexes.rows(), None, None, way.why)
    trained = way.segments[0].trained if way.segments else None
    lists = trained is not None and trained.method.has_lists
    probes = None if trained is None or not lists else min(call.nprobe or trained.probes, trained.lists)
    return NearestPlan(
        way.metric.value,
        way.index.name,
        None if trained is None else trained.method.value,
        way.index.entries,
        way.tail.most_rows,
        probes,
        None if trained is None or trained.method is Method.FLAT else request.effort,
        way.why,
    )


def recall(
    handle: DeltaHandle,
    column: str,
    sample: int,
    k: int,
    metric: str | None,
    nprobe: int | None,
    refine: int | None,
) -> float:
    """The share of the k nearest rows that `nearest` finds, by the vectors of some rows, each without itself."""
    pin, workers = handle.pinned(), handle.engine.workers
    snapshot = _tracked(pin)
    ids, queries = some_vectors(pin.reader, _field(snapshot, column), sample, handle.env.rng.getrandbits(32))
    if not len(ids):
        raise Invalid(f"no row has a vector in {column}, so there is no recall")
    request, _ = NearestCall(column, queries, k + 1, metric, nprobe, refine).request(snapshot)
    indexes = reindexing.opened(pin, handle.state)
    way, local = route(indexes, request), _local_rows(snapshot)
    answers = nearest(indexes, request, way, None, local)
    whole = whole_of(snapshot, load_hidden)
    rows = local(request.column, whole)
    if workers is not None:
        rows = WorkerVectorRows(workers, snapshot, request.column, whole)
    exact, _ = rows.nearest(request.queries, k + 1, way.metric, None)
    return float(np.mean([recall_of(a, e, own, k) for a, e, own in zip(answers, exact, ids.tolist(), strict=True)]))


def _check_output(pin: Pin, columns: Sequence[str] | None, metadata: Metadata, several: bool) -> None:
    """Refuse what cannot come out, before anything is searched."""
    spec = pin.reader.read_spec(columns, metadata)
    names = {f.name for f in spec.fields} | set(spec.metadata.values())
    for name in (DISTANCE, *((QUERY,) if several else ())):
        if name in names:
            raise Invalid(f"the answer has a column {name} of its own: leave the table's out with columns=[...]")


def _tracked(pin: Pin) -> Snapshot:
    snapshot = pin.state.snapshot
    if snapshot.identity is None:
        raise NoRowIdentity(
            f"rows are found by their ids, which the table at {snapshot.location.url} does not have: call "
            "enableRowTracking(), which rewrites nothing"
        )
    return snapshot


def _local_rows(snapshot: Snapshot) -> RowsOf:
    return lambda field, parts: LocalVectorRows(snapshot, field, parts)


def _field(snapshot: Snapshot, column: str) -> Field:
    known = known_columns(snapshot, ())
    refuse_unknown([column], known)
    field = snapshot.schema.find(column)
    assert field is not None, "what is not unknown is there"
    refuse_no_vectors(field)
    return field


def _allowed(indexes: Indexes, condition: Condition) -> Numbers:
    """The ids of rows that satisfy a condition, ascending: through an index where that pays, else by a scan."""
    reader = indexes.reader
    choice, _ = indexes.choose(condition.predicate)
    if choice is not None and pays(choice.hits, indexes.rows()):
        files, positions = indexes.places(choice)
        left = conjunction(choice.query.unsettled)
        rows = reader.take_at(files, positions, sorted({c[0] for c in columns_of(left)}), {ROW_ID: _ID})
        rows = rows.filter(matches(rows, left)) if choice.query.unsettled else rows
    else:
        plan = plan_scan(reader.snapshot, Request([], condition, {ROW_ID: _ID}))
        rows = LOCAL.scan(plan, load_hidden(reader.snapshot.location, plan.files))
    ids: Numbers = np.sort(rows.column(_ID).to_numpy())
    return ids


def _table(
    pin: Pin, answers: Sequence[Near], columns: Sequence[str] | None, metadata: Metadata, *, several: bool
) -> pa.Table:
    """The rows that were found, query by query, with their distances."""
    ids = np.concatenate([near.ids for near in answers])
    located = pin.reader.locate(ids)
    rows = pin.reader.take_at(located.files, located.positions, columns, metadata)
    if several:
        which = np.repeat(np.arange(len(answers)), [len(near) for near in answers])
        rows = rows.append_column(QUERY, pa.array(which))
    return rows.append_column(DISTANCE, pa.array(np.concatenate([near.distances for near in answers])))
