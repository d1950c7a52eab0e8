"""The commit loop, once for all verbs and formats.

    prepare per attempt -> write -> committed, or taken: load the winners, judge, go round again

1. A transaction lands at most once: an unclear answer is resolved by the format before this loop sees it.
2. Losing a race costs a look at the winners, never a data file.
3. What it cannot rebase is a Conflict that names the winner, what it did and the files in the way. How strict that is
   follows from the isolation level of the table as it was read.
4. What a landed commit makes due (checkpoint, checksum) is told to the caller, and no failure of that undoes a commit.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from holdfast.env import Env
from holdfast.errors import CONCURRENT_WRITES, ConcurrentCreate, ConcurrentWrite, LimitReached
from holdfast.model.mutation import AppVersion, Committed, Mutation, Outcome, Taken, Winner
from holdfast.model.snapshot import Snapshot
from holdfast.ops.rebase import Redo, rebased
from holdfast.plan.rebase import Clash, judge, judge_shape
from holdfast.schema.properties import ISOLATION_LEVEL, Isolation, isolation

State = TypeVar("State")
ATTEMPTS = 10_000


class Format(Protocol[State]):
    """What the loop asks of a table format."""

    def newest(self, state: State | None) -> State | None:
        """The table as it is now, from an older state at the cost of what came since; None where there is none."""

    def snapshot(self, state: State) -> Snapshot: ...

    def attempt(self, state: State | None, mutation: Mutation, env: Env) -> Outcome:
        """Try to make a mutation the version after `state`."""

    def winners(self, old: State | None, new: State) -> tuple[Winner, ...]: ...

    def app_version(self, state: State, app_id: str) -> int | None:
        """How far an application has written."""


@dataclass(frozen=True)
class Landed:
    """A transaction that is in the table; `version` is None when it had been there before."""

    version: int | None
    attempts: int
    metrics: Mapping[str, int] = field(default_factory=dict)  # of what was committed in the end


def commit(
    format_: Format[State],
    state: State | None,
    mutation: Mutation,
    env: Env,
    *,
    redo: Redo | None = None,
    level: Isolation | None = None,
) -> Landed:
    """Make a mutation true, or raise what stands in its way. `state` is what the transaction read.

    `redo`: what it did row by row, so that races are judged by rows; `level`: instead of the table's own.
    """
    read, asked = state, mutation
    for attempt in range(1, ATTEMPTS + 1):
        if state is not None and has_seen(format_, state, mutation.app):
            return Landed(None, attempt - 1)
        match format_.attempt(state, mutation, env):
            case Committed(version):
                return Landed(version, attempt, mutation.metrics)
            case Taken(version):
                newest = format_.newest(state)
                assert newest is not None, f"version {version} is taken, so there is a table"
                again = _again(format_, read, state, newest, asked, redo, level)
                if isinstance(again, ConcurrentWrite):
                    raise again
                mutation, state = again, newest
    raise LimitReached(f"lost {ATTEMPTS} races for a version in a row; try again when fewer writers are at work")


def has_seen(format_: Format[State], state: State, app: AppVersion | None) -> bool:
    """Whether a table has what a version of an application wrote; never where nobody names one."""
    if app is None:
        return False
    done = format_.app_version(state, app.app_id)
    return done is not None and done >= app.version


def would_conflict(
    format_: Format[State], read: State, mutation: Mutation, *, redo: Redo | None, level: Isolation | None
) -> ConcurrentWrite | None:
    """What `commit` would raise now; None: it would land, or it has."""
    newest = format_.newest(read)
    assert newest is not None, "a table that was read is there"
    if format_.snapshot(newest).version == format_.snapshot(read).version:
        return None
    if has_seen(format_, newest, mutation.app):
        return None
    again = _again(format_, read, read, newest, mutation, redo, level)
    return again if isinstance(again, ConcurrentWrite) else None


def _again(
    format_: Format[State],
    read: State | None,
    before: State | None,
    newest: State,
    mutation: Mutation,
    redo: Redo | None,
    level: Isolation | None,
) -> Mutation | ConcurrentWrite:
    """What to attempt next, or what there is to raise, when a winner makes the transaction wrong."""
    now = format_.snapshot(newest)
    if read is None:
        return ConcurrentCreate(f"another writer created the table at {now.location.url} first", version=0)
    snapshot = format_.snapshot(read)
    level = level or isolation(snapshot.properties.get(ISOLATION_LEVEL))
    found: Mutation | Clash | None
    if redo is None:
        serializable = level is Isolation.SERIALIZABLE
        found = judge(mutation, snapshot, format_.winners(before, newest), serializable=serializable)
    else:
        winners = format_.winners(read, newest)
        found = judge_shape(mutation, winners) or rebased(mutation, redo, snapshot, now, winners, level)
    if isinstance(found, Clash):
        return _conflict(found, mutation, snapshot)
    return found or mutation


def _conflict(clash: Clash, mutation: Mutation, snapshot: Snapshot) -> ConcurrentWrite:
    winner = clash.winner
    when = datetime.datetime.fromtimestamp(winner.timestamp_ms / 1000, datetime.UTC)
    files = f" ({', '.join(clash.files[:3])}{', ...' if len(clash.files) > 3 else ''})" if clash.files else ""
    rows = f" (row ids {', '.join(map(str, clash.row_ids))})" if clash.row_ids else ""
    todo = "read the table again and repeat it" if clash.can_retry else "look at the table before repeating it"
    return CONCURRENT_WRITES[clash.kind](
        f"this {mutation.operation} of {snapshot.location.url} read version {snapshot.version}, but version "
        f"{winner.version}, a {winner.operation} at {when:%Y-%m-%d %H:%M:%S} UTC, came first: "
        f"{clash.reason}{files}{rows}; {todo}",
        version=winner.version,
        files=clash.files,
        operation=winner.operation,
        when_ms=winner.timestamp_ms,
        row_ids=clash.row_ids,
        can_retry=clash.can_retry,
        repeats=clash.repeats,
    )
