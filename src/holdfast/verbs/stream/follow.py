"""Follows a table for a stream: where it begins, where a batch ends, and what to read between two offsets.

The log decides everything, so a new process reaches the same answers. The data source in Spark's planner and
`streamChanges` on the driver both use this.

1. Rows are read under the schema that the table had when the follower was made. A later commit with another schema
   ends the stream right before it; a stream that is started again goes on with the new schema.
2. The states of versions in use are kept, so a stream that keeps up loads only new commits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from holdfast.errors import Invalid, UnknownVersion
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.history.commit_range import ENABLE_FEED, Moment, read_range, versions_between
from holdfast.formats.delta.state import DeltaState, load, refresh
from holdfast.model.commits import CommitRange
from holdfast.plan.changefeed.query import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    FEED_COLUMNS,
    ChangeQuery,
    ChangesPlan,
    Times,
    check_query,
    no_changes,
    refuse_reserved_names,
)
from holdfast.plan.changefeed.range import refuse_unreadable
from holdfast.plan.changefeed.stream import (
    Appends,
    BatchLimits,
    Feed,
    FromLatest,
    FromMoment,
    FromNow,
    FromVersion,
    Offset,
    StreamOptions,
    appended,
    in_order,
    next_of_appends,
    next_of_changes,
    next_of_snapshot,
    offset_of,
    refuse_other_table,
)
from holdfast.rows.columns import ROW_ID
from holdfast.schema.properties import truth
from holdfast.schema.types import LONG, STRING, Array, DataType, Field, Map, Primitive, Struct
from holdfast.storage.open import open_location
from holdfast.verbs.changefeed.query import planned
from holdfast.verbs.open.moment import moment_ms
from holdfast.verbs.stream.batch_plan import planned_rows

WINDOW = 1000  # commits that are looked at for one batch
_KEPT = 3  # states: before a batch, after it, and the newest


class StreamFollower:
    """A table, and a stream that follows it."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._location = open_location(options.path, storage_options=dict(options.storage) or None)
        self._pinned = load(self._location)
        self._states = {self._pinned.version: self._pinned}
        self._newest = self._pinned
        self._last: CommitRange | None = None  # read last: it is planned right after
        self._first: tuple[int, pa.Table] | None = None  # the files of the first snapshot: asked for batch after batch
        schema = self._pinned.snapshot.schema
        if isinstance(options.content, ChangeQuery):
            self._query: ChangeQuery | None = check_query(options.content, schema)
        else:
            self._query = None
            if isinstance(options.content, Feed):
                refuse_reserved_names(schema, FEED_COLUMNS)
                self._refuse_without_feed()

    def fields(self) -> list[Field]:
        """The columns of the stream; any may be null, as rows of several versions meet in it."""
        if self._options.ranges:
            return [Field("start", STRING), Field("end", STRING)]
        fields = list(nullable(self._pinned.snapshot.schema).fields)
        if isinstance(self._options.content, Appends):
            return fields
        fields += [Field(CHANGE_TYPE, STRING), Field(COMMIT_VERSION, LONG)]
        fields.append(Field(COMMIT_TIMESTAMP, Primitive("timestamp")))
        return [*fields, Field(ROW_ID, LONG)] if self._query is not None else fields

    def initial(self) -> Offset:
        """Where a stream that was never started begins."""
        newest, table = self.newest(), self._pinned.table_id
        match self._options.start:
            case FromNow():
                return Offset(table, newest.version, snapshot=True)
            case FromLatest():
                return Offset(table, newest.version + 1)
            case FromVersion(version):
                first, _ = versions_between(self._location, newest.version, version, None)
            case FromMoment(text, zone):
                moment = Moment(moment_ms(text, zone=zone))
                first, _ = versions_between(self._location, newest.version, moment, None)
        return Offset(table, first)

    def end(self) -> Offset:
        """Where everything committed so far ends."""
        return Offset(self._pinned.table_id, self.newest().version + 1)

    def offset(self, stored: object) -> Offset:
        """An offset that Spark gives back."""
        return offset_of(stored, self._pinned.table_id, self._location.url)

    def newest(self) -> DeltaState:
        """The table as it is now."""
        self._newest = self._kept(refresh(self._newest))
        return self._newest

    def latest(self, start: Offset, limits: BatchLimits | None, *, up_to: int | None = None) -> Offset:
        """Where the next batch ends: `start` itself where there is nothing new; `limits` of None take all there is."""
        newest = self.newest()
        refuse_other_table(start, newest.table_id, self._location.url)
        room = limits or BatchLimits(None, None)
        if start.snapshot:
            return next_of_snapshot(start, self._files(start.version), room)
        last = newest.version if up_to is None else min(up_to, newest.version)
        if limits is not None:
            last = min(last, start.version + WINDOW - 1)
        if last < start.version:
            return start
        commit_range = self._readable(start.version, last)
        if isinstance(self._options.content, Appends):
            return next_of_appends(start, commit_range, self._options.content, room)
        return next_of_changes(start, commit_range, room)

    def plan(self, start: Offset, end: Offset) -> ChangesPlan:
        """What to read between two offsets."""
        content = self._options.content
        if start.snapshot:
            files = self._files(start.version)
            stop = end.index if end.snapshot else files.num_rows
            snapshot = self._at(start.version).snapshot
            if _columns(snapshot.schema) != _columns(self._pinned.snapshot.schema):
                refuse_unreadable(self._commit_range(start.version + 1, self._pinned.version))
            times = Times(start.version, (snapshot.timestamp_ms,))
            chosen = files.slice(start.index, stop - start.index)
            under = replace(self._pinned.snapshot, identity=snapshot.identity)
            return planned_rows(under, chosen, times, load_hidden, with_ids=self._query is not None)
        last = end.version if end.index else end.version - 1
        if last < start.version:
            return no_changes(self._pinned.snapshot, self._query)
        commit_range = self._commit_range(start.version, last)
        if isinstance(content, Appends):
            refuse_unreadable(commit_range)
            times = Times(commit_range.start, tuple(c.timestamp_ms for c in commit_range.commits))
            files = appended(commit_range, content, start, end)
            return planned_rows(commit_range.after, files, times, load_hidden, with_ids=False)
        return planned(commit_range, self._query, load_hidden)

    def _refuse_without_feed(self) -> None:
        if not any(truth(self._pinned.metadata.properties.get(name)) for name in ENABLE_FEED):
            raise Invalid(
                f"the table at {self._location.url} has no change data feed: delta.enableChangeDataFeed=true records "
                "what comes after it; kind=full-delta needs no feed where the table tracks rows"
            )

    def _files(self, version: int) -> pa.Table:
        """The files of a first snapshot, in order, each with its row count and version."""
        if self._first is None or self._first[0] != version:
            files = self._at(version).snapshot.files
            versions = pa.repeat(pa.scalar(version, pa.int64()), len(files))
            counted = files.table.append_column("num_records", files.num_records)
            self._first = version, in_order(counted.append_column("version", versions))
        return self._first[1]

    def _readable(self, first: int, last: int) -> CommitRange:
        """The commits of some versions, up to where columns become other than those of this stream."""
        commit_range = self._commit_range(first, last)
        ours = _columns(self._pinned.snapshot.schema)
        for commit in commit_range.commits:
            if commit.version <= self._pinned.version or commit.described is None:
                continue
            if _columns(commit.described.schema) == ours:
                continue
            if commit.version > first:
                return self._commit_range(first, commit.version - 1)
            raise Invalid(
                f"version {commit.version} ({commit.operation}) of {self._location.url} has other columns than the "
                f"stream, which has those of version {self._pinned.version}: everything before it was read. Start the "
                "query again with a stream made anew, from the same checkpoint: it goes on with the new ones"
            )
        return commit_range

    def _commit_range(self, first: int, last: int) -> CommitRange:
        """The commits of some versions, their rows to be read under the schema of this stream."""
        if self._last is not None and (self._last.start, self._last.end) == (first, last):
            return self._last
        before = None
        if first:
            try:
                before = self._at(first - 1)
            except UnknownVersion:
                if self._query is not None and not self._query.by_commit:
                    raise
        commit_range = read_range(before, self._at(last), start=first)
        ours = self._pinned.snapshot
        under = replace(
            commit_range.after, schema=ours.schema, partition_columns=ours.partition_columns, resolve=ours.resolve
        )
        self._last = replace(commit_range, after=under)
        return self._last

    def _at(self, version: int) -> DeltaState:
        state = self._states.get(version)
        return self._kept(load(self._location, version=version)) if state is None else state

    def _kept(self, state: DeltaState) -> DeltaState:
        self._states.pop(state.version, None)
        self._states[state.version] = state
        for version in list(self._states)[:-_KEPT]:
            del self._states[version]
        return state


def _columns(schema: Struct) -> Iterable[tuple[str, DataType, str]]:
    return [(f.name, f.type, f.physical_name) for f in schema.fields]


def nullable(schema: Struct) -> Struct:
    """The same columns, none of which says that it is never null."""
    return Struct(tuple(Field(f.name, _nullable(f.type), True, f.metadata) for f in schema.fields))


def _nullable(type_: DataType) -> DataType:
    match type_:
        case Struct():
            return nullable(type_)
        case Array(element, _):
            return Array(_nullable(element), True)
        case Map(key, value, _):
            return Map(_nullable(key), _nullable(value), True)
        case _:
            return type_
