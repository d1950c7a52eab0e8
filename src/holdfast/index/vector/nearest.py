"""Finds the nearest rows of a snapshot to query vectors, through a vector index and its tail.

    encoded entries that look near  ->  valid ones, located  ->  vectors fetched, exact distances  \\
    flat entries                    ->  valid ones, exact distances                                 >  the k nearest
    rows of the tail                ->  read, exact distances                                      /

1. Distances are exact. Rows of the tail and flat entries are all compared; only encoded entries may be missed.
2. An entry is valid if the row with its id is live in the snapshot and has its row commit version.
3. There are fewer than k rows only if the table has no more: if too few valid entries are found, the search excludes
   dead entries and visits all lists.
4. Without a usable index every row is compared, and the reason is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, sqrt
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.engines.local.indexing import ID
from holdfast.errors import Damaged, Invalid, TableError
from holdfast.index.reader import PinnedReader
from holdfast.index.registry import Index
from holdfast.index.search import Indexes
from holdfast.index.tail import Tail, parts_of, whole_of
from holdfast.index.vector.coder import Floats, prepared_queries
from holdfast.index.vector.column import odd_lengths, vectors_of
from holdfast.index.vector.library import NoLibrary
from holdfast.index.vector.metric import Metric, Near, Numbers, Points, distances, nearer, nearest_rows
from holdfast.index.vector.opened import OpenSegment, opened
from holdfast.index.vector.options import VECTOR, VectorOptions
from holdfast.index.vector.rows import LocalVectorRows
from holdfast.model.files import FileTable
from holdfast.model.snapshot import Snapshot
from holdfast.plan.indexing import IndexedFiles
from holdfast.rows.columns import ROW_ID
from holdfast.schema.types import Field
from holdfast.storage.arrays import strings
from holdfast.storage.base import NotFound

REFINE = 5  # candidates per requested row, and
FEWEST = 50  # at least
FEW_SHOWN = 10_000  # rows of a tail that are fetched by position
FEW_ALLOWED = 2_000  # rows that satisfy a condition, up to which all are fetched

_TAILS = "vector tails"
_TAIL_BYTES = 128 << 20


class VectorRows(Protocol):
    """Rows with vectors that can be compared one by one."""

    def nearest(
        self, queries: NDArray[np.float64], k: int, metric: Metric, allowed: Numbers | None
    ) -> tuple[list[Near], int]: ...


RowsOf: TypeAlias = Callable[[Field, Sequence[IndexedFiles]], VectorRows]


@dataclass(frozen=True)
class NearestRequest:
    """A request for the k nearest rows of each query, in a column."""

    column: Field
    queries: NDArray[np.float64]
    k: int
    metric: Metric | None = None  # None: that of the index
    probes: int | None = None
    refine: int | None = None

    @property
    def effort(self) -> int:
        """Candidates for each query."""
        return max(FEWEST, REFINE * self.k) if self.refine is None else max(1, self.refine) * self.k


@dataclass(frozen=True)
class Route:
    """The way to an answer: an index and its tail, or every row; and why other indexes are not used."""

    metric: Metric
    index: Index | None = None
    segments: tuple[OpenSegment, ...] = ()
    tail: Tail = field(default_factory=Tail)
    why: Mapping[str, str] = field(default_factory=dict)  # by index


def route(indexes: Indexes, ask: NearestRequest) -> Route:
    """The vector index on a column that leaves the fewest rows to read."""
    why: dict[str, str] = {}
    routes: list[Route] = []
    for name, index in indexes.registered.indexes.items():
        definition = index.definition
        if definition.kind != VECTOR or definition.columns[0].name != ask.column.physical_name:
            continue
        candidate = _route(indexes, index, ask)
        if isinstance(candidate, Route):
            routes.append(candidate)
        else:
            why[name] = candidate
    why |= indexes.registered.troubles
    if not routes:
        return Route(ask.metric or Metric.L2, why=why)
    best = min(
        routes, key=lambda candidate: (candidate.tail.most_rows, candidate.index.name if candidate.index else "")
    )
    others = {
        candidate.index.name: "another index leaves less to look at"
        for candidate in routes
        if candidate.index and candidate is not best
    }
    return Route(best.metric, best.index, best.segments, best.tail, why | others)


def nearest(indexes: Indexes, ask: NearestRequest, way: Route, allowed: Numbers | None, rows_of: RowsOf) -> list[Near]:
    """The nearest rows of each query; only rows in `allowed` (ascending ids) if given."""
    reader = indexes.reader
    if allowed is not None and len(allowed) <= max(FEW_ALLOWED, 4 * ask.effort):
        return _fetched(reader, ask, way.metric, allowed)
    if way.index is None:
        return _compared(rows_of(ask.column, whole_of(reader.snapshot, indexes.load_hidden)), ask, way, allowed)
    best = _near_tail(indexes, ask, way, allowed, rows_of)
    for more in _near_entries(reader, ask, way, allowed):
        best = [nearer(one, other, ask.k) for one, other in zip(best, more, strict=True)]
    return best


def _route(indexes: Indexes, index: Index, ask: NearestRequest) -> Route | str:
    """The route through an index, or why it cannot be used."""
    if reason := indexes.unusable(index):
        return reason
    metric = VectorOptions.kept(index.definition.params).metric
    if ask.metric not in (None, metric):
        return f"its metric is {metric.value}"
    try:
        tail = indexes.tail(index)
        segments = tuple(opened(indexes.reader, ref) for ref in index.segments)
    except NotFound as error:
        return f"{error}, but the index refers to it"
    except (TableError, NoLibrary) as error:
        return str(error)
    for trained in (segment.trained for segment in segments[:1]):
        if trained.length != ask.queries.shape[1]:
            raise Invalid(
                f"vectors of {ask.column.name} have {trained.length} elements, and a query for them has "
                f"{ask.queries.shape[1]}"
            )
        if trained.width and prepared_queries(ask.queries, trained) is None:
            return "a query is longer than its numbers can hold"
    return Route(metric, index, segments, tail)


def _compared(rows: VectorRows, ask: NearestRequest, way: Route, allowed: Numbers | None) -> list[Near]:
    near, odd = rows.nearest(ask.queries, ask.k, way.metric, allowed)
    if odd:
        raise odd_lengths(ask.column.name, odd, ask.queries.shape[1])
    return near


def _fetched(reader: PinnedReader, ask: NearestRequest, metric: Metric, allowed: Numbers) -> list[Near]:
    """The nearest of few rows, which are all fetched."""
    located = reader.locate(allowed)
    ids = allowed[located.live]
    if not len(ids):
        return [Near.none()] * len(ask.queries)
    rows = reader.take_at(located.files[located.live], located.positions[located.live], [ask.column.name])
    vectors = vectors_of(rows.column(0), ask.queries.shape[1])
    if vectors.odd:
        raise odd_lengths(ask.column.name, vectors.odd, ask.queries.shape[1])
    return nearest_rows(Points(vectors.matrix, ids[vectors.rows]), ask.queries, ask.k, metric)


def _near_tail(
    indexes: Indexes, ask: NearestRequest, way: Route, allowed: Numbers | None, rows_of: RowsOf
) -> list[Near]:
    """The nearest rows of the tail; a small tail is read once and cached."""
    if not len(way.tail):
        return [Near.none()] * len(ask.queries)
    reader, width = indexes.reader, ask.queries.shape[1]
    if 8 * width * way.tail.most_rows > _TAIL_BYTES:
        parts = parts_of(reader.snapshot, way.tail, indexes.load_hidden)
        return _compared(rows_of(ask.column, parts), ask, way, allowed)
    assert way.index is not None, "what has a tail has an index"
    cache: dict[str, tuple[Snapshot, int, tuple[Points, int]]] = reader.memory.setdefault(_TAILS, {})
    cache_key = f"{way.index.uuid} {way.index.generation}"
    if cache_key not in cache or cache[cache_key][0] is not reader.snapshot or cache[cache_key][1] != width:
        cache.clear()
        cache[cache_key] = reader.snapshot, width, _read_tail(indexes, ask.column, way.tail, width)
    points, odd = cache[cache_key][2]
    if odd:
        raise odd_lengths(ask.column.name, odd, width)
    return nearest_rows(points.among(allowed), ask.queries, ask.k, way.metric)


def _read_tail(indexes: Indexes, column: Field, tail: Tail, width: int) -> tuple[Points, int]:
    """The vectors of a tail, and how many have another length; few rows are fetched by position."""
    reader = indexes.reader
    single = sum(map(len, tail.shown.values())) <= FEW_SHOWN
    rest = replace(tail, again=FileTable(), shown={}) if single else tail
    rows = LocalVectorRows(reader.snapshot, column, parts_of(reader.snapshot, rest, indexes.load_hidden))
    points, odd = rows.all(width)
    if not single or not tail.shown:
        return points, odd
    keys = reader.snapshot.files.column("key").combine_chunks()
    numbers = pc.index_in(strings(list(tail.shown)), value_set=keys).to_numpy()
    places = [np.frombuffer(shown.to_array(), np.uint64).astype(np.int64) for shown in tail.shown.values()]
    files = np.repeat(numbers.astype(np.int64), [len(part) for part in places])
    table = reader.take_at(files, np.concatenate(places), [column.name], {ROW_ID: ID})
    more = vectors_of(table.column(0), width)
    more_ids = table.column(ID).to_numpy()[more.rows]
    joined = np.concatenate([points.vectors, more.matrix]) if len(points.ids) else more.matrix
    return Points(joined, np.concatenate([points.ids, more_ids])), odd + more.odd


def _near_entries(reader: PinnedReader, ask: NearestRequest, way: Route, allowed: Numbers | None) -> list[list[Near]]:
    """The nearest flat entries of each segment, and the nearest of all encoded entries."""
    near: list[list[Near]] = []
    for segment in way.segments:
        if len(segment.flat):
            points = segment.live_flat(reader).among(allowed)
            near.append(nearest_rows(points, ask.queries, ask.k, way.metric))
    coded = [segment for segment in way.segments if segment.coder is not None]
    if coded:
        near.append(_reranked(reader, ask, way.metric, _search(coded, reader, ask, allowed)))
    return near


@dataclass(frozen=True, slots=True, eq=False)
class _Hits:
    """Valid entries: the query, the approximate distance, and where the row is."""

    queries: Numbers
    away: Floats
    ids: Numbers
    files: Numbers
    positions: Numbers


@dataclass(slots=True, eq=False)
class _Search:
    """A search of the encoded entries of one segment, repeated with more effort until it has found enough."""

    segment: OpenSegment
    queries: Floats
    chosen: NDArray[np.bool_] | None  # the entries of allowed rows
    live: NDArray[np.bool_] | None  # the valid entries, if known
    probes: int
    numbers: Numbers = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    away: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))

    @classmethod
    def of(cls, segment: OpenSegment, reader: PinnedReader, ask: NearestRequest, allowed: Numbers | None) -> _Search:
        trained, coded = segment.trained, segment.coded
        queries = prepared_queries(ask.queries, trained)
        assert queries is not None, "such a query takes another way"
        chosen = None if allowed is None else segment.having(allowed)[:coded]
        probes = trained.probes if ask.probes is None else ask.probes
        if chosen is not None and ask.probes is None:
            share = max(int(chosen.sum()), 1) / coded
            probes = ceil(probes / sqrt(share))  # the nearest allowed rows are farther away
        live = segment.known_live(reader)
        search = cls(segment, queries, chosen, None if live is None else live[:coded], probes)
        if coded <= 4 * ask.effort:
            search.probes = search.all_lists
        return search

    @property
    def all_lists(self) -> int:
        return self.segment.trained.lists or self.segment.coded  # for a graph: its efSearch

    @property
    def mask(self) -> NDArray[np.bool_] | None:
        return _both(self.chosen, self.live)

    def run(self, effort: int) -> None:
        assert self.segment.coder is not None, "only coded entries are searched"
        self.numbers, self.away = self.segment.coder.search(self.queries, effort, self.probes, self.mask)

    def deepened(self, hits: _Hits, k: int, reader: PinnedReader) -> bool:
        """Whether too few entries were found and another run may find more."""
        mask = self.mask
        possible = self.segment.coded if mask is None else int(mask.sum())
        if np.bincount(hits.queries, minlength=len(self.queries)).min() >= min(k, possible):
            return False
        if self.live is None and len(hits.queries) < (self.numbers >= 0).sum():
            self.live = self.segment.live(reader)[: self.segment.coded]
        elif self.probes < self.all_lists:
            self.probes = self.all_lists
        else:
            return False
        return True


def _search(
    segments: Sequence[OpenSegment], reader: PinnedReader, ask: NearestRequest, allowed: Numbers | None
) -> Sequence[_Hits]:
    """The valid entries of segments that look near."""
    searches = [_Search.of(segment, reader, ask, allowed) for segment in segments]
    complete: list[_Hits] = []
    while searches:
        for search in searches:
            search.run(ask.effort)
        hits = list(zip(searches, _valid(searches, reader), strict=True))
        searches = [search for search, own_hits in hits if search.deepened(own_hits, ask.k, reader)]
        complete += [own_hits for search, own_hits in hits if search not in searches]
    return complete


def _valid(searches: Sequence[_Search], reader: PinnedReader) -> list[_Hits]:
    """The hits of searches without dead entries; all rows are located at once."""
    which, at = zip(*(np.nonzero(search.numbers >= 0) for search in searches), strict=True)
    entries = [search.numbers[rows, ranks] for search, rows, ranks in zip(searches, which, at, strict=True)]
    ids = [search.segment.ids[numbers] for search, numbers in zip(searches, entries, strict=True)]
    located = reader.locate(np.concatenate(ids))
    hits: list[_Hits] = []
    first = 0
    for number, search in enumerate(searches):
        own = slice(first, first + len(ids[number]))
        first = own.stop
        valid = located.live[own] & (located.versions[own] == search.segment.versions[entries[number]])
        rows, ranks = which[number][valid], at[number][valid]
        places = located.files[own][valid], located.positions[own][valid]
        hits.append(_Hits(rows, search.away[rows, ranks], ids[number][valid], *places))
    return hits


def _reranked(reader: PinnedReader, ask: NearestRequest, metric: Metric, hits: Sequence[_Hits]) -> list[Near]:
    """The nearest rows by their own vectors, among the hits of all segments."""
    queries, away, ids, files, positions = (
        np.concatenate([getattr(one, name) for one in hits])
        for name in ("queries", "away", "ids", "files", "positions")
    )
    once = np.lexsort((away, ids, queries))  # a row may have an entry in two segments
    new = np.append(True, (np.diff(queries[once]) != 0) | (np.diff(ids[once]) != 0))[: len(once)]
    once = once[new]
    order = once[np.lexsort((away[once], queries[once]))]
    starts = np.searchsorted(queries[order], np.arange(len(ask.queries)))
    chosen = order[np.arange(len(order)) - starts[queries[order]] < ask.effort]
    rows, first, back = np.unique(ids[chosen], return_index=True, return_inverse=True)
    if not len(rows):
        return [Near.none()] * len(ask.queries)
    table = reader.take_at(files[chosen[first]], positions[chosen[first]], [ask.column.name])
    vectors = vectors_of(table.column(0), ask.queries.shape[1])
    at = np.full(len(rows), -1)
    at[vectors.rows] = np.arange(len(vectors.rows))
    if (at < 0).any():
        place = reader.snapshot.location.url
        raise Damaged(
            f"row {rows[at < 0][0]} of {place} has an entry in an index of {ask.column.name}, and no vector there: its "
            "data file is not the one that was written; restore it",
            path=place,
        )
    best = []
    for number, query in enumerate(ask.queries):
        own = np.unique(back[queries[chosen] == number])
        exact = distances(vectors.matrix[at[own]], query, metric)
        near = np.lexsort((rows[own], exact))[: ask.k]
        best.append(Near(rows[own][near], exact[near]))
    return best


def _both(one: NDArray[np.bool_] | None, other: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other
