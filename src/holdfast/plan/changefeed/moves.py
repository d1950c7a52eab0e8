"""Which rows of which files came and went, commit by commit or from end to end, and how to read them. Pure.

A file's rows go when the file is removed or when its vector grows, and come when it is added or its vector shrinks.
What the vector hides before and after decides, never what a removal claims.

    moves (rows of one file, one commit)  ->  readings (every file once, each row told the commit it belongs to)

1. A file stands once in a reading. Where some of its rows are not wanted, or belong to several commits, a row is looked
   up in bit slices: bit j of the number of its move, from 1 on, is whether slice j has its position, and 0 is a row
   that is not wanted. So the cost of telling 1,000 commits apart is ten bits per row, and none needs a pass of its own.
2. A row that goes, comes back and goes again within a stretch is in several readings, one per time.
3. Files whose rows have ids are read apart from files whose rows have none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from holdfast.errors import Damaged
from holdfast.model.commits import CommitRange
from holdfast.model.files import DV, FILES, FileStats, FileTable, LeafPath, NoStats, Slab
from holdfast.model.snapshot import HiddenRows
from holdfast.schema.types import DataType
from holdfast.storage.arrays import mask

_APART = "\x1f"


@dataclass(frozen=True, slots=True)
class Move:
    """Rows of one file that one commit took or brought."""

    entry: int  # of the file, in the table of entries
    key: str
    version: int
    taken: BitMap64 | None  # None: every row but the hidden
    hidden: BitMap64 | None = None
    change: str = ""  # what happened to these rows; empty: pairing tells


@dataclass(frozen=True, slots=True)
class Label:
    """What the rows of a move are told by."""

    version: int
    change: str


@dataclass(frozen=True)
class Reading:
    """Files to be read once, some rows of each, and what these rows are told by."""

    files: FileTable
    hidden: HiddenRows  # positions that are not wanted, by file key: for who reads files one by one
    labels: tuple[tuple[Label, ...], ...]  # per file, one per move
    slices: Mapping[str, tuple[BitMap64, ...]] = field(default_factory=dict)  # by file key; absent: one move, all rows
    has_ids: bool = True


@dataclass(frozen=True)
class LogicalFiles:
    """Logical files of a stretch: a file with another vector is another one."""

    table: pa.Table  # FILES and num_records
    old: int  # so many of them stand for the table before the stretch
    moving: pa.Array | None = None  # keys of files of which rows may have moved; None: any

    @property
    def ids(self) -> list[str]:
        """What tells logical files apart."""
        found: list[str] = logical(self.table).to_pylist()  # one per file that the stretch speaks of
        return found

    def hiding(self) -> FileTable:
        """Those with a vector, once each, under their ids: for whoever loads vectors."""
        ids = logical(self.table)
        first = np.zeros(len(ids), bool)
        first[list({id_: n for n, id_ in enumerate(ids.to_pylist())}.values())] = True
        chosen = pc.and_(mask(first), pc.is_valid(self.table.column("dv")).combine_chunks())
        chosen = pc.and_(chosen, self._may_move())
        files = self.table.filter(chosen)
        named = files.select(FILES.names).set_column(FILES.get_field_index("key"), "key", ids.filter(chosen))
        return FileTable((Slab(named, Counted(files.column("num_records").combine_chunks())),))

    def uncounted(self) -> pa.Table:
        """Files of which some rows may have to be told from others, and whose row count the log does not give."""
        keys = self.table.filter(pc.is_valid(self.table.column("dv"))).column("key")
        silent = pc.and_(pc.is_null(self.table.column("num_records")).combine_chunks(), self._may_move())
        hides = pc.is_in(self.table.column("key").combine_chunks(), value_set=keys.combine_chunks())
        return self.table.filter(pc.and_(silent, hides))

    def _may_move(self) -> pa.BooleanArray:
        keys = self.table.column("key").combine_chunks()
        return pc.is_valid(keys) if self.moving is None else pc.is_in(keys, value_set=self.moving)

    def counted(self, counts: Mapping[str, int]) -> LogicalFiles:
        """The entries with the row counts of these files."""
        if not counts:
            return self
        found = pa.array([counts.get(key) for key in self.table.column("key").to_pylist()], pa.int64())
        known = pc.coalesce(self.table.column("num_records"), found)
        at = self.table.column_names.index("num_records")
        return replace(self, table=self.table.set_column(at, "num_records", known))


@dataclass(frozen=True, slots=True)
class Counted:
    """Statistics that know row counts and nothing else."""

    counts: pa.Array

    def __len__(self) -> int:
        return len(self.counts)

    def read(self, leaves: Mapping[LeafPath, DataType]) -> FileStats:
        return replace(NoStats(len(self)).read(leaves), num_records=self.counts)

    def filter(self, mask: pa.Array) -> Counted:
        return Counted(self.counts.filter(mask))

    def take(self, indices: pa.Array) -> Counted:
        return Counted(self.counts.take(indices))


@dataclass(frozen=True, slots=True)
class Moves:
    """Rows that went, and rows that came."""

    left: tuple[Move, ...]
    arrived: tuple[Move, ...]


def entries_between(stretch: CommitRange) -> LogicalFiles:
    """The files in which the two ends of a stretch differ."""
    old = [] if stretch.before is None else [_counted_files(stretch.before.files)]
    new = _counted_files(stretch.after.files)
    if old:
        ids, known = logical(old[0]), logical(new)
        old[0] = old[0].filter(pc.invert(pc.is_in(ids, value_set=known)))
        new = new.filter(pc.invert(pc.is_in(known, value_set=ids)))
    return LogicalFiles(_with_ids(pa.concat_tables([*old, new])), old[0].num_rows if old else 0)


def entries_within(stretch: CommitRange) -> LogicalFiles:
    """The files that commits of a stretch speak of: as they were before, as each one added them, and as each removed
    them; the last only where nothing else is known of a file."""
    moved = [t.select([*FILES.names, "num_records"]) for t in (stretch.added, stretch.removed)]
    old = []
    if stretch.before is not None:
        files = stretch.before.files
        spoken = pa.concat_arrays([t.column("key").combine_chunks() for t in moved])
        old = [_counted_files(files.filter(pc.is_in(files.column("key").combine_chunks(), value_set=spoken)))]
    loud = [t.filter(t.column("data_change")).column("key").combine_chunks() for t in (stretch.added, stretch.removed)]
    moving = pc.unique(pa.concat_arrays(loud))
    return LogicalFiles(_with_ids(pa.concat_tables([*old, *moved])), old[0].num_rows if old else 0, moving)


def moves_between(stretch: CommitRange, entries: LogicalFiles, hidden: HiddenRows) -> Moves:
    """From end to end: what the last commit has made of the rows before the first."""
    ids, keys = entries.ids, entries.table.column("key").to_pylist()
    old = {keys[n]: n for n in range(entries.old)}
    new = {keys[n]: n for n in range(entries.old, len(keys))}
    moved = [_moved(key, old.get(key), new.get(key), stretch.end, ids, hidden) for key in {**old, **new}]
    return Moves(tuple(m for left, _ in moved for m in left), tuple(m for _, came in moved for m in came))


def moves_within(stretch: CommitRange, entries: LogicalFiles, hidden: HiddenRows, *, without: set[int]) -> Moves:
    """Commit by commit; those that say to change no data, and those left out, move no row."""
    ids, keys = entries.ids, entries.table.column("key").to_pylist()
    live = {keys[n]: n for n in range(entries.old)}
    added = _by_version(stretch.added, entries.old)
    removed = _by_version(stretch.removed, entries.old + stretch.added.num_rows)
    left: list[Move] = []
    arrived: list[Move] = []
    for commit in stretch.commits:
        spoken: dict[str, tuple[int | None, int | None, bool]] = {}
        for entry, changes in removed[commit.version]:
            key = keys[entry]
            spoken[key] = live.pop(key, entry), None, changes
        for entry, changes in added[commit.version]:
            key = keys[entry]
            before, _, also = spoken.get(key, (live.get(key), None, False))
            spoken[key] = before, entry, changes or also
            live[key] = entry
        if commit.touches_no_row or commit.version in without:
            continue
        for key, (before, after, changes) in spoken.items():
            if changes:
                gone, came = _moved(key, before, after, commit.version, ids, hidden)
                left += gone
                arrived += came
    return Moves(tuple(left), tuple(arrived))


def readings(moves: Iterable[Move], entries: LogicalFiles, *, tracked: bool) -> tuple[Reading, ...]:
    """How to read the rows of moves: every file once, unless a row moved more than once."""
    has_ids = pc.is_valid(entries.table.column("base_row_id")).to_pylist()
    counts = entries.table.column("num_records").to_pylist()
    rounds: dict[tuple[int, bool], list[_FilePart]] = defaultdict(list)
    by_key: dict[str, list[Move]] = defaultdict(list)
    for move in moves:
        by_key[move.key].append(move)
    for several in by_key.values():
        entry = several[0].entry
        for number, part in enumerate(_parts(several, counts[entry])):
            rounds[number, tracked and has_ids[entry]].append(part)
    return tuple(_reading(parts, entries, identified) for (_, identified), parts in sorted(rounds.items()))


def shown(files: FileTable) -> FileTable:
    """The same files as if they hid nothing: for who looks rows up in slices."""
    at = FILES.get_field_index("dv")
    return FileTable(
        tuple(Slab(s.files.set_column(at, "dv", pa.nulls(s.files.num_rows, DV)), s.stats) for s in files.slabs)
    )


def taken_rows(move: Move, rows: int) -> BitMap64:
    """The positions of a move in a file of so many rows."""
    return BitMap64(range(rows)) - (move.hidden or BitMap64()) if move.taken is None else move.taken


def logical(files: pa.Table) -> pa.Array:
    """One text per file and vector."""
    keys = files.column("key").combine_chunks()
    vectors = pc.fill_null(pc.struct_field(files.column("dv").combine_chunks(), "id"), "")
    return pc.binary_join_element_wise(keys, vectors, _APART)


@dataclass(frozen=True, slots=True)
class _FilePart:
    """What a reading reads of one file."""

    entry: int
    key: str
    hidden: BitMap64 | None
    labels: tuple[Label, ...]
    slices: tuple[BitMap64, ...] = ()


def _counted_files(files: FileTable) -> pa.Table:
    return files.table.append_column("num_records", files.num_records)


def _with_ids(table: pa.Table) -> pa.Table:
    """The entries, each with the row ids that its file was given later, where it had none yet."""
    bases = table.column("base_row_id")
    if not bases.null_count or bases.null_count == len(bases):
        return table.combine_chunks()
    known = table.filter(pc.is_valid(bases))
    at = pc.index_in(table.column("key"), value_set=known.column("key").combine_chunks())
    for name in ("base_row_id", "default_row_commit_version"):
        found = pc.coalesce(table.column(name), known.column(name).combine_chunks().take(at))
        table = table.set_column(table.column_names.index(name), name, found)
    return table.combine_chunks()


def _by_version(actions: pa.Table, start: int) -> defaultdict[int, list[tuple[int, bool]]]:
    """The entries of each commit, and whether each is said to change data."""
    found = defaultdict[int, list[tuple[int, bool]]](list)
    versions, changes = actions.column("version").to_pylist(), actions.column("data_change").to_pylist()
    for n, (version, change) in enumerate(zip(versions, changes, strict=True), start=start):
        found[version].append((n, change))
    return found


def _moved(
    key: str, old: int | None, new: int | None, version: int, ids: Sequence[str], hidden: HiddenRows
) -> tuple[list[Move], list[Move]]:
    before = None if old is None else hidden.positions.get(ids[old])
    after = None if new is None else hidden.positions.get(ids[new])
    if old is None:
        assert new is not None, "a file that moves was there before or is there after"
        return [], [Move(new, key, version, None, after)]
    if new is None:
        return [Move(old, key, version, None, before)], []
    gone = (after or BitMap64()) - (before or BitMap64())
    came = (before or BitMap64()) - (after or BitMap64())
    left = [Move(old, key, version, gone)] if gone else []
    return left, [Move(new, key, version, came)] if came else []


def _parts(moves: list[Move], rows: int | None) -> Iterator[_FilePart]:
    """The moves of one file, in as few readings as hold each row once."""
    first = moves[0]
    if len(moves) == 1 and first.taken is None and not first.hidden:
        yield _FilePart(first.entry, first.key, None, (Label(first.version, first.change),))
        return
    if rows is None:
        raise Damaged(
            f"the log does not say how many rows {first.key} has, but hides some of them; compact the table",
            path=first.key,
            expected="numRecords",
        )
    layers: list[tuple[BitMap64, list[tuple[Move, BitMap64]]]] = []
    for move in moves:
        taken = taken_rows(move, rows)
        for union, members in layers:
            if union.isdisjoint(taken):
                union |= taken
                members.append((move, taken))
                break
        else:
            layers.append((taken.copy(), [(move, taken)]))
    for union, members in layers:
        bits = len(members).bit_length()
        slices = [BitMap64() for _ in range(bits)]
        for number, (_, taken) in enumerate(members, start=1):
            for bit in range(bits):
                if number >> bit & 1:
                    slices[bit] |= taken
        others = BitMap64(range(rows)) - union
        labels = tuple(Label(m.version, m.change) for m, _ in members)
        yield _FilePart(first.entry, first.key, others or None, labels, tuple(slices))


def _reading(parts: list[_FilePart], entries: LogicalFiles, has_ids: bool) -> Reading:
    files = entries.table.take(pa.array([p.entry for p in parts], pa.int64()))
    signs = [None if p.hidden is None else {"id": p.key, "cardinality": len(p.hidden)} for p in parts]
    plain = files.select(FILES.names).set_column(FILES.get_field_index("dv"), "dv", pa.array(signs, DV))
    return Reading(
        FileTable((Slab(plain, Counted(files.column("num_records").combine_chunks())),)),
        HiddenRows({p.key: p.hidden for p in parts if p.hidden is not None}),
        tuple(p.labels for p in parts),
        {p.key: p.slices for p in parts if p.slices},
        has_ids,
    )
