"""The indexes of a table at one version, asked for the rows of a condition.

    condition  ->  the index that leaves least  ->  entries  ->  valid ones, located  ->  together with rows of the tail

1. An entry counts iff the row with its id is live in the snapshot and has its commit version; rows of the tail are
   looked at themselves. Both together are all rows that satisfy what the query settles, each once.
2. An index that cannot be read, opened, or bound to the snapshot answers for nothing, and says why.
3. Segments, known files and tails are kept with the reader, for as long as its table object lives.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from holdfast.engines.local.indexing import matching_places
from holdfast.errors import Damaged, TableError
from holdfast.index.narrow import narrowed
from holdfast.index.reader import PinnedReader
from holdfast.index.registry import Index, Registered, fields_of, unfit
from holdfast.index.scalar.entries import Segment, SegmentHits
from holdfast.index.scalar.kind import BITMAP, ENTRIES, segment_of
from holdfast.index.scalar.query import IndexQuery, asked_of
from holdfast.index.segment import checksum
from holdfast.index.tail import KnownFiles, Since, Tail, Unsteady, known_from, parts_of, tail_of
from holdfast.index.tail_rows import TailRows, file_numbers, tail_rows
from holdfast.model.snapshot import LoadHidden
from holdfast.plan.scan.prune import Want, prune
from holdfast.predicate.records import Predicate, columns_of
from holdfast.rows.keys import Numbers
from holdfast.schema.types import Field
from holdfast.storage.base import NotFound

FEW_HITS = 1000  # so many are fetched whatever the size of the table
MOST_SHARE = 0.001  # of the table's rows: beyond, reading single rows costs more than a scan
KEPT_ROWS = 1 << 18  # of a tail that is kept in memory for the next lookup
FEW_COMMITS = 8  # are read to tell rows that were written since from copies
_KNOWN, _TAILS, _ROWS = "holdfast.index.known", "holdfast.index.tails", "holdfast.index.rows"
_TAIL_ROWS = "holdfast.index.tail_rows"
_SPENT = "holdfast.index.spent"
_KEPT = 32


@dataclass(frozen=True)
class ChosenIndex:
    """An index that is asked, what it found, and what it leaves."""

    index: Index
    asked: IndexQuery
    found: tuple[SegmentHits, ...]
    tail: Tail

    @property
    def hits(self) -> int:
        """Entries at most: some may be dead."""
        return sum(found.count for found in self.found)


@dataclass(frozen=True)
class Indexes:
    """What a version's indexes can be asked."""

    reader: PinnedReader
    registered: Registered
    table_id: str
    since: Callable[[int], Since]  # whether rows came back after a version
    load_hidden: LoadHidden
    _fits: dict[str, tuple[Field, ...] | str] = field(default_factory=dict)  # columns of an index, or why it has no say
    _open: dict[str, tuple[tuple[Segment, ...], Tail]] = field(default_factory=dict)  # what an index has, and leaves

    def unusable(self, index: Index) -> str | None:
        """Why an index answers for nothing here; None where it may."""
        fields = self._fields(index)
        return fields if isinstance(fields, str) else None

    def tail(self, index: Index) -> Tail:
        """The rows an index does not answer for; Damaged where nobody can tell."""
        snapshot = self.reader.snapshot
        kept: OrderedDict[Any, Tail] = self.reader.memory.setdefault(_TAILS, OrderedDict())
        name = (snapshot.version, index.uuid, index.generation)
        if name not in kept:
            since = self.since(index.version)
            tail = tail_of(snapshot, self._known(index), index.version, since, self.load_hidden)
            kept[name] = narrowed(tail, self.reader)
            while len(kept) > _KEPT:
                kept.popitem(last=False)
        return kept[name]

    def choose(self, where: Predicate) -> tuple[ChosenIndex | None, Mapping[str, str]]:
        """The index that leaves least to look at; and of each other one why it is not asked."""
        why = dict(self.registered.troubles)
        choices: list[ChosenIndex] = []
        for name, index in self.registered.indexes.items():
            found = self._choice(index, where)
            if isinstance(found, ChosenIndex):
                choices.append(found)
            elif found:
                why[name] = found
        if not choices:
            return None, why
        best = min(choices, key=lambda c: (c.hits + c.tail.most_rows, -c.asked.columns, c.index.name))
        why |= {c.index.name: f"{best.index.name} leaves less to look at" for c in choices if c is not best}
        return best, why

    def _choice(self, index: Index, where: Predicate) -> ChosenIndex | str:
        if index.definition.kind not in (ENTRIES, BITMAP):
            return ""
        fields = self._fields(index)
        if isinstance(fields, str):
            return fields
        asked = asked_of(fields, where)
        if asked is None:
            return f"the condition says nothing of {fields[0].name} that an index could look for"
        try:
            segments, tail = self._open.get(index.name) or self._opened(index)
            return ChosenIndex(index, asked, tuple(segment.find(asked.query) for segment in segments), tail)
        except TableError as error:
            return str(error)

    def _fields(self, index: Index) -> tuple[Field, ...] | str:
        """The columns of an index, or why it answers for nothing here."""
        found = self._fits.get(index.uuid)
        if found is None:
            snapshot = self.reader.snapshot
            found = unfit(index.definition, snapshot, self.table_id) or fields_of(index.definition, snapshot)
            assert found is not None, "an index that fits has its columns"
            self._fits[index.uuid] = found
        return found

    def _opened(self, index: Index) -> tuple[tuple[Segment, ...], Tail]:
        segments = tuple(segment_of(self.reader, ref, index.definition) for ref in index.segments)
        found = self._open[index.name] = segments, self._looked_at(index)
        return found

    def files_with(self, choice: ChosenIndex) -> Numbers:
        """The numbers of files that hold hits, ascending."""
        files, _ = self._valid(choice.found)
        return np.unique(files)

    def places(self, choice: ChosenIndex) -> tuple[Numbers, Numbers]:
        """Where the rows are that satisfy what the query settles: file numbers and positions, in stored order."""
        files, positions = self._valid(choice.found)
        if len(choice.tail):
            more, at = self._in_tail(choice)
            files, positions = np.concatenate((files, more)), np.concatenate((positions, at))
        return _once(files, positions)

    def _in_tail(self, choice: ChosenIndex) -> tuple[Numbers, Numbers]:
        """Where rows of the tail are that satisfy what the query settles."""
        settled, tail, snapshot = choice.asked.settled, choice.tail, self.reader.snapshot
        few = self._pruned(tail, settled)
        if tail.most_rows <= KEPT_ROWS:
            used = {column[0] for column in columns_of(settled)}
            fields = tuple(f for f in snapshot.schema.fields if f.name in used)
            kept: OrderedDict[Any, TailRows] = self.reader.memory.setdefault(_TAIL_ROWS, OrderedDict())
            name = (snapshot.version, choice.index.uuid, choice.index.generation, tuple(f.name for f in fields))
            if name not in kept:
                # Files are read for single lookups until that has cost as much as reading all of them once.
                spent: dict[Any, int] = self.reader.memory.setdefault(_SPENT, {})
                spent[name] = spent.get(name, 0) + len(few)
                if len(few) < len(tail) and spent[name] <= len(tail):
                    return tail_rows(self.reader, few, fields, self.load_hidden).where(settled)
                spent.clear()
                kept[name] = tail_rows(self.reader, tail, fields, self.load_hidden)
                while len(kept) > _KEPT:
                    kept.popitem(last=False)
            return kept[name].where(settled)
        places = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        for part in parts_of(snapshot, few, self.load_hidden):
            number, at = matching_places(snapshot, part.files, part.hidden, settled, part.newer_than)
            numbers = file_numbers(self.reader, part.files.column("key").combine_chunks())
            places.append((numbers[number.to_numpy()], at.to_numpy()))
        files, positions = (np.concatenate([pair[n] for pair in places]) for n in (0, 1))
        return files, positions

    def _pruned(self, tail: Tail, where: Predicate) -> Tail:
        """The files of a tail that may hold a row which satisfies a condition, by what the log says of them."""
        want = Want(self.reader.snapshot, where)
        return replace(tail, whole=prune(tail.whole, want).files, newer=prune(tail.newer, want).files)

    def _looked_at(self, index: Index) -> Tail:
        """The tail for a lookup: all rows written since, where telling which are copies costs more than reading them.

        That is told by every commit since; it pays where they are few, or what they wrote is much.
        """
        snapshot = self.reader.snapshot
        exact = self.reader.memory.get(_TAILS, {})
        behind = snapshot.version - index.version
        if behind <= FEW_COMMITS or (snapshot.version, index.uuid, index.generation) in exact:
            return self.tail(index)
        known = self._known(index)
        if known.hiding.num_rows:
            return self.tail(index)
        tail = tail_of(snapshot, known, index.version, Unsteady("the commits since were not read"), self.load_hidden)
        return replace(tail, why=None) if tail.most_rows <= KEPT_ROWS else self.tail(index)

    def rows(self) -> int:
        """Physical rows of the snapshot, as far as its log tells."""
        kept: dict[int, int] = self.reader.memory.setdefault(_ROWS, {})
        version = self.reader.snapshot.version
        if version not in kept:
            kept.clear()
            kept[version] = pc.sum(self.reader.snapshot.files.num_records).as_py() or 0
        return kept[version]

    def _valid(self, found: Sequence[SegmentHits]) -> tuple[Numbers, Numbers]:
        """Where the rows of valid entries are."""
        hits = [one.hits() for one in found if one.count]
        if not hits:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        ids = hits[0].ids if len(hits) == 1 else np.concatenate([h.ids for h in hits])
        versions = hits[0].versions if len(hits) == 1 else np.concatenate([h.versions for h in hits])
        located = self.reader.locate(ids)
        valid = located.live & (located.versions == versions)
        return located.files[valid], located.positions[valid]

    def _known(self, index: Index) -> KnownFiles:
        kept: OrderedDict[str, KnownFiles] = self.reader.memory.setdefault(_KNOWN, OrderedDict())
        ref = index.files
        name = f"{ref.key}#{ref.checksum}"
        if name not in kept:
            location = self.reader.snapshot.location
            where = f"{location.url}/{ref.key}"
            try:
                data = location.store.get(location.key(ref.key))
            except NotFound as error:
                raise Damaged(f"{where} is not there, but the index refers to it", path=where) from error
            if f"{checksum(data):08x}" != ref.checksum:
                raise Damaged(f"{where} is not what was written", path=where, expected=ref.checksum)
            kept[name] = known_from(data, where=where)
            while len(kept) > _KEPT:
                kept.popitem(last=False)
        return kept[name]


def pays(hits: int, rows: int) -> bool:
    """Whether fetching so many single rows costs less than a scan of all."""
    return hits <= max(FEW_HITS, MOST_SHARE * rows)


def too_many(choice: ChosenIndex, rows: int) -> str:
    """Why an index that could be asked is not."""
    return f"{choice.hits} entries of {rows} rows: reading them one by one costs more than a scan"


def _once(files: Numbers, positions: Numbers) -> tuple[Numbers, Numbers]:
    """Places in stored order, each once."""
    if len(files) < 2:
        return files, positions
    order = np.lexsort((positions, files))
    files, positions = files[order], positions[order]
    new = np.concatenate(([True], (files[1:] != files[:-1]) | (positions[1:] != positions[:-1])))
    return files[new], positions[new]
