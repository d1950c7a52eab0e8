"""The table as a transaction sees it before its commit: the version it read plus the effects of its verbs.

    what was read  ->  with an effect, and another  ->  the net effect of all

1. A row that was there keeps its id through every verb; once one has changed it, its version is the commit's.
2. New rows have provisional ids and versions while the transaction lasts. Nobody stores them: a row that is written
   again is as new as before.
3. The net effect is on the version that was read: a row that was changed twice is taken there once, and one that was
   inserted and deleted is nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from holdfast.errors import LimitReached
from holdfast.model.files import DV, FileTable, Slab, StatsSource
from holdfast.model.mutation import STAGED, TableDefinition, staged_files
from holdfast.model.snapshot import HiddenRows, LoadHidden, Snapshot
from holdfast.plan.changefeed.moves import LogicalFiles, Move, readings
from holdfast.plan.changefeed.query import EVERY, ChangesPlan, Times
from holdfast.plan.dml.arithmetic import check_rows
from holdfast.plan.dml.change import Positions, count
from holdfast.plan.dml.follow import difference, located_rows, rows_at, union
from holdfast.plan.engine import Engine
from holdfast.rows.stamp import PROVISIONAL
from holdfast.storage.arrays import strings
from holdfast.storage.location import Location
from holdfast.verbs.commit.rebase import Touched
from holdfast.verbs.dml.strategy import Effect

StatsOf = Callable[[pa.Array | pa.ChunkedArray], StatsSource]  # a format's way to read the statistics of staged files


@dataclass(frozen=True)
class Overlay:
    """What was read, and what has become of it."""

    base: Snapshot
    load: LoadHidden  # what files of the base hide
    stats_of: StatsOf
    own: pa.Table = field(default_factory=STAGED.empty_table)  # files that verbs wrote and none took away again
    written: pa.Table = field(default_factory=STAGED.empty_table)  # all files that verbs wrote
    removed: frozenset[str] = frozenset()  # files of the base
    hidden: Positions = field(default_factory=dict)  # in files of the base that stay, beyond what they hide
    covered: Positions = field(default_factory=dict)  # in own files
    shape: TableDefinition | None = None  # what the table becomes; None: as it was
    inserted: int = 0
    deleted: int = 0

    def after(self, effect: Effect, shape: TableDefinition | None = None) -> Overlay:
        """What another verb makes of it."""
        gone = frozenset(effect.removed.column("key").to_pylist())
        mine = self.mine
        hidden = union(self.hidden, {k: rows for k, rows in effect.hidden.items() if k not in mine})
        covered = union(self.covered, {k: rows for k, rows in effect.hidden.items() if k in mine})
        own = pa.concat_tables([self.own, effect.staged])
        return replace(
            self,
            own=own.filter(pc.invert(pc.is_in(own.column("key"), value_set=strings(sorted(gone))))),
            written=pa.concat_tables([self.written, effect.staged]),
            removed=self.removed | (gone - mine),
            hidden={k: rows for k, rows in hidden.items() if k not in gone},
            covered={k: rows for k, rows in covered.items() if k not in gone},
            shape=shape or self.shape,
            inserted=self.inserted + effect.inserted,
            deleted=self.deleted + effect.deleted,
        )

    @cached_property
    def mine(self) -> frozenset[str]:
        """The keys of all files that verbs wrote."""
        return frozenset(self.written.column("key").to_pylist())

    @cached_property
    def snapshot(self) -> Snapshot:
        """The table as the next verb reads it."""
        known = self.base.identity
        if known is not None and known.high_water >= PROVISIONAL:
            raise LimitReached(
                f"row ids of {self.base.location.url} have come to {known.high_water}, which leaves none for rows of a "
                "transaction: use its verbs one by one"
            )
        kept = self.base.files.outside(self.removed)
        slabs = [*kept.outside(self.hidden).slabs, *_marked(kept.among(self.hidden), self.hidden).slabs]
        if self.own.num_rows:
            files = self._files(self.own)
            slabs += [*files.outside(self.covered).slabs, *_marked(files.among(self.covered), self.covered).slabs]
        now = replace(self.base, files=FileTable(tuple(slabs)))
        if self.shape is None:
            return now
        return replace(now, schema=self.shape.schema, properties=self.shape.properties)

    def load_hidden(self, location: Location, files: FileTable) -> HiddenRows:
        """What files of the snapshot hide: what they hid when they were read, and what verbs hid since."""
        keys = set(files.column("key").to_pylist())
        changed = keys & (self.hidden.keys() | self.mine)
        read = [self.load(location, files.outside(changed)), self.load(location, self.base.files.among(changed))]
        since = [{k: rows for k, rows in part.items() if k in keys} for part in (self.hidden, self.covered)]
        return HiddenRows(union(*(hidden.positions for hidden in read), *since))

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to commit."""
        return not (len(self.added) or self.removed or self.hidden or self.shape is not None)

    @cached_property
    def added(self) -> pa.Table:
        """Own files that have a row left."""
        left = [
            rows > len(self.covered.get(key, ()))
            for key, rows in zip(*(self.own.column(n).to_pylist() for n in ("key", "num_records")), strict=True)
        ]
        return self.own.filter(pa.array(left, pa.bool_()))

    @property
    def covered_rows(self) -> Positions:
        """Rows of the added files that are hidden from the start."""
        kept = set(self.added.column("key").to_pylist())
        return {key: rows for key, rows in self.covered.items() if key in kept}

    @property
    def removed_files(self) -> FileTable:
        """Files of the version that was read, as it has them."""
        return self.base.files.among(self.removed)

    def check(self) -> None:
        """Raise where rows do not add up."""
        check_rows(
            self.base,
            removed=self.removed_files,
            hidden=self.hidden,
            staged=self.added,
            deleted=self.deleted,
            inserted=self.inserted + count(self.covered_rows),
        )

    def touched(
        self, parts: Sequence[Touched], effects: Sequence[Effect], engine: Engine[object], *, deletes: str | None
    ) -> Touched:
        """What all verbs together did to rows of the version that was read; `deletes` counts them, if that is all.

        A row that one verb copied and another met in its copy was met where it was read. Without ids nobody can tell
        which row that is: all rows of a file that was copied then count as changed.
        """
        rewritten = frozenset[str]().union(*(part.rewritten for part in parts)) & self.removed
        taken: Positions = union(*(part.taken for part in parts), *map(self._whole, effects))
        seen: Positions = union(*(part.seen for part in parts))
        is_clear = self.base.identity is not None or not (self.mine & (taken.keys() | seen.keys()))
        if not is_clear:
            rewritten, deletes = frozenset(), None
        taken, seen = (self._as_read(rows, rewritten, engine) for rows in (taken, seen))
        return Touched(
            taken=taken,
            seen=difference(seen, taken),
            rewritten=rewritten,
            deletes=None if any(part.deletes is None for part in parts) else deletes,
            asks=tuple(ask for part in parts for ask in part.asks),
        )

    def _whole(self, effect: Effect) -> Positions:
        """Every row of own files that a verb took away without having looked into them."""
        gone = effect.removed.column("key").to_pylist()
        looked_into = (
            effect.taken[0].keys() | effect.taken[1].keys() | {s.key for s in effect.strategies if s.how == "rewritten"}
        )
        unread = {key for key in gone if key in self.mine and key not in looked_into}
        counts = zip(*(self.written.column(name).to_pylist() for name in ("key", "num_records")), strict=True)
        return {key: BitMap64(range(rows)) for key, rows in counts if key in unread}

    def _as_read(self, rows: Positions, rewritten: Collection[str], engine: Engine[object]) -> Positions:
        """Rows by where they were read: of those in own files, the ones that were copied there."""
        copies = {key: there for key, there in rows.items() if key in self.mine}
        read = {key: there for key, there in rows.items() if key not in self.mine}
        if not copies or not rewritten:
            return read
        files = self._files(self.written).among(copies)
        old = self.base.files.among(rewritten)
        place = located_rows(self.base, old, self.load(self.base.location, old))
        return union(read, engine.follow(rows_at(self.base, files, copies), place).to)

    def _files(self, staged: pa.Table) -> FileTable:
        return FileTable((Slab(staged_files(staged), self.stats_of(staged.column("stats"))),))

    def changes(self) -> ChangesPlan:
        """How to tell the net effect row by row: what went of the version that was read, and what came."""
        went = self.base.files.among(self.removed | self.hidden.keys())
        stored = self.load(self.base.location, went.among(self.removed)).positions
        left = [
            Move(n, key, 0, self.hidden.get(key), stored.get(key))
            for n, key in enumerate(went.column("key").to_pylist())  # one per file that was touched
        ]
        covered = self.covered_rows
        arrived = [
            Move(n, key, 0, None, covered.get(key))
            for n, key in enumerate(self.added.column("key").to_pylist(), start=len(left))
        ]
        old = went.table.append_column("num_records", went.num_records)
        new = staged_files(self.added).append_column("num_records", self.added.column("num_records"))
        entries = LogicalFiles(pa.concat_tables([old, new]).combine_chunks(), len(left))
        read = [readings(moves, entries, tracked=True) for moves in (left, arrived)]
        return ChangesPlan(self.snapshot, read[0], read[1], (), (), EVERY, Times(0, (0,)))


def _marked(files: FileTable, hidden: Mapping[str, BitMap64]) -> FileTable:
    """Files with a sign that they hide so many rows more; which, only the overlay knows."""
    slabs = []
    for slab in files.slabs:
        signs = [
            {"id": key, "cardinality": len(hidden[key]) + (0 if dv is None else dv["cardinality"])}
            for key, dv in zip(*(slab.files.column(name).to_pylist() for name in ("key", "dv")), strict=True)
        ]  # one per file that verbs touched
        at = slab.files.column_names.index("dv")
        slabs.append(Slab(slab.files.set_column(at, "dv", pa.array(signs, DV)), slab.stats))
    return FileTable(tuple(slabs))
