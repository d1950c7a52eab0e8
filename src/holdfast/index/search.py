"""Finds rows of a table version by condition, through its scalar indexes.

    condition  ->  the index that leaves the fewest rows  ->  valid entries, located  ->  plus rows of the tail

1. An entry is valid if the row with its id is live and has its row commit version; rows of the tail are read. Together
   they are all rows that satisfy the parts of the condition that the index decides, each once.
2. An index that cannot be read, opened or bound to the snapshot is not used, and the reason is given.
3. Segments, known files and tails are cached with the reader, for as long as its table object lives.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow.compute as pc

from holdfast.engines.local.indexing import matching_places
from holdfast.errors import Damaged, TableError
from holdfast.index.reader import PinnedReader
from holdfast.index.registry import Index, Registered, fields_of, unfit
from holdfast.index.scalar.entries import Segment, SegmentHits
from holdfast.index.scalar.kind import BITMAP, ENTRIES, segment_of
from holdfast.index.scalar.query import IndexQuery, index_query
from holdfast.index.segment import checksum
from holdfast.index.tail import KnownFiles, Since, Tail, Unsteady, known_from, parts_of, tail_of
from holdfast.index.tail_rows import file_numbers, tail_rows, without_copies
from holdfast.model.snapshot import LoadHidden
from holdfast.plan.scan.prune import Want, prune
from holdfast.predicate.records import Predicate, columns_of
from holdfast.rows.keys import Numbers
from holdfast.schema.types import Field
from holdfast.storage.base import NotFound

FEW_HITS = 1000  # rows that are fetched whatever the size of the table
MOST_SHARE = 0.001  # of the table's rows: beyond, reading single rows costs more than a scan
KEPT_ROWS = 1 << 18  # of a tail that is cached for the next lookup
FEW_COMMITS = 8  # commits that are read to tell new rows from copies
_KNOWN, _TAILS, _ROWS = "holdfast.index.known", "holdfast.index.tails", "holdfast.index.rows"
_TAIL_ROWS = "holdfast.index.rows_of_tails"
_SPENT = "holdfast.index.spent"
_KEPT = 32

Value = TypeVar("Value")


@dataclass(frozen=True)
class ChosenIndex:
    """An index that answers a condition: its query, its hits and its tail."""

    index: Index
    query: IndexQuery
    segment_hits: tuple[SegmentHits, ...]
    tail: Tail

    @property
    def hits(self) -> int:
        """The number of entries; some may be dead."""
        return sum(each.count for each in self.segment_hits)


@dataclass(frozen=True)
class Indexes:
    reader: PinnedReader
    registered: Registered
    table_id: str
    since: Callable[[int], Since]  # whether rows came back after a version
    load_hidden: LoadHidden
    _fits: dict[str, tuple[Field, ...] | str] = field(default_factory=dict)  # columns, or why it cannot be used
    _open: dict[str, tuple[tuple[Segment, ...], Tail]] = field(default_factory=dict)  # segments and tail

    def unusable(self, index: Index) -> str | None:
        """Why an index cannot be used here; None if it can."""
        fields = self._fields(index)
        return fields if isinstance(fields, str) else None

    def tail(self, index: Index) -> Tail:
        """The rows that an index does not answer for."""
        snapshot = self.reader.snapshot

        def computed() -> Tail:
            since = self.since(index.version)
            tail = tail_of(snapshot, self._known_files(index), index.version, since, self.load_hidden)
            return without_copies(tail, self.reader)

        return _cached(self._cache(_TAILS), (snapshot.version, index.uuid, index.generation), computed)

    def _cache(self, name: str) -> OrderedDict[object, Any]:
        """A cache that the reader keeps, also for other versions."""
        cache: OrderedDict[object, Any] = self.reader.memory.setdefault(name, OrderedDict())
        return cache

    def choose(self, where: Predicate) -> tuple[ChosenIndex | None, Mapping[str, str]]:
        """The index that leaves the fewest rows to read, and the reason why each other index is not used."""
        why = dict(self.registered.troubles)
        choices: list[ChosenIndex] = []
        for name, index in self.registered.indexes.items():
            choice = self._choice(index, where)
            if isinstance(choice, ChosenIndex):
                choices.append(choice)
            elif choice:
                why[name] = choice
        if not choices:
            return None, why
        best = min(choices, key=lambda c: (c.hits + c.tail.most_rows, -c.query.columns, c.index.name))
        why |= {c.index.name: f"{best.index.name} leaves less to look at" for c in choices if c is not best}
        return best, why

    def _choice(self, index: Index, where: Predicate) -> ChosenIndex | str:
        if index.definition.kind not in (ENTRIES, BITMAP):
            return ""
        fields = self._fields(index)
        if isinstance(fields, str):
            return fields
        query = index_query(fields, where)
        if query is None:
            return f"the condition says nothing of {fields[0].name} that an index could look for"
        try:
            segments, tail = self._open.get(index.name) or self._opened(index)
            return ChosenIndex(index, query, tuple(segment.find(query.keys) for segment in segments), tail)
        except TableError as error:
            return str(error)

    def _fields(self, index: Index) -> tuple[Field, ...] | str:
        """The columns of an index, or why it cannot be used here."""
        fields = self._fits.get(index.uuid)
        if fields is None:
            snapshot = self.reader.snapshot
            fields = unfit(index.definition, snapshot, self.table_id) or fields_of(index.definition, snapshot)
            assert fields is not None, "an index that fits has its columns"
            self._fits[index.uuid] = fields
        return fields

    def _opened(self, index: Index) -> tuple[tuple[Segment, ...], Tail]:
        segments = tuple(segment_of(self.reader, ref, index.definition) for ref in index.segments)
        opened = self._open[index.name] = segments, self._lookup_tail(index)
        return opened

    def files_with(self, choice: ChosenIndex) -> Numbers:
        """The numbers of files with hits, ascending."""
        files, _ = self._valid(choice.segment_hits)
        return np.unique(files)

    def places(self, choice: ChosenIndex) -> tuple[Numbers, Numbers]:
        """File numbers and positions of the rows that satisfy the query, in stored order."""
        files, positions = self._valid(choice.segment_hits)
        if len(choice.tail):
            more, at = self._in_tail(choice)
            files, positions = np.concatenate((files, more)), np.concatenate((positions, at))
        return _once(files, positions)

    def _in_tail(self, choice: ChosenIndex) -> tuple[Numbers, Numbers]:
        """File numbers and positions of rows of the tail that satisfy the query."""
        settled, tail, snapshot = choice.query.settled, choice.tail, self.reader.snapshot
        few = self._pruned(tail, settled)
        if tail.most_rows <= KEPT_ROWS:
            used = {column[0] for column in columns_of(settled)}
            fields = tuple(f for f in snapshot.schema.fields if f.name in used)
            cache = self._cache(_TAIL_ROWS)
            name = (snapshot.version, choice.index.uuid, choice.index.generation, tuple(f.name for f in fields))
            if name not in cache:
                # Files are read for single lookups until that has cost as much as reading all of them once.
                spent: dict[object, int] = self.reader.memory.setdefault(_SPENT, {})
                spent[name] = spent.get(name, 0) + len(few)
                if len(few) < len(tail) and spent[name] <= len(tail):
                    return tail_rows(self.reader, few, fields, self.load_hidden).where(settled)
                spent.clear()
            rows = _cached(cache, name, lambda: tail_rows(self.reader, tail, fields, self.load_hidden))
            return rows.where(settled)
        places = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        for part in parts_of(snapshot, few, self.load_hidden):
            number, at = matching_places(snapshot, part.files, part.hidden, settled, part.newer_than)
            numbers = file_numbers(self.reader, part.files.column("key").combine_chunks())
            places.append((numbers[number.to_numpy()], at.to_numpy()))
        files, positions = (np.concatenate([pair[n] for pair in places]) for n in (0, 1))
        return files, positions

    def _pruned(self, tail: Tail, where: Predicate) -> Tail:
        """The tail without files that statistics exclude."""
        want = Want(self.reader.snapshot, where)
        return replace(tail, whole=prune(tail.whole, want).files, newer=prune(tail.newer, want).files)

    def _lookup_tail(self, index: Index) -> Tail:
        """The tail for a lookup, with copied rows where finding them costs more than reading them.

        Finding them takes every commit since the index; it pays if these are few, or wrote many rows.
        """
        snapshot = self.reader.snapshot
        exact = self.reader.memory.get(_TAILS, {})
        behind = snapshot.version - index.version
        if behind <= FEW_COMMITS or (snapshot.version, index.uuid, index.generation) in exact:
            return self.tail(index)
        files = self._known_files(index)
        if files.hiding.num_rows:
            return self.tail(index)
        tail = tail_of(snapshot, files, index.version, Unsteady("the commits since were not read"), self.load_hidden)
        return replace(tail, why=None) if tail.most_rows <= KEPT_ROWS else self.tail(index)

    def rows(self) -> int:
        """The physical rows of the snapshot, from its log."""
        cache: dict[int, int] = self.reader.memory.setdefault(_ROWS, {})
        version = self.reader.snapshot.version
        if version not in cache:
            cache.clear()
            cache[version] = pc.sum(self.reader.snapshot.files.num_records).as_py() or 0
        return cache[version]

    def _valid(self, segment_hits: Sequence[SegmentHits]) -> tuple[Numbers, Numbers]:
        """File numbers and positions of the rows of valid entries."""
        hits = [one.hits() for one in segment_hits if one.count]
        if not hits:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        ids = hits[0].ids if len(hits) == 1 else np.concatenate([h.ids for h in hits])
        versions = hits[0].versions if len(hits) == 1 else np.concatenate([h.versions for h in hits])
        located = self.reader.locate(ids)
        valid = located.live & (located.versions == versions)
        return located.files[valid], located.positions[valid]

    def _known_files(self, index: Index) -> KnownFiles:
        ref, location = index.files, self.reader.snapshot.location
        where = f"{location.url}/{ref.key}"

        def read() -> KnownFiles:
            try:
                data = location.store.get(location.key(ref.key))
            except NotFound as error:
                raise Damaged(f"{where} is not there, but the index refers to it", path=where) from error
            if f"{checksum(data):08x}" != ref.checksum:
                raise Damaged(f"{where} is not what was written", path=where, expected=ref.checksum)
            return known_from(data, where=where)

        return _cached(self._cache(_KNOWN), f"{ref.key}#{ref.checksum}", read)


def _cached(cache: OrderedDict[object, Any], key: object, make: Callable[[], Value]) -> Value:
    """A value from a cache, made if it is not there; the oldest values go first."""
    if key not in cache:
        cache[key] = make()
        while len(cache) > _KEPT:
            cache.popitem(last=False)
    value: Value = cache[key]
    return value


def pays(hits: int, rows: int) -> bool:
    """Whether fetching this many single rows costs less than a scan."""
    return hits <= max(FEW_HITS, MOST_SHARE * rows)


def too_many(choice: ChosenIndex, rows: int) -> str:
    """Why an index that could answer is not used."""
    return f"{choice.hits} entries of {rows} rows: reading them one by one costs more than a scan"


def _once(files: Numbers, positions: Numbers) -> tuple[Numbers, Numbers]:
    """Files and positions in stored order, each once."""
    if len(files) < 2:
        return files, positions
    order = np.lexsort((positions, files))
    files, positions = files[order], positions[order]
    new = np.concatenate(([True], (files[1:] != files[:-1]) | (positions[1:] != positions[:-1])))
    return files[new], positions[new]
