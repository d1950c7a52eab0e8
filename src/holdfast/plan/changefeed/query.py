"""A change query as a runner carries it out: values only, from the commits of a stretch to "what to read".

    rows that went, rows that came  ->  paired by id, or by key columns, within a commit or from end to end
        ->  only came: insert    only went: delete    both, as it was: carried over, nothing
            both, otherwise: update, with the row before and the row after

`append-only`, `upsert` and `min-delta` look at the two ends only: files whose vector or presence differs, so what was
compacted, restored or changed back in between costs and tells nothing. `full-delta` looks at each commit.

1. Rows are given under the schema of the last version of the stretch.
2. Whether a row was carried over is told by its version; by its values where rows are paired by key columns.
3. Commits in which rows only came, or only went, need no pairing and get none. Nor do those whose new files say
   themselves that all their rows are new, or that they are as many changed ones as rows went: see `settled`.
4. A plan is plain data: it can be pickled and run elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid, UnknownColumn
from holdfast.model.commits import CommitRange
from holdfast.model.files import FILES, FileTable, NoStats, Slab
from holdfast.model.publication import PUBLISHES
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.plan.changefeed.moves import (
    Label,
    LogicalFiles,
    Move,
    Moves,
    Reading,
    moves_between,
    moves_within,
    readings,
    taken_rows,
)
from holdfast.plan.scan.request import ScanPlan
from holdfast.rows import columns as names
from holdfast.schema.types import STRING, Field, Struct

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"
EVERY = frozenset({INSERT, DELETE, BEFORE, AFTER})

# What a reading gives beside the table's columns; no table has columns of these names.
ID, ROW_VERSION, INDEX, NUMBER = "__hf_id", "__hf_row_version", "__hf_index", "__hf_file"


class ChangeKind(Enum):
    """What of the changes is asked for."""

    APPEND_ONLY = "append-only"
    UPSERT = "upsert"
    MIN_DELTA = "min-delta"
    FULL_DELTA = "full-delta"


@dataclass(frozen=True, slots=True)
class ChangeQuery:
    """A change query, as it was asked for."""

    kind: ChangeKind
    keys: tuple[str, ...] = ()  # columns that identify a row; none: its id does
    include_deleted: bool = False
    drop_unchanged: bool = False

    @property
    def by_commit(self) -> bool:
        """Whether every commit counts, or only the two ends."""
        return self.kind is ChangeKind.FULL_DELTA or (self.kind is ChangeKind.APPEND_ONLY and self.include_deleted)

    @property
    def shows(self) -> frozenset[str]:
        """The types of changes that are given."""
        match self.kind:
            case ChangeKind.APPEND_ONLY:
                return frozenset({INSERT})
            case ChangeKind.UPSERT:
                return frozenset({INSERT, AFTER, DELETE} if self.include_deleted else {INSERT, AFTER})
            case _:
                return EVERY


@dataclass(frozen=True, slots=True)
class Times:
    """When the commits of a stretch were made, by version."""

    first: int
    made_ms: tuple[int, ...]


@dataclass(frozen=True)
class ChangesPlan:
    """What to read, how to pair it, and what to show of it."""

    snapshot: Snapshot  # how rows are read; its files have no say
    left: tuple[Reading, ...]  # to be paired with what arrived
    arrived: tuple[Reading, ...]
    certain: tuple[Reading, ...]  # rows of which it is known what happened to them
    told: tuple[Reading, ...]  # change data files: they say themselves what happened
    shows: frozenset[str]
    times: Times
    keys: tuple[str, ...] = ()
    drop_unchanged: bool = False
    with_ids: bool = True

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.snapshot.schema.fields

    @property
    def files(self) -> tuple[Reading, ...]:
        """Everything that is read."""
        return (*self.left, *self.arrived, *self.certain, *self.told)

    @property
    def needs_left(self) -> tuple[Field, ...]:
        """The columns that must be known of rows that went."""
        if self.shows & {DELETE, BEFORE} or self.drop_unchanged or self.keys:
            return self.fields
        return ()


def check_wanted(wanted: ChangeQuery, schema: Struct) -> ChangeQuery:
    """The query with its keys as the table spells them; refused where an option means nothing to its kind."""
    if wanted.include_deleted and wanted.kind not in (ChangeKind.APPEND_ONLY, ChangeKind.UPSERT):
        raise Invalid(f"includeDeleted is for append-only and upsert: {wanted.kind.value} has deleted rows anyway")
    if wanted.drop_unchanged and wanted.kind is not ChangeKind.MIN_DELTA:
        raise Invalid(f"dropUnchanged is for min-delta, not for {wanted.kind.value}")
    refuse_taken(schema, (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP, names.ROW_ID))
    found = []
    for key in wanted.keys:
        f = schema.find(key)
        if f is None:
            raise UnknownColumn(f"the table has no column {key!r}; it has {', '.join(schema.names[:20])}", column=key)
        found.append(f.name)
    return replace(wanted, keys=tuple(found))


def refuse_taken(schema: Struct, given: Sequence[str]) -> None:
    """Refuse a table whose columns have the names of what changes are given with."""
    taken = [f.name for f in schema.fields if f.name.lower() in given]
    if taken:
        raise Invalid(f"the table has a column {taken[0]} of its own, which changes are told by: rename it first")


@dataclass(frozen=True, slots=True)
class Origins:
    """Where the rows of a new file come from, as it says itself."""

    rows: int
    with_id: int  # rows that carry an id: they were there before
    with_version: int  # rows that carry a version: they were moved as they are


def moves_of(
    stretch: CommitRange, entries: LogicalFiles, hidden: HiddenRows, wanted: ChangeQuery, told: Collection[int] = ()
) -> Moves:
    """What moved, as far as a query looks; `told` are commits whose change data files are taken instead."""
    if wanted.by_commit:
        return moves_within(stretch, entries, hidden, without=set(told))
    return moves_between(stretch, entries, hidden)


def asking(stretch: CommitRange, moves: Moves, entries: LogicalFiles, wanted: ChangeQuery) -> pa.Table:
    """New files whose footers may make pairing needless: those of commits in which rows both came and went.

    Of rows that were published from another table footers do not tell: new ones bring their ids along.
    """
    if wanted.keys or not wanted.by_commit:
        return entries.table.slice(0, 0)
    both = {m.version for m in moves.left} & {m.version for m in moves.arrived}
    both -= {c.version for c in stretch.commits if c.operation == PUBLISHES}
    is_new = _new(entries)
    return entries.table.take(pa.array([m.entry for m in moves.arrived if m.version in both and is_new(m)], pa.int64()))


def settled(moves: Moves, entries: LogicalFiles, origins: Mapping[str, Origins]) -> tuple[set[int], set[int]]:
    """Commits in which every row that went was changed, and those in which every row that came is new.

    A changed row carries its id and no version, a new one neither. Ids are unique, so each changed row is one of those
    that went: where they are as many, every row that went was changed.
    """
    counts, is_new = entries.table.column("num_records").to_pylist(), _new(entries)
    unknown = {m.version for m in moves.left if counts[m.entry] is None}
    gone, changed = Counter[int](), Counter[int]()
    for move in moves.left:
        if move.version not in unknown:
            gone[move.version] += len(taken_rows(move, counts[move.entry]))
    for move in moves.arrived:
        found = origins.get(move.key) if is_new(move) else None
        if found is None or found.with_version or found.with_id not in (0, found.rows):
            unknown.add(move.version)
        else:
            changed[move.version] += found.with_id
    known = {m.version for m in moves.arrived} - unknown
    return {v for v in known if gone[v] == changed[v] > 0}, {v for v in known if not changed[v]}


def _new(entries: LogicalFiles) -> Callable[[Move], bool]:
    """Whether a move is a file that its commit made, and no old one that came back."""
    made = entries.table.column("default_row_commit_version").to_pylist()
    return lambda move: move.taken is None and not move.hidden and made[move.entry] == move.version


def plan_changes(
    stretch: CommitRange,
    entries: LogicalFiles,
    moves: Moves,
    wanted: ChangeQuery,
    *,
    origins: Mapping[str, Origins],
    told: Collection[int] = (),
) -> ChangesPlan:
    """Plan a query over what moved."""
    snapshot = _snapshot(stretch)
    tracked = snapshot.identity is not None
    both = {m.version for m in moves.left} & {m.version for m in moves.arrived}
    changed, replaced = settled(moves, entries, origins)
    open_ = both - changed - replaced
    if wanted.keys:  # pairing is what finds out that they do not identify rows
        open_ = {c.version for c in stretch.commits}
    certain = [replace(m, change=DELETE if m.version not in changed else BEFORE) for m in moves.left]
    for move in moves.arrived:
        is_change = move.version in changed and origins[move.key].with_id
        certain.append(replace(move, change=AFTER if is_change else INSERT))
    return ChangesPlan(
        snapshot,
        readings((m for m in moves.left if m.version in open_), entries, tracked=tracked),
        readings((m for m in moves.arrived if m.version in open_), entries, tracked=tracked),
        readings((m for m in certain if m.version not in open_ and m.change in wanted.shows), entries, tracked=tracked),
        _told(stretch, told),
        wanted.shows,
        _times(stretch),
        wanted.keys,
        wanted.drop_unchanged,
    )


def plan_feed(stretch: CommitRange, entries: LogicalFiles, moves: Moves, *, told: Collection[int]) -> ChangesPlan:
    """Plan the change data feed: files say what happened, and rows are not paired."""
    certain = [replace(m, change=DELETE) for m in moves.left] + [replace(m, change=INSERT) for m in moves.arrived]
    read = readings(certain, entries, tracked=False)
    snapshot = replace(stretch.after, identity=None)
    return ChangesPlan(snapshot, (), (), read, _told(stretch, told), EVERY, _times(stretch), with_ids=False)


def no_changes(snapshot: Snapshot, wanted: ChangeQuery | None) -> ChangesPlan:
    """The plan of a stretch without a commit; of the feed where nothing is said."""
    shows = EVERY if wanted is None else wanted.shows
    return ChangesPlan(snapshot, (), (), (), (), shows, Times(0, ()), with_ids=wanted is not None)


def told_by_files(stretch: CommitRange) -> set[int]:
    """The commits that come with change data files."""
    return set(pc.unique(stretch.feed.column("version")).to_pylist())


def scan_of(plan: ChangesPlan, reading: Reading, fields: Sequence[Field]) -> ScanPlan:
    """What a reading asks of a scan: columns, and by the names above what tells rows and their commits apart."""
    metadata = {names.ROW_INDEX: INDEX, names.FILE_NUMBER: NUMBER}
    if reading.has_ids and plan.with_ids:
        metadata = {names.ROW_ID: ID, names.ROW_COMMIT_VERSION: ROW_VERSION, **metadata}
    return ScanPlan(plan.snapshot, reading.files, (), tuple(fields), metadata, None)


def scan_of_told(plan: ChangesPlan, reading: Reading) -> ScanPlan:
    """What change data files are asked for: the table's columns, and what happened."""
    fields = (*plan.fields, Field(CHANGE_TYPE, STRING))
    snapshot = replace(plan.snapshot, schema=Struct(fields), identity=None)
    return ScanPlan(snapshot, reading.files, (), fields, {names.FILE_NUMBER: NUMBER}, None)


def _snapshot(stretch: CommitRange) -> Snapshot:
    """The table as rows are read: the last schema, and ids wherever one of the ends has them."""
    identity = stretch.after.identity
    if identity is None and stretch.before is not None:
        identity = stretch.before.identity
    return replace(stretch.after, identity=identity)


def _times(stretch: CommitRange) -> Times:
    return Times(stretch.start, tuple(c.timestamp_ms for c in stretch.commits))


def _told(stretch: CommitRange, told: Collection[int]) -> tuple[Reading, ...]:
    feed = stretch.feed.filter(pc.is_in(stretch.feed.column("version"), value_set=pa.array(sorted(told), pa.int64())))
    if not feed.num_rows:
        return ()
    files = FileTable((Slab(feed.select(FILES.names), NoStats(feed.num_rows)),))
    labels = tuple((Label(version, ""),) for version in feed.column("version").to_pylist())
    return (Reading(files, HiddenRows(), labels, has_ids=False),)
