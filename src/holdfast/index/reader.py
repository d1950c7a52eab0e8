"""A snapshot that is read again and again, row by row: where rows are by their ids, and what is at a place.

What it learns of files it keeps, because files never change; a reader of another version of the table begins with what
the one before it learned.

1. An id is located iff some file holds it at a position that is not hidden.
2. Only files that may hold an asked id are looked into. A row that is where it was first written is found without a
   look into any other file.
3. An id that is live in two of the files looked into is Damaged.
4. Nothing costs a step per row of the table, nor a Python step per file but for those that are looked into.
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
from holdfast.index.moved import Moved
from holdfast.index.rowmaps import Learned, RowMaps
from holdfast.model.files import DV, FileTable, NoStats, Slab
from holdfast.model.snapshot import HiddenRows, LoadHidden, Snapshot
from holdfast.parquet.pages.take import Pick, Taking
from holdfast.parquet.read import FileTask, ReadSpec
from holdfast.plan.scan.locate import CARRIES, FRESH, UNKNOWN
from holdfast.plan.scan.metadata_columns import NO_METADATA
from holdfast.plan.scan.request import Request, ScanPlan, plan_scan
from holdfast.plan.scan.tasks import planned_files, read_spec
from holdfast.rows.layers import arrange
from holdfast.rows.rowmap import RowMap
from holdfast.rows.segments import NOT_FOUND
from holdfast.storage.base import ObjectStore
from holdfast.storage.open import place

Numbers: TypeAlias = NDArray[np.int64]
Metadata: TypeAlias = Mapping[str, str] | Sequence[str]

NOWHERE = -1
_RECENT = 4096  # ids whose places are remembered: who found rows by their places reads some of them next
_NOTED = 20  # notes in the log cost as much to take apart as one look into a file
_FORGET = 1000  # vectors more than there are files, before old ones are forgotten


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """Where rows are: NOWHERE in all three where no live row has the id."""

    files: Numbers  # the number of the file in the snapshot
    positions: Numbers
    versions: Numbers  # the version that last changed the row

    @property
    def live(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self.files != NOWHERE
        return found

    def at(self, which: Numbers) -> Located:
        """Some of them, in another order."""
        return Located(self.files[which], self.positions[which], self.versions[which])


@dataclass
class _Kept:
    """What outlives a version."""

    learned: Learned = field(default_factory=Learned)
    hidden: dict[tuple[str, str], BitMap64] = field(default_factory=dict)  # by file key and the id of the vector
    memory: dict[Any, Any] = field(default_factory=dict)

    def trim(self, files: FileTable) -> None:
        """Forget vectors and files of long ago, once there are many of them."""
        self.learned.trim(files)
        if len(self.hidden) > len(files) + _FORGET:
            there = set(files.column("key").to_pylist())
            self.hidden = {name: gone for name, gone in self.hidden.items() if name[0] in there}


class PinnedReader:
    """Rows of one snapshot by id and by place."""

    def __init__(self, snapshot: Snapshot, load_hidden: LoadHidden, before: PinnedReader | None = None) -> None:
        """`before` reads another version of the same table."""
        self.snapshot = snapshot
        self._load_hidden = load_hidden
        self._kept: _Kept = _Kept() if before is None else before._kept
        self._kept.trim(snapshot.files)
        self._rows = RowMaps(snapshot, self._kept.learned)
        self._spans = self._rows.spans
        self._ranges = arrange(self._spans.bases, self._spans.bases + self._spans.counts - 1)
        self._moved = Moved()
        self._loaded = np.zeros(len(snapshot.files), np.bool_)  # files whose maps are in there
        self._hides: NDArray[np.bool_] = snapshot.files.column("dv").is_valid().to_numpy()
        self._hidden: dict[int, BitMap64] = {}
        self._tasks: dict[int, tuple[ObjectStore, str, FileTask]] = {}
        self._takings: dict[Any, Taking] = {}
        self._recent: tuple[Numbers, Located] | None = None  # ids, ascending, and where they are

    @property
    def memory(self) -> dict[Any, Any]:
        """Room for what others keep between calls and versions, under names of their own."""
        return self._kept.memory

    @property
    def counts(self) -> Numbers:
        """The physical rows of each file."""
        return self._spans.counts

    def locate(self, ids: NDArray[np.int64] | NDArray[np.uint64]) -> Located:
        """Where the rows with these ids are."""
        wanted = np.asarray(ids).astype(np.int64)  # an id beyond the largest turns negative, and is nowhere
        if (again := self._remembered(wanted)) is not None:
            return again
        found = Located(*(np.full(len(wanted), NOWHERE, np.int64) for _ in range(3)))
        self._locate_first(wanted, found)
        left = np.flatnonzero(~found.live & (wanted >= 0))
        if len(left):
            self._locate_moved(wanted, left, found)
        if len(wanted) <= _RECENT:
            order = np.argsort(wanted)
            self._recent = wanted[order], found.at(order)
        return found

    def _remembered(self, wanted: Numbers) -> Located | None:
        """Where rows are that were just asked for among others."""
        if self._recent is None or not 0 < len(wanted) <= len(self._recent[0]):
            return None
        known, located = self._recent
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return located.at(at) if (known[at] == wanted).all() else None

    def files_with(self, ids: Numbers, most: int) -> Numbers | None:
        """The files that hold a live row with one of these ids, and perhaps others, by what the log and footers say.

        None where more than `most` files would have to be opened to tell.
        """
        s, wanted = self._spans, ids[ids >= 0]
        holding = np.unique(np.concatenate([np.zeros(0, np.int64), *(la.holding(wanted)[1] for la in self._ranges)]))
        if (s.kinds[holding] == UNKNOWN).sum() > most:
            return None
        found = Located(*(np.full(len(wanted), NOWHERE, np.int64) for _ in range(3)))
        self._locate_first(wanted, found)
        files = found.files[found.live]
        left = np.sort(wanted[~found.live])
        if len(left):
            near = np.flatnonzero(s.kinds != FRESH)
            near = near[_holding_any(s.lows[near], s.highs[near], left)]
            unnoted = s.maps.take(pa.array(near)).null_count
            if unnoted > most or len(near) > _NOTED * most:
                return None
            files = np.concatenate((files, self._holding(near, left)))
        return np.unique(files)

    def take_at(
        self, files: Numbers, positions: Numbers, columns: Sequence[str] | None = None, metadata: Metadata = ()
    ) -> pa.Table:
        """The rows at these places in the order asked, hidden or not."""
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
        """How rows with these columns are read; refuses what a scan would."""
        return self._taking(columns, metadata).spec

    def _taking(self, columns: Sequence[str] | None, metadata: Metadata) -> Taking:
        asked = metadata.items() if isinstance(metadata, Mapping) else metadata
        name = (None if columns is None else tuple(columns), isinstance(columns, str), tuple(asked))
        found = self._takings.get(name)
        if found is None:
            nothing = replace(self.snapshot, files=FileTable())
            found = Taking(read_spec(plan_scan(nothing, Request(columns, None, metadata))))
            self._takings[name] = found
        return found

    def row_map(self, file: int) -> RowMap:
        """The id and the version of every physical row of a file."""
        return self._rows.map(file)

    def hidden(self, file: int) -> BitMap64:
        """The hidden positions of a file."""
        if not self._hides[file]:
            return BitMap64()
        self._load_vectors(np.array([file]))
        return self._hidden[file]

    def is_hidden(self, files: Numbers, positions: Numbers) -> NDArray[np.bool_]:
        """Whether the rows at these places are hidden."""
        answer = np.zeros(len(files), np.bool_)
        some = np.flatnonzero(self._hides[files])
        if not len(some):
            return answer
        self._load_vectors(np.unique(files[some]))
        for file, rows in _groups(files[some]):
            asked = positions[some[rows]].tolist()
            answer[some[rows]] = np.fromiter(map(self._hidden[file].__contains__, asked), np.bool_, len(asked))
        return answer

    def _locate_first(self, wanted: Numbers, found: Located) -> None:
        """Rows that are where they were first written."""
        s = self._spans
        for layer in self._ranges:
            which, file = layer.holding(wanted)
            unknown = s.kinds[file] == UNKNOWN
            if unknown.any():
                self._rows.resolve(np.unique(file[unknown]))
            here = s.kinds[file] == FRESH
            which, file = which[here], file[here]
            self._note(wanted, found, which, Located(file, wanted[which] - s.bases[file], s.versions[file]))

    def _holding(self, files: Numbers, asked: Numbers) -> Numbers:
        """Those of some files that hold one of the ids, or may where nobody noted what they hold."""
        s = self._spans
        self._rows.resolve(files)
        files = files[s.kinds[files] == CARRIES]
        files = files[_holding_any(s.lows[files], s.highs[files], asked)]
        maps = self._rows.noted(files)
        may = [known is None or bool((known.ids.find(asked) != NOT_FOUND).any()) for known in maps]
        return files[np.array(may, np.bool_)]

    def _locate_moved(self, wanted: Numbers, left: Numbers, found: Located) -> None:
        """Rows that are in files which carry ids."""
        s = self._spans
        asked = np.sort(wanted[left])
        unknown = np.flatnonzero(s.kinds == UNKNOWN)
        if len(unknown):
            self._rows.resolve(unknown[_holding_any(s.lows[unknown], s.highs[unknown], asked)])
        due = np.flatnonzero((s.kinds == CARRIES) & ~self._loaded)
        if len(due):
            due = due[_holding_any(s.lows[due], s.highs[due], asked)]
        far = self._rows.scattered(due)
        if not far.all():
            self._moved.add(self._rows.maps(due[~far]))
            self._loaded[due[~far]] = True
        for which, file, position in self._moved.candidates(wanted[left]):
            self._note(wanted, found, left[which], Located(file, position, self._moved.versions(file, position)))
        if far.any():
            self._search(wanted, found, due[far])

    def _search(self, wanted: Numbers, found: Located, files: Numbers) -> None:
        """Rows of files whose maps are not held in memory."""
        left = np.flatnonzero(~found.live & (wanted >= 0))
        if not len(left):
            return
        asked, same = np.unique(wanted[left], return_inverse=True)
        for file, rows in zip(files.tolist(), self._rows.search(files, asked), strict=True):
            back = np.full(len(asked), NOWHERE, np.int64)
            back[rows.which] = np.arange(len(rows.which))
            at = back[same]
            here = np.flatnonzero(at != NOWHERE)
            place = Located(np.full(len(here), file), rows.positions[at[here]], rows.versions[at[here]])
            self._note(wanted, found, left[here], place)

    def _note(self, wanted: Numbers, found: Located, which: Numbers, here: Located) -> None:
        """Note those of these rows that are not hidden."""
        if not len(which):
            return
        live = np.flatnonzero(~self.is_hidden(here.files, here.positions))
        which = which[live]
        twice = np.flatnonzero(found.live[which])
        if len(twice):
            at = int(which[twice[0]])
            raise self._doubled(int(wanted[at]), self._place(found, at), self._place(here, int(live[twice[0]])))
        found.files[which] = here.files[live]
        found.positions[which] = here.positions[live]
        found.versions[which] = here.versions[live]

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

    def _load_vectors(self, files: Numbers) -> None:
        lacking = [file for file in files.tolist() if file not in self._hidden]
        if not lacking:
            return
        table = self.snapshot.files.table.take(pa.array(lacking, pa.int64()))
        vectors = pc.struct_field(table.column("dv").combine_chunks(), "id").to_pylist()
        names = list(zip(table.column("key").to_pylist(), vectors, strict=True))
        new = [name not in self._kept.hidden for name in names]
        if any(new):
            loaded = self._load_hidden(self.snapshot.location, _listed(table.filter(pa.array(new)))).positions
            self._kept.hidden.update((name, loaded[name[0]]) for name, is_new in zip(names, new, strict=True) if is_new)
        self._hidden.update((file, self._kept.hidden[name]) for file, name in zip(lacking, names, strict=True))

    def _load_tasks(self, files: Numbers) -> None:
        lacking = [file for file in files.tolist() if file not in self._tasks]
        if not lacking:
            return
        table = self.snapshot.files.table.take(pa.array(lacking, pa.int64()))
        shown = table.set_column(table.column_names.index("dv"), "dv", pa.nulls(len(lacking), DV))
        plan = ScanPlan(self.snapshot, _listed(shown), (), (), NO_METADATA, None)
        for file, planned in zip(lacking, planned_files(plan, HiddenRows()), strict=True):
            self._tasks[file] = (*place(self.snapshot.location, planned.key), planned.task)


def _listed(files: pa.Table) -> FileTable:
    return FileTable((Slab(files, NoStats(files.num_rows)),))


def _holding_any(lows: Numbers, highs: Numbers, ascending: Numbers) -> NDArray[np.bool_]:
    """For each interval whether one of the numbers lies in it."""
    near: NDArray[np.bool_] = (lows <= ascending[-1]) & (highs >= ascending[0])
    some = np.flatnonzero(near)
    near[some] = np.searchsorted(ascending, lows[some]) < np.searchsorted(ascending, highs[some], side="right")
    return near


def _groups(numbers: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Each distinct number, and the indices where it stands."""
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, starts[1:]) if len(found) else [], strict=True)
