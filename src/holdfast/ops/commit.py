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
from dataclasses import dataclass
from typing import Protocol, TypeVar

from holdfast.env import Env
from holdfast.errors import CONCURRENT_WRITES, ConcurrentCreate, ConcurrentWrite, LimitReached
from holdfast.model.mutation import Committed, Mutation, Outcome, Taken, Winner
from holdfast.model.snapshot import Snapshot
from holdfast.plan.rebase import Clash, judge
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


def commit(format_: Format[State], state: State | None, mutation: Mutation, env: Env) -> Landed:
    """Make a mutation true, or raise what stands in its way. `state` is what the transaction read."""
    read = state
    for attempt in range(1, ATTEMPTS + 1):
        if mutation.app is not None and state is not None:
            done = format_.app_version(state, mutation.app.app_id)
            if done is not None and done >= mutation.app.version:
                return Landed(None, attempt - 1)
        match format_.attempt(state, mutation, env):
            case Committed(version):
                return Landed(version, attempt)
            case Taken(version):
                newest = format_.newest(state)
                assert newest is not None, f"version {version} is taken, so there is a table"
                _refuse_clash(format_, read, state, newest, mutation)
                state = newest
    raise LimitReached(f"lost {ATTEMPTS} races for a version in a row; try again when fewer writers are at work")


def _refuse_clash(
    format_: Format[State],
    read: State | None,
    before: State | None,
    newest: State,
    mutation: Mutation,
) -> None:
    """Raise when a winner since the last attempt makes the transaction wrong."""
    winners = format_.winners(before, newest)
    if read is None:
        raise ConcurrentCreate(
            f"another writer created the table at {format_.snapshot(newest).location.url} first", version=0
        )
    snapshot = format_.snapshot(read)
    serializable = isolation(snapshot.properties.get(ISOLATION_LEVEL)) is Isolation.SERIALIZABLE
    clash = judge(mutation, snapshot, winners, serializable=serializable)
    if clash is not None:
        raise _conflict(clash, mutation, snapshot)


def _conflict(clash: Clash, mutation: Mutation, snapshot: Snapshot) -> ConcurrentWrite:
    winner = clash.winner
    when = datetime.datetime.fromtimestamp(winner.timestamp_ms / 1000, datetime.UTC)
    files = f" ({', '.join(clash.files[:3])}{', ...' if len(clash.files) > 3 else ''})" if clash.files else ""
    return CONCURRENT_WRITES[clash.kind](
        f"this {mutation.operation} of {snapshot.location.url} read version {snapshot.version}, but version "
        f"{winner.version}, a {winner.operation} at {when:%Y-%m-%d %H:%M:%S} UTC, came first: {clash.reason}{files}; "
        "read the table again and repeat it",
        version=winner.version,
        files=clash.files,
    )
