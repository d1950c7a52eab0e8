"""What happened to the rows of a table: change queries and the change data feed, for users.

A change set is a stretch of versions and a question about it. It is planned when it is asked for, so that what cannot
be answered is refused there, and read by `toDF` or `toArrow`. Its resume token says where the next one begins.

1. Versions and timestamps are inclusive at both ends, as in delta-spark.
2. A token continues exactly after what its change set held, whether or not anything was committed since.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
from pyspark.sql import SparkSession

from holdfast.engines.spark.changefeed import SparkChangeReader
from holdfast.errors import Invalid, UnknownVersion
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.history.commit_range import Moment, Point, read_range, versions_between
from holdfast.formats.delta.state import DeltaState, load
from holdfast.plan.changefeed.query import ChangeKind, ChangeQuery, check_query, no_changes
from holdfast.storage.error_mapping import MALFORMED_JSON
from holdfast.verbs.changefeed.apply import applied_up_to, apply_rows, refuse_unpaired
from holdfast.verbs.changefeed.change_set import ToldChanges, key_names, wanted_of
from holdfast.verbs.changefeed.query import planned
from holdfast.verbs.dml.delete_update import Changed, ExecutionContext
from holdfast.verbs.dml.verbs import RowVerbs
from holdfast.verbs.open.delta_handle import DeltaHandle
from holdfast.verbs.open.handle import TableBase
from holdfast.verbs.open.moment import moment_ms

When: TypeAlias = int | str | datetime.datetime | datetime.date
_TOKEN = "hf1."


class _Token(msgspec.Struct, frozen=True):
    """Where to go on, and in which table."""

    table: str
    version: int


@dataclass(frozen=True)
class ChangeSet(ToldChanges):
    """Changes of a Delta table, which can be gone on from, and applied to another table."""

    state: DeltaState = field(repr=False)
    wanted: ChangeQuery | None = field(repr=False)  # None: the change data feed

    @property
    def resumeToken(self) -> str:
        """Hand this to `changes(resume=...)` for what comes after these changes."""
        return _TOKEN + base64.urlsafe_b64encode(
            msgspec.json.encode(_Token(self.state.table_id, self.endVersion + 1))
        ).decode().rstrip("=")

    def applyChanges(self, target: RowVerbs, keys: Sequence[str] | None = None) -> Changed:
        """Make another table have these changes too, in one commit; once, however often it is called.

        Rows meet by `keys`, or by their ids, which the target then keeps in the column `_source_row_id`. The target
        knows how far it has come: a change set that reaches further back, or begins later, goes on from there.
        """
        if self.wanted is None:
            raise Invalid("the change data feed has no row ids to apply it by: use changes()")
        names = key_names(keys or ())
        if target.handle.newest().snapshot.location.url == self.state.snapshot.location.url:
            raise Invalid("the changes of a table cannot be applied to the table itself")
        source, first, last = self.state.table_id, self.startVersion, self.endVersion
        seen = applied_up_to(target, source)
        first = first if seen is None else seen + 1
        if last < first:
            return Changed(None, {})
        net = ChangeKind.MIN_DELTA if self.wanted.kind is ChangeKind.FULL_DELTA else self.wanted.kind
        deletes = self.wanted.include_deleted and net is ChangeKind.UPSERT
        found = _asked(self.state, first, last, ChangeQuery(net, names, deletes), self.spark)
        if not names:
            refuse_unpaired(found.plan)
        spark = target._caller().spark
        rows = found.toArrow() if spark is None else SparkChangeReader(spark).changes(found.plan)
        return apply_rows(target, source, last, [f.name for f in found.plan.fields], names, rows)


class ChangeVerbs(TableBase):
    """Verbs that tell what happened to rows."""

    handle: DeltaHandle

    def changes(
        self,
        start: When | None = None,
        end: When | None = None,
        *,
        kind: str = "full-delta",
        keys: Sequence[str] = (),
        includeDeleted: bool = False,
        dropUnchanged: bool = False,
        resume: str | None = None,
    ) -> ChangeSet:
        """What commits `start` to `end` did to rows, by row id: versions or timestamps, both included.

        `kind` is `append-only`, `upsert`, `min-delta` or `full-delta`. `includeDeleted` adds rows that were deleted
        again (append-only) or deleted rows (upsert); `dropUnchanged` leaves out updates that changed no value
        (min-delta). `keys` pairs rows by columns where the table has no ids. `resume` goes on from a token.
        """
        wanted = wanted_of(kind, keys, include_deleted=includeDeleted, drop_unchanged=dropUnchanged)
        caller, state = self._caller(), self.handle.newest()
        first, last = _versions(state, start, end, resume, caller)
        return _asked(state, first, last, wanted, caller.spark)

    def changeFeed(self, start: When, end: When | None = None) -> ChangeSet:
        """The change data feed of `start` to `end`, both included, as `readChangeFeed` gives it.

        Needs `delta.enableChangeDataFeed=true` at every version asked for; `changes` does not.
        """
        caller, state = self._caller(), self.handle.newest()
        first, last = _versions(state, start, end, None, caller)
        if first > state.version:
            raise UnknownVersion(f"the newest version is {state.version}, so none is from {first} on", version=first)
        stretch = read_range(_before(state, first, is_needed=False), _at(state, last), start=first)
        plan = planned(stretch, None, load_hidden)
        return ChangeSet(first, last, "feed", plan, caller.spark, state, None)


def _asked(state: DeltaState, first: int, last: int, wanted: ChangeQuery, spark: SparkSession | None) -> ChangeSet:
    kind = wanted.kind.value
    if last < first:
        check_query(wanted, state.snapshot.schema)
        return ChangeSet(first, last, kind, no_changes(state.snapshot, wanted), spark, state, wanted)
    before = _before(state, first, is_needed=not wanted.by_commit)
    plan = planned(read_range(before, _at(state, last), start=first), wanted, load_hidden)
    return ChangeSet(first, last, kind, plan, spark, state, wanted)


def _versions(
    state: DeltaState, start: When | None, end: When | None, resume: str | None, caller: ExecutionContext
) -> tuple[int, int]:
    if (start is None) == (resume is None):
        raise Invalid("say where changes begin: with a version or timestamp, or with resume= and a token")
    location = state.snapshot.location
    first: Point = _resumed(resume, state) if resume is not None else _point(start, caller)
    last = None if end is None else _point(end, caller)
    return versions_between(location, state.version, first, last)


def _point(when: When | None, caller: ExecutionContext) -> Point:
    if isinstance(when, bool) or when is None:
        raise Invalid(f"a version is a whole number and a timestamp text or a datetime, not {when!r}")
    return when if isinstance(when, int) else Moment(moment_ms(when, zone=caller.zone))


def _resumed(token: str, state: DeltaState) -> int:
    try:
        text = token.removeprefix(_TOKEN)
        found = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except MALFORMED_JSON as error:
        raise Invalid(f"{token!r} is no resume token: take it from a change set's resumeToken") from error
    if found.table != state.table_id:
        raise Invalid(
            f"the resume token is of another table than the one at {state.snapshot.location.url}, or the table was "
            "replaced since: begin again with a version"
        )
    return found.version


def _before(state: DeltaState, first: int, *, is_needed: bool) -> DeltaState | None:
    """The table before a version; None where there was none, or where it can be done without and is gone."""
    if first == 0:
        return None
    try:
        return _at(state, first - 1)
    except UnknownVersion as error:
        if not is_needed:
            return None
        raise UnknownVersion(
            f"a net change from version {first} on needs version {first - 1}: {error}", version=first - 1
        ) from error


def _at(state: DeltaState, version: int) -> DeltaState:
    return state if state.version == version else load(state.snapshot.location, version=version)
