"""Finds rows of a snapshot by row id, and reads rows by file and position.

The reader caches what it reads of files, because files never change; a reader of another version starts with the cache
of the one before.

1. An id is located if and only if some file holds it at a position that is not hidden.
2. Only files that may hold a requested id are read. A row that was never moved is found without reading another file.
3. An id that is live in two of the files that were read is Damaged.
4. No step runs per row of the table, and no Python step per file, except for files that are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.errors import Damaged
from holdfast.index.rowmaps import Learned, MovedRows, RowMaps
from holdfast.model.files import DV, FileTable, NoStats, Slab
from holdfast.model.snapshot import HiddenRows, LoadHidden, Snapshot
from holdfast.parquet.pages.take import Pick, Taking
from holdfast.parquet.read import FileTask, ReadSpec
from holdfast.plan.scan.locate import CARRIES, FRESH, UNKNOWN
from holdfast.plan.scan.metadata_columns import NO_METADATA
from holdfast.plan.scan.request import Request, ScanPlan, plan_scan
from holdfast.plan.scan.tasks import planned_files, read_spec
from holdfast.rows.keys import Numbers
from holdfast.rows.layers import arrange
from holdfast.rows.rowmap import RowMap
from holdfast.rows.segments import NOT_FOUND
from holdfast.storage.base import ObjectStore
from holdfast.storage.open import place

Metadata: TypeAlias = Mapping[str, str] | Sequence[str]

NOWHERE = -1
_RECENT = 4096  # ids whose locations are cached: callers locate rows and then read some of them
_TAGS_PER_FOOTER = 20  # tags in the log cost as much to parse as one footer to read
_FORGET = 1000  # cached deletion vectors beyond the number of files, before old ones are dropped


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """Where rows are; NOWHERE in all three arrays if no live row has the id."""

    files: Numbers  # the number of the file in the snapshot
    positions: Numbers
    versions: Numbers  # the version that last changed the row

    @property
    def live(self) -> NDArray[np.bool_]:
        return np.asarray(self.files != NOWHERE)

    def at(self, which: Numbers) -> Located:
        """The locations at these indices."""
        return Located(self.files[which], self.positions[which], self.versions[which])


@dataclass
class _Cache:
    """What readers of all versions of a table share."""

    learned: Learned = field(default_factory=Learned)
    hidden: dict[tuple[str, str], BitMap64] = field(default_factory=dict)  # by file key and id of the deletion vector
    memory: dict[str, Any] = field(default_factory=dict)

    def trim(self, files: FileTable) -> None:
        """Drop deletion vectors and files of old versions, once there are many."""
        self.learned.trim(files)
        if len(self.hidden) > len(files) + _FORGET:
            current = set(files.column("key").to_pylist())
            self.hidden = {name: positions for name, positions in self.hidden.items() if name[0] in current}


class PinnedReader:
    """Finds and reads single rows of one snapshot."""

    def __init__(self, snapshot: Snapshot, load_hidden: LoadHidden, before: PinnedReader | None = None) -> None:
        """`before` reads another version of the same table."""
        self.snapshot = snapshot
        self._load_hidden = load_hidden
        self._cache: _Cache = _Cache() if before is None else before._cache
        self._cache.trim(snapshot.files)
        self._rows = RowMaps(snapshot, self._cache.learned)
        self._spans = self._rows.spans
        self._ranges = arrange(self._spans.bases, self._spans.bases + self._spans.counts - 1)
        self._moved = MovedRows()
        self._loaded = np.zeros(len(snapshot.files), np.bool_)  # files whose maps are in `_moved`
        self._hides: NDArray[np.bool_] = snapshot.files.column("dv").is_valid().to_numpy()
        self._hidden: dict[int, BitMap64] = {}
        self._tasks: dict[int, tuple[ObjectStore, str, FileTask]] = {}
        self._takings: dict[tuple[object, ...], Taking] = {}
        self._recent: tuple[Numbers, Located] | None = None  # ids, ascending, and their locations

    @property
    def memory(self) -> dict[str, Any]:
        """A cache for others, by names of their own; it is shared by all versions."""
        return self._cache.memory

    @property
    def counts(self) -> Numbers:
        return self._spans.counts

    def locate(self, ids: NDArray[np.int64] | NDArray[np.uint64]) -> Located:
        row_ids = np.asarray(ids).astype(np.int64)  # an id beyond the largest becomes negative, and has no row
        if (again := self._remembered(row_ids)) is not None:
            return again
        located = Located(*(np.full(len(row_ids), NOWHERE, np.int64) for _ in range(3)))
        self._locate_first(row_ids, located)
        missing = np.flatnonzero(~located.live & (row_ids >= 0))
        if len(missing):
            self._locate_moved(row_ids, missing, located)
        if len(row_ids) <= _RECENT:
            order = np.argsort(row_ids)
            self._recent = row_ids[order], located.at(order)
        return located

    def _remembered(self, row_ids: Numbers) -> Located | None:
        """The locations of rows that are all among those of the last call."""
        if self._recent is None or not 0 < len(row_ids) <= len(self._recent[0]):
            return None
        recent_ids, located = self._recent
        at = np.minimum(np.searchsorted(recent_ids, row_ids), len(recent_ids) - 1)
        return located.at(at) if (recent_ids[at] == row_ids).all() else None

    def files_with(self, ids: Numbers, most: int) -> Numbers | None:
        """The files that hold a live row with one of these ids, and perhaps some more, from log and footers.

        None if that needs more than `most` footers.
        """
        s, row_ids = self._spans, ids[ids >= 0]
        holding = np.unique(np.concatenate([np.zeros(0, np.int64), *(la.holding(row_ids)[1] for la in self._ranges)]))
        if (s.kinds[holding] == UNKNOWN).sum() > most:
            return None
        located = Located(*(np.full(len(row_ids), NOWHERE, np.int64) for _ in range(3)))
        self._locate_first(row_ids, located)
        files = located.files[located.live]
        missing = np.sort(row_ids[~located.live])
        if len(missing):
            near = np.flatnonzero(s.kinds != FRESH)
            near = near[_holding_any(s.lows[near], s.highs[near], missing)]
            untagged = s.maps.take(pa.array(near)).null_count
            if untagged > most or len(near) > _TAGS_PER_FOOTER * most:
                return None
            files = np.concatenate((files, self._holding(near, missing)))
        return np.unique(files)

    def take_at(
        self, files: Numbers, positions: Numbers, columns: Sequence[str] | None = None, metadata: Metadata = ()
    ) -> pa.Table:
        """The rows at these positions, in this order, hidden or not."""
        taking = self._taking(columns, metadata)
        if not len(files) or (files[1:] == files[0]).all():
            return taking.rows([self._pick(file, positions) for file in files[:1].tolist()])
        order = np.argsort(files, kind="stable")
        numbers, starts = np.unique(files[order], return_index=True)
        self._load_tasks(numbers)
        parts = np.split(order, starts[1:])
        rows = taking.rows([self._pick(n, positions[part]) for n, part in zip(numbers.tolist(), parts, strict=True)])
        if (order[1:] > order[:-1]).all():
            return rows
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return rows.take(pa.array(back))

    def _pick(self, file: int, positions: Numbers) -> Pick:
        if file not in self._tasks:
            self._load_tasks(np.array([file]))
        return Pick(*self._tasks[file], positions)

    def read_spec(self, columns: Sequence[str] | None = None, metadata: Metadata = ()) -> ReadSpec:
        """The read settings for these columns; refuses what a scan refuses."""
        return self._taking(columns, metadata).spec

    def _taking(self, columns: Sequence[str] | None, metadata: Metadata) -> Taking:
        names = metadata.items() if isinstance(metadata, Mapping) else metadata
        cache_key = (None if columns is None else tuple(columns), isinstance(columns, str), tuple(names))
        taking = self._takings.get(cache_key)
        if taking is None:
            nothing = replace(self.snapshot, files=FileTable())
            taking = Taking(read_spec(plan_scan(nothing, Request(columns, None, metadata))))
            self._takings[cache_key] = taking
        return taking

    def row_map(self, file: int) -> RowMap:
        return self._rows.map(file)

    def hidden(self, file: int) -> BitMap64:
        if not self._hides[file]:
            return BitMap64()
        self._load_dvs(np.array([file]))
        return self._hidden[file]

    def is_hidden(self, files: Numbers, positions: Numbers) -> NDArray[np.bool_]:
        answer = np.zeros(len(files), np.bool_)
        some = np.flatnonzero(self._hides[files])
        if not len(some):
            return answer
        self._load_dvs(np.unique(files[some]))
        for file, rows in _groups(files[some]):
            in_file = positions[some[rows]].tolist()
            answer[some[rows]] = np.fromiter(map(self._hidden[file].__contains__, in_file), np.bool_, len(in_file))
        return answer

    def _locate_first(self, row_ids: Numbers, located: Located) -> None:
        """Locate rows that were never moved."""
        s = self._spans
        for layer in self._ranges:
            which, file = layer.holding(row_ids)
            unknown = s.kinds[file] == UNKNOWN
            if unknown.any():
                self._rows.resolve(np.unique(file[unknown]))
            here = s.kinds[file] == FRESH
            which, file = which[here], file[here]
            self._add(row_ids, located, which, Located(file, row_ids[which] - s.bases[file], s.versions[file]))

    def _holding(self, files: Numbers, ascending: Numbers) -> Numbers:
        """The files that hold one of the ids, or may hold one because neither log nor footer has their map."""
        s = self._spans
        self._rows.resolve(files)
        files = files[s.kinds[files] == CARRIES]
        files = files[_holding_any(s.lows[files], s.highs[files], ascending)]
        maps = self._rows.noted(files)
        may = [row_map is None or bool((row_map.ids.find(ascending) != NOT_FOUND).any()) for row_map in maps]
        return files[np.array(may, np.bool_)]

    def _locate_moved(self, row_ids: Numbers, missing: Numbers, located: Located) -> None:
        """Locate rows in files that carry ids."""
        s = self._spans
        ascending = np.sort(row_ids[missing])
        unknown = np.flatnonzero(s.kinds == UNKNOWN)
        if len(unknown):
            self._rows.resolve(unknown[_holding_any(s.lows[unknown], s.highs[unknown], ascending)])
        due = np.flatnonzero((s.kinds == CARRIES) & ~self._loaded)
        if len(due):
            due = due[_holding_any(s.lows[due], s.highs[due], ascending)]
        far = self._rows.scattered(due)
        if not far.all():
            self._moved.add(self._rows.maps(due[~far]))
            self._loaded[due[~far]] = True
        for which, file, position in self._moved.candidates(row_ids[missing]):
            self._add(row_ids, located, missing[which], Located(file, position, self._moved.versions(file, position)))
        if far.any():
            self._search(row_ids, located, due[far])

    def _search(self, row_ids: Numbers, located: Located, files: Numbers) -> None:
        """Locate rows in files whose maps are not in memory."""
        missing = np.flatnonzero(~located.live & (row_ids >= 0))
        if not len(missing):
            return
        ascending, same = np.unique(row_ids[missing], return_inverse=True)
        for file, rows in zip(files.tolist(), self._rows.search(files, ascending), strict=True):
            back = np.full(len(ascending), NOWHERE, np.int64)
            back[rows.which] = np.arange(len(rows.which))
            at = back[same]
            here = np.flatnonzero(at != NOWHERE)
            place = Located(np.full(len(here), file), rows.positions[at[here]], rows.versions[at[here]])
            self._add(row_ids, located, missing[here], place)

    def _add(self, row_ids: Numbers, located: Located, which: Numbers, here: Located) -> None:
        """Add the locations of rows that are not hidden."""
        if not len(which):
            return
        live = np.flatnonzero(~self.is_hidden(here.files, here.positions))
        which = which[live]
        twice = np.flatnonzero(located.live[which])
        if len(twice):
            at = int(which[twice[0]])
            raise self._doubled(int(row_ids[at]), self._place(located, at), self._place(here, int(live[twice[0]])))
        located.files[which] = here.files[live]
        located.positions[which] = here.positions[live]
        located.versions[which] = here.versions[live]

    def _place(self, located: Located, at: int) -> str:
        key = self.snapshot.files.column("key")[int(located.files[at])].as_py()
        return f"position {located.positions[at]} of {key}"

    def _doubled(self, row_id: int, one: str, other: str) -> Damaged:
        where = self.snapshot.location.url
        return Damaged(
            f"row id {row_id} of {where} is live at {one} and at {other}; one of the two was written without keeping "
            "row ids apart",
            path=where,
            expected=one,
            found=other,
        )

    def _load_dvs(self, files: Numbers) -> None:
        lacking = [file for file in files.tolist() if file not in self._hidden]
        if not lacking:
            return
        table = self.snapshot.files.table.take(pa.array(lacking, pa.int64()))
        dv_ids = pc.struct_field(table.column("dv").combine_chunks(), "id").to_pylist()
        names = list(zip(table.column("key").to_pylist(), dv_ids, strict=True))
        new = [name not in self._cache.hidden for name in names]
        if any(new):
            loaded = self._load_hidden(self.snapshot.location, _listed(table.filter(pa.array(new)))).positions
            self._cache.hidden.update(
                (name, loaded[name[0]]) for name, is_new in zip(names, new, strict=True) if is_new
            )
        self._hidden.update((file, self._cache.hidden[name]) for file, name in zip(lacking, names, strict=True))

    def _load_tasks(self, files: Numbers) -> None:
        lacking = [file for file in files.tolist() if file not in self._tasks]
        if not lacking:
            return
        table = self.snapshot.files.table.take(pa.array(lacking, pa.int64()))
        without_dvs = table.set_column(table.column_names.index("dv"), "dv", pa.nulls(len(lacking), DV))
        plan = ScanPlan(self.snapshot, _listed(without_dvs), (), (), NO_METADATA, None)
        for file, planned in zip(lacking, planned_files(plan, HiddenRows()), strict=True):
            self._tasks[file] = (*place(self.snapshot.location, planned.key), planned.task)


def _listed(files: pa.Table) -> FileTable:
    return FileTable((Slab(files, NoStats(files.num_rows)),))


def _holding_any(lows: Numbers, highs: Numbers, ascending: Numbers) -> NDArray[np.bool_]:
    """For each interval, whether one of the numbers lies in it."""
    near: NDArray[np.bool_] = (lows <= ascending[-1]) & (highs >= ascending[0])
    some = np.flatnonzero(near)
    near[some] = np.searchsorted(ascending, lows[some]) < np.searchsorted(ascending, highs[some], side="right")
    return near


def _groups(numbers: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Each distinct number, and its indices."""
    order = np.argsort(numbers, kind="stable")
    distinct, starts = np.unique(numbers[order], return_index=True)
    yield from zip(distinct.tolist(), np.split(order, starts[1:]) if len(distinct) else [], strict=True)
