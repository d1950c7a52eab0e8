"""Plans a change query: from a commit range to the files that an engine reads and the rows that it pairs. Pure.

    rows that left, rows that arrived  ->  paired by row id or key columns, per commit or over the whole range
        ->  only arrived: insert    only left: delete    both, unchanged: no change    both, changed: update

`append-only`, `upsert` and `min-delta` compare the two ends of the range: files that were added, removed or have
another deletion vector. Compactions, restores and changes that were undone in between cost nothing. `full-delta` looks
at each commit.

1. Rows have the schema of the last version of the range.
2. A row is unchanged if its row commit version is the same; with key columns, if its values are.
3. Rows of a commit are paired only if rows both left and arrived in it, and the footers of its new files do not
   already decide: all rows new, or as many changed rows as rows left (`settled`).
4. A plan is plain data: it can be pickled and run elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid, NoChangeFeed, UnknownColumn
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
    entries_between,
    entries_within,
    moved_positions,
    moves_between,
    moves_within,
    readings,
)
from holdfast.plan.changefeed.range import check_range
from holdfast.plan.scan.metadata_columns import MetadataColumns
from holdfast.plan.scan.request import ScanPlan
from holdfast.rows import columns as names
from holdfast.schema.types import STRING, Field, Struct

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
FEED_COLUMNS = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"
EVERY = frozenset({INSERT, DELETE, BEFORE, AFTER})

# Columns that a reading adds to the table's own; no table has columns of these names.
ID, ROW_VERSION, INDEX, NUMBER = "__hf_id", "__hf_row_version", "__hf_index", "__hf_file"


class ChangeKind(Enum):
    """Which changes a query gives."""

    APPEND_ONLY = "append-only"
    UPSERT = "upsert"
    MIN_DELTA = "min-delta"
    FULL_DELTA = "full-delta"


@dataclass(frozen=True, slots=True)
class ChangeQuery:
    """What a user asks of the changes of a commit range."""

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
    """The commit times of a commit range, by version."""

    first: int
    made_ms: tuple[int, ...]


@dataclass(frozen=True)
class ChangesPlan:
    """What an engine reads for a change query, how it pairs rows, and which changes it gives."""

    snapshot: Snapshot  # the schema and settings that rows are read by; its files are not used
    left: tuple[Reading, ...]  # to be paired with `arrived`
    arrived: tuple[Reading, ...]
    certain: tuple[Reading, ...]  # rows whose change type is known without pairing
    recorded: tuple[Reading, ...]  # change data files, which state the change type
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
        """Every reading of the plan."""
        return (*self.left, *self.arrived, *self.certain, *self.recorded)

    @property
    def needs_left(self) -> tuple[Field, ...]:
        """The columns to read of rows that left."""
        if self.shows & {DELETE, BEFORE} or self.drop_unchanged or self.keys:
            return self.fields
        return ()


def check_query(query: ChangeQuery, schema: Struct) -> ChangeQuery:
    """The query with its keys as the table spells them; refused if an option does not fit its kind."""
    if query.include_deleted and query.kind not in (ChangeKind.APPEND_ONLY, ChangeKind.UPSERT):
        raise Invalid(f"includeDeleted is for append-only and upsert: {query.kind.value} has deleted rows anyway")
    if query.drop_unchanged and query.kind is not ChangeKind.MIN_DELTA:
        raise Invalid(f"dropUnchanged is for min-delta, not for {query.kind.value}")
    refuse_reserved_names(schema, (*FEED_COLUMNS, names.ROW_ID))
    keys = []
    for key in query.keys:
        f = schema.find(key)
        if f is None:
            raise UnknownColumn(f"the table has no column {key!r}; it has {', '.join(schema.names[:20])}", column=key)
        keys.append(f.name)
    return replace(query, keys=tuple(keys))


def refuse_reserved_names(schema: Struct, reserved: Sequence[str]) -> None:
    """Refuse a table that has a column of a reserved name."""
    clashing = [f.name for f in schema.fields if f.name.lower() in reserved]
    if clashing:
        raise Invalid(f"the table has a column {clashing[0]} of its own, which changes are told by: rename it first")


def settled(moves: Moves, entries: LogicalFiles, origins: Mapping[str, Origins]) -> tuple[set[int], set[int]]:
    """Versions in which every row that left was changed, and versions in which every row that arrived is new.

    A changed row carries its id and no version, a new row carries neither. Ids are unique, so each changed row is one
    that left: if there are as many, every row that left was changed.
    """
    counts, is_new = entries.table.column("num_records").to_pylist(), _is_new(entries)
    unknown = {m.version for m in moves.left if counts[m.entry] is None}
    removed, changed = Counter[int](), Counter[int]()
    for move in moves.left:
        if move.version not in unknown:
            removed[move.version] += len(moved_positions(move, counts[move.entry]))
    for move in moves.arrived:
        origin = origins.get(move.key) if is_new(move) else None
        if origin is None or origin.with_version or origin.with_id not in (0, origin.rows):
            unknown.add(move.version)
        else:
            changed[move.version] += origin.with_id
    decided = {m.version for m in moves.arrived} - unknown
    return {v for v in decided if removed[v] == changed[v] > 0}, {v for v in decided if not changed[v]}


def _is_new(entries: LogicalFiles) -> Callable[[Move], bool]:
    """A test whether a move is a whole file that its commit wrote, and not an old file that came back."""
    created_in = entries.table.column("default_row_commit_version").to_pylist()
    return lambda move: move.positions is None and not move.hidden and created_in[move.entry] == move.version


@dataclass(frozen=True, slots=True)
class Origins:
    """How many rows of a new file carry ids and versions, from its footer."""

    rows: int
    with_id: int  # these rows were in the table before
    with_version: int  # these rows were moved unchanged


@dataclass(frozen=True)
class ChangeScope:
    """A change query over a commit range: the files its commits touch, and the steps from there to a plan."""

    commit_range: CommitRange
    query: ChangeQuery | None  # None: the change data feed
    recorded: frozenset[int]  # versions whose change data files are read, in place of the rows they moved
    files: LogicalFiles

    def counted(self, counts: Mapping[str, int]) -> ChangeScope:
        """The scope with row counts that the log does not give."""
        return replace(self, files=self.files.counted(counts))

    def moves(self, hidden: HiddenRows) -> Moves:
        """The rows that left and arrived; `hidden` are the rows that the deletion vectors of `files` hide."""
        if self.query is None or self.query.by_commit:
            return moves_within(self.commit_range, self.files, hidden, without=self.recorded)
        return moves_between(self.commit_range, self.files, hidden)

    def footers_needed(self, moves: Moves) -> pa.Table:
        """New files whose footers may make pairing needless: files of commits in which rows both left and arrived.

        Footers of published rows do not help: new rows carry ids there too.
        """
        if self.query is None or self.query.keys or not self.query.by_commit:
            return self.files.table.slice(0, 0)
        both = moves.two_sided - {c.version for c in self.commit_range.commits if c.operation == PUBLISHES}
        is_new = _is_new(self.files)
        entries = [m.entry for m in moves.arrived if m.version in both and is_new(m)]
        return self.files.table.take(pa.array(entries, pa.int64()))

    def plan(self, moves: Moves, origins: Mapping[str, Origins]) -> ChangesPlan:
        """The plan of the query; `origins` come from the footers that `footers_needed` names."""
        after, query = self.commit_range.after, self.query
        times = Times(self.commit_range.start, tuple(c.timestamp_ms for c in self.commit_range.commits))
        recorded = _recorded_readings(self.commit_range, self.recorded)
        if query is None:
            certain = [replace(m, change=DELETE) for m in moves.left] + [
                replace(m, change=INSERT) for m in moves.arrived
            ]
            read = readings(certain, self.files, tracked=False)
            return ChangesPlan(replace(after, identity=None), (), (), read, recorded, EVERY, times, with_ids=False)
        identity = after.identity
        if identity is None and self.commit_range.before is not None:
            identity = self.commit_range.before.identity
        changed, replaced = settled(moves, self.files, origins)
        open_ = moves.two_sided - changed - replaced
        if query.keys:  # pairing is what finds out that they do not identify rows
            open_ = {c.version for c in self.commit_range.commits}
        certain = [replace(m, change=BEFORE if m.version in changed else DELETE) for m in moves.left]
        for move in moves.arrived:
            is_change = move.version in changed and origins[move.key].with_id
            certain.append(replace(move, change=AFTER if is_change else INSERT))
        left, arrived, unpaired = (
            readings(several, self.files, tracked=identity is not None)
            for several in (
                (m for m in moves.left if m.version in open_),
                (m for m in moves.arrived if m.version in open_),
                (m for m in certain if m.version not in open_ and m.change in query.shows),
            )
        )
        snapshot = replace(after, identity=identity)
        shows = query.shows
        return ChangesPlan(snapshot, left, arrived, unpaired, recorded, shows, times, query.keys, query.drop_unchanged)


def change_scope(commit_range: CommitRange, query: ChangeQuery | None) -> ChangeScope:
    """Collect the files that a change query looks at; refused where the commits do not determine an exact answer."""
    schema = commit_range.after.schema
    recorded = frozenset(pc.unique(commit_range.feed.column("version")).to_pylist())
    if query is None:
        _refuse_unrecorded(commit_range)
        refuse_reserved_names(schema, FEED_COLUMNS)
        check_range(commit_range, by_id=False)
        return ChangeScope(commit_range, None, recorded, entries_within(commit_range))
    query = check_query(query, schema)
    recorded = check_range(commit_range, by_id=not query.keys, recorded=recorded if query.by_commit else frozenset())
    files = entries_within(commit_range) if query.by_commit else entries_between(commit_range)
    return ChangeScope(commit_range, query, recorded, files)


def no_changes(snapshot: Snapshot, query: ChangeQuery | None) -> ChangesPlan:
    """The plan of a range without commits; no query: of the change data feed."""
    shows = EVERY if query is None else query.shows
    return ChangesPlan(snapshot, (), (), (), (), shows, Times(0, ()), with_ids=query is not None)


def scan_of(plan: ChangesPlan, reading: Reading, fields: Sequence[Field]) -> ScanPlan:
    """The scan of a reading: these columns, and the metadata columns that identify rows and commits."""
    metadata = {names.ROW_INDEX: INDEX, names.FILE_NUMBER: NUMBER}
    if reading.has_ids and plan.with_ids:
        metadata = {names.ROW_ID: ID, names.ROW_COMMIT_VERSION: ROW_VERSION, **metadata}
    return ScanPlan(plan.snapshot, reading.files, (), tuple(fields), MetadataColumns.of_outputs(metadata), None)


def scan_of_recorded(plan: ChangesPlan, reading: Reading) -> ScanPlan:
    """The scan of change data files: the table's columns and the change type."""
    fields = (*plan.fields, Field(CHANGE_TYPE, STRING))
    snapshot = replace(plan.snapshot, schema=Struct(fields), identity=None)
    return ScanPlan(snapshot, reading.files, (), fields, MetadataColumns({NUMBER: names.FILE_NUMBER}), None)


def _refuse_unrecorded(commit_range: CommitRange) -> None:
    off = [] if commit_range.first.has_feed else [commit_range.start]
    off += [c.version for c in commit_range.commits if c.described is not None and not c.described.has_feed]
    if off:
        raise NoChangeFeed(
            f"the change data feed of {commit_range.after.location.url} from version {commit_range.start} to "
            f"{commit_range.end} cannot be read: it was not enabled at version {off[0]}. "
            "delta.enableChangeDataFeed=true records what comes after it; changes() needs no feed where the table "
            "tracks rows"
        )


def _recorded_readings(commit_range: CommitRange, versions: Collection[int]) -> tuple[Reading, ...]:
    """The readings of the change data files of some versions."""
    feed = commit_range.feed
    feed = feed.filter(pc.is_in(feed.column("version"), value_set=pa.array(sorted(versions), pa.int64())))
    if not feed.num_rows:
        return ()
    files = FileTable((Slab(feed.select(FILES.names), NoStats(feed.num_rows)),))
    labels = tuple((Label(version, ""),) for version in feed.column("version").to_pylist())
    return (Reading(files, HiddenRows(), labels, has_ids=False),)
