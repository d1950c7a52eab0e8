"""The rows that commits remove from files or add to them, and the reads that fetch these rows. Pure.

Rows leave when their file is removed or its deletion vector grows. Rows arrive when their file is added or its deletion
vector shrinks. The deletion vectors before and after decide, not what a remove action claims.

    moves (rows of one file, one commit)  ->  readings (each file once; each row labelled with its commit)

1. A reading has a file once. Where the query needs some rows only, or they belong to several commits, bit slices give
   the number of a row's move: bit j is set if slice j has the row's position. Moves count from 1; 0 is a row that the
   query does not need. So labels for 1,000 commits cost ten bits per row, and no commit needs a scan of its own.
2. A row that leaves, comes back and leaves again within a commit range is in several readings, once in each.
3. Files whose rows have ids and files whose rows have none are in different readings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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

_SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True)
class Move:
    """Rows of one file that one commit removed or added."""

    entry: int  # of the file, in the table of entries
    key: str
    version: int
    positions: BitMap64 | None  # None: every row but the hidden
    hidden: BitMap64 | None = None
    change: str = ""  # the change type of these rows; empty: pairing decides


@dataclass(frozen=True, slots=True)
class Label:
    """The commit and the change type of the rows of a move."""

    version: int
    change: str


@dataclass(frozen=True)
class Reading:
    """Files to read once, the rows to take from each, and the labels of these rows."""

    files: FileTable
    hidden: HiddenRows  # positions to skip, by file key: for engines that read files one by one
    labels: tuple[tuple[Label, ...], ...]  # per file, one per move
    slices: Mapping[str, tuple[BitMap64, ...]] = field(default_factory=dict)  # by file key; absent: one move, all rows
    has_ids: bool = True


@dataclass(frozen=True)
class LogicalFiles:
    """The logical files of a commit range: a data file together with one deletion vector."""

    table: pa.Table  # FILES and num_records
    old: int  # how many of them, from the first on, are the table before the range
    moving: pa.Array | None = None  # keys of files whose rows may have moved; None: any

    @property
    def ids(self) -> list[str]:
        """One id per logical file."""
        return list(logical(self.table).to_pylist())

    def hiding(self) -> FileTable:
        """The files with a deletion vector, once each, keyed by logical id: for loading the deletion vectors."""
        ids = logical(self.table)
        first = np.zeros(len(ids), bool)
        first[list({id_: n for n, id_ in enumerate(ids.to_pylist())}.values())] = True
        chosen = pc.and_(mask(first), pc.is_valid(self.table.column("dv")).combine_chunks())
        chosen = pc.and_(chosen, self._may_move())
        files = self.table.filter(chosen)
        renamed = files.select(FILES.names).set_column(FILES.get_field_index("key"), "key", ids.filter(chosen))
        return FileTable((Slab(renamed, Counted(files.column("num_records").combine_chunks())),))

    def uncounted(self) -> pa.Table:
        """Files whose rows may need bit slices and whose row count is not in the log."""
        keys = self.table.filter(pc.is_valid(self.table.column("dv"))).column("key")
        silent = pc.and_(pc.is_null(self.table.column("num_records")).combine_chunks(), self._may_move())
        hides = pc.is_in(self.table.column("key").combine_chunks(), value_set=keys.combine_chunks())
        return self.table.filter(pc.and_(silent, hides))

    def _may_move(self) -> pa.BooleanArray:
        keys = self.table.column("key").combine_chunks()
        return pc.is_valid(keys) if self.moving is None else pc.is_in(keys, value_set=self.moving)

    def counted(self, counts: Mapping[str, int]) -> LogicalFiles:
        """The same files with these row counts filled in."""
        if not counts:
            return self
        new_counts = pa.array([counts.get(key) for key in self.table.column("key").to_pylist()], pa.int64())
        merged = pc.coalesce(self.table.column("num_records"), new_counts)
        at = self.table.column_names.index("num_records")
        return replace(self, table=self.table.set_column(at, "num_records", merged))


@dataclass(frozen=True, slots=True)
class Counted:
    """File statistics with row counts only."""

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
    """Rows that left the table, and rows that arrived."""

    left: tuple[Move, ...]
    arrived: tuple[Move, ...]

    @property
    def two_sided(self) -> set[int]:
        """Versions in which rows both left and arrived."""
        return {m.version for m in self.left} & {m.version for m in self.arrived}


def entries_between(commit_range: CommitRange) -> LogicalFiles:
    """The files in which the two ends of a commit range differ."""
    old = [] if commit_range.before is None else [_counted_files(commit_range.before.files)]
    new = _counted_files(commit_range.after.files)
    if old:
        old_ids, new_ids = logical(old[0]), logical(new)
        old[0] = old[0].filter(pc.invert(pc.is_in(old_ids, value_set=new_ids)))
        new = new.filter(pc.invert(pc.is_in(new_ids, value_set=old_ids)))
    return LogicalFiles(_with_ids(pa.concat_tables([*old, new])), old[0].num_rows if old else 0)


def entries_within(commit_range: CommitRange) -> LogicalFiles:
    """The files that commits of a range touch: as they were before the range, as added and as removed."""
    moved = [t.select([*FILES.names, "num_records"]) for t in (commit_range.added, commit_range.removed)]
    old = []
    if commit_range.before is not None:
        files = commit_range.before.files
        touched_keys = pa.concat_arrays([t.column("key").combine_chunks() for t in moved])
        old = [_counted_files(files.filter(pc.is_in(files.column("key").combine_chunks(), value_set=touched_keys)))]
    changed_keys = [
        t.filter(t.column("data_change")).column("key").combine_chunks()
        for t in (commit_range.added, commit_range.removed)
    ]
    moving = pc.unique(pa.concat_arrays(changed_keys))
    return LogicalFiles(_with_ids(pa.concat_tables([*old, *moved])), old[0].num_rows if old else 0, moving)


def moves_between(commit_range: CommitRange, entries: LogicalFiles, hidden: HiddenRows) -> Moves:
    """The net moves from the table before the range to the table after it."""
    ids, keys = entries.ids, entries.table.column("key").to_pylist()
    old = {keys[n]: n for n in range(entries.old)}
    new = {keys[n]: n for n in range(entries.old, len(keys))}
    moved = [_moved(key, old.get(key), new.get(key), commit_range.end, ids, hidden) for key in {**old, **new}]
    return Moves(tuple(m for left, _ in moved for m in left), tuple(m for _, came in moved for m in came))


def moves_within(
    commit_range: CommitRange, entries: LogicalFiles, hidden: HiddenRows, *, without: Collection[int]
) -> Moves:
    """The moves of each commit, except `without` and commits that change no data."""
    ids, keys = entries.ids, entries.table.column("key").to_pylist()
    live = {keys[n]: n for n in range(entries.old)}
    added = _by_version(commit_range.added, entries.old)
    removed = _by_version(commit_range.removed, entries.old + commit_range.added.num_rows)
    left: list[Move] = []
    arrived: list[Move] = []
    for commit in commit_range.commits:
        touched: dict[str, tuple[int | None, int | None, bool]] = {}
        for entry, changes in removed[commit.version]:
            key = keys[entry]
            touched[key] = live.pop(key, entry), None, changes
        for entry, changes in added[commit.version]:
            key = keys[entry]
            before, _, also = touched.get(key, (live.get(key), None, False))
            touched[key] = before, entry, changes or also
            live[key] = entry
        if commit.touches_no_row or commit.version in without:
            continue
        for key, (before, after, changes) in touched.items():
            if changes:
                departures, arrivals = _moved(key, before, after, commit.version, ids, hidden)
                left += departures
                arrived += arrivals
    return Moves(tuple(left), tuple(arrived))


def readings(moves: Iterable[Move], entries: LogicalFiles, *, tracked: bool) -> tuple[Reading, ...]:
    """The readings that fetch the rows of moves: each file once, unless a row moved more than once."""
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


def without_dvs(files: FileTable) -> FileTable:
    """The same files without their deletion vectors: for engines that select rows by bit slices."""
    at = FILES.get_field_index("dv")
    return FileTable(
        tuple(Slab(s.files.set_column(at, "dv", pa.nulls(s.files.num_rows, DV)), s.stats) for s in files.slabs)
    )


def moved_positions(move: Move, row_count: int) -> BitMap64:
    """The positions of a move in its file."""
    return BitMap64(range(row_count)) - (move.hidden or BitMap64()) if move.positions is None else move.positions


def logical(files: pa.Table) -> pa.Array:
    """One id per pair of data file and deletion vector."""
    keys = files.column("key").combine_chunks()
    dv_ids = pc.fill_null(pc.struct_field(files.column("dv").combine_chunks(), "id"), "")
    return pc.binary_join_element_wise(keys, dv_ids, _SEPARATOR)


@dataclass(frozen=True, slots=True)
class _FilePart:
    """The rows that a reading takes from one file."""

    entry: int
    key: str
    hidden: BitMap64 | None
    labels: tuple[Label, ...]
    slices: tuple[BitMap64, ...] = ()


def _counted_files(files: FileTable) -> pa.Table:
    return files.table.append_column("num_records", files.num_records)


def _with_ids(table: pa.Table) -> pa.Table:
    """Fills in row ids that a file got later than the entry was written."""
    bases = table.column("base_row_id")
    if not bases.null_count or bases.null_count == len(bases):
        return table.combine_chunks()
    tracked = table.filter(pc.is_valid(bases))
    at = pc.index_in(table.column("key"), value_set=tracked.column("key").combine_chunks())
    for name in ("base_row_id", "default_row_commit_version"):
        filled = pc.coalesce(table.column(name), tracked.column(name).combine_chunks().take(at))
        table = table.set_column(table.column_names.index(name), name, filled)
    return table.combine_chunks()


def _by_version(actions: pa.Table, start: int) -> defaultdict[int, list[tuple[int, bool]]]:
    """The entries of each commit by version, each with its data_change flag."""
    entries = defaultdict[int, list[tuple[int, bool]]](list)
    versions, changes = actions.column("version").to_pylist(), actions.column("data_change").to_pylist()
    for n, (version, change) in enumerate(zip(versions, changes, strict=True), start=start):
        entries[version].append((n, change))
    return entries


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
    hidden_now = (after or BitMap64()) - (before or BitMap64())
    shown_now = (before or BitMap64()) - (after or BitMap64())
    left = [Move(old, key, version, hidden_now)] if hidden_now else []
    return left, [Move(new, key, version, shown_now)] if shown_now else []


def _parts(moves: list[Move], rows: int | None) -> Iterator[_FilePart]:
    """Splits the moves of one file into as few parts as possible, each row at most once per part."""
    first = moves[0]
    if len(moves) == 1 and first.positions is None and not first.hidden:
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
        positions = moved_positions(move, rows)
        for union, members in layers:
            if union.isdisjoint(positions):
                union |= positions
                members.append((move, positions))
                break
        else:
            layers.append((positions.copy(), [(move, positions)]))
    for union, members in layers:
        bits = len(members).bit_length()
        slices = [BitMap64() for _ in range(bits)]
        for number, (_, positions) in enumerate(members, start=1):
            for bit in range(bits):
                if number >> bit & 1:
                    slices[bit] |= positions
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
