"""The commit loop of all verbs and formats.

    prepare per attempt -> write -> committed, or taken: load the winners, judge, go round again

1. A transaction lands at most once: an unclear answer is resolved by the format before this loop sees it.
2. Losing a race costs a look at who won since the last attempt, never a data file. What was judged stays judged: after
   each look the transaction is told in terms of the version it will be put on.
3. Several winners together may leave right what one of them alone does not: a row that was deleted and restored is as
   it was. So what stands in the way since the last attempt is judged once more by all that came since the first read.
4. What it cannot rebase is a Conflict that names the winner, what it did and the files in the way. How strict that is
   follows from the isolation level of the table as it was read.
5. A transaction that conflicts leaves nothing behind of what its attempts wrote beside its data files.
6. Who has lost several attempts gets a turn: the others wait for the next one, where the format can make them wait and
   the attempt is short.
7. The format writes what a landed commit calls for (checkpoint, checksum); no failure of that undoes the commit.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Generic

from holdfast.env import Env
from holdfast.errors import CONCURRENT_WRITES, ConcurrentCreate, ConcurrentWrite, Conflict, LimitReached
from holdfast.model.format import State, TableFormat
from holdfast.model.mutation import Came, Committed, Mutation, VersionTaken, joined
from holdfast.model.snapshot import Snapshot
from holdfast.plan.dml.rebase import Clash, judge, judge_definition
from holdfast.schema.properties import ISOLATION_LEVEL, Isolation, isolation
from holdfast.terminal import phase
from holdfast.verbs.commit.rebase import Rebased, Redo, Touched, rebased
from holdfast.verbs.commit.staged import refuse_lost, takes_files

ATTEMPTS = 10_000
PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.016  # of who lost: longer would only let more come meanwhile
LOSSES_BEFORE_TURN = 3  # then others wait for one attempt, where a format can make them
LONGEST_TURN_MS = 1_000  # of the attempt before: nobody waits for one that takes longer


@dataclass(frozen=True)
class Landed:
    """A transaction that is in the table; `version` is None when it had been there before."""

    version: int | None
    attempts: int
    metrics: Mapping[str, int] = field(default_factory=dict)  # of what was committed in the end


def commit(
    format_: TableFormat[State],
    state: State | None,
    mutation: Mutation,
    env: Env,
    *,
    redo: Redo | None = None,
    level: Isolation | None = None,
) -> Landed:
    """Commit a mutation and do what follows a commit, or raise what stands in its way.

    `state` is what the transaction read, None where there is no table yet. `redo`: what it did row by row, so that
    races are judged by rows; `level`: the isolation level, instead of the table's own.
    """
    attempts = format_.begin()
    with phase("committing"):
        if state is None:
            landed, before = _create(attempts, mutation, env), None
        else:
            landed, before = _commit(attempts, _Judging(attempts, state, mutation, redo, level), env)
    if landed.version is not None:
        format_.post_commit(before, landed.version, env)
    return landed


def _commit(format_: TableFormat[State], judging: _Judging[State], env: Env) -> tuple[Landed, State]:
    """Attempt until the transaction lands or conflicts; gives the state that it landed on."""
    app, took_ms = judging.mutation.app, 0
    try:
        for attempt in range(1, ATTEMPTS + 1):
            began_ms = env.now_ms()
            has_turn = attempt > LOSSES_BEFORE_TURN and took_ms <= LONGEST_TURN_MS
            with format_.turn(judging.mutation, env) if has_turn else nullcontext():
                if attempt > 1 and (conflict := judging.go_on()) is not None:
                    raise conflict
                if format_.has_app_version(judging.state, app):
                    format_.abandon(judging.state)
                    return Landed(None, attempt - 1), judging.state
                judging.refuse_lost(env)
                outcome = format_.attempt(judging.state, judging.mutation, env)
            match outcome:
                case Committed(version):
                    return Landed(version, attempt, judging.mutation.metrics), judging.state
                case VersionTaken():
                    took_ms = env.now_ms() - began_ms
                    env.pause(env.rng.uniform(0, min(attempt * PAUSE_S, LONGEST_PAUSE_S)))
    except Conflict:
        format_.abandon(judging.state)
        raise
    raise LimitReached(f"lost {ATTEMPTS} races for a version in a row; try again when fewer writers are at work")


def _create(format_: TableFormat[State], mutation: Mutation, env: Env) -> Landed:
    match format_.attempt(None, mutation, env):
        case Committed(version):
            return Landed(version, 1, mutation.metrics)
        case VersionTaken(version):
            newest = format_.newest(None)
            assert newest is not None, f"version {version} is taken, so there is a table"
            url = newest.snapshot.location.url
            raise ConcurrentCreate(f"another writer created the table at {url} first", version=0)


def would_conflict(
    format_: TableFormat[State], read: State, mutation: Mutation, *, redo: Redo | None, level: Isolation | None
) -> ConcurrentWrite | None:
    """What `commit` would raise now; None: it would land, or it has."""
    judging = _Judging(format_.begin(), read, mutation, redo, level)
    conflict = judging.go_on()
    return None if format_.has_app_version(judging.state, mutation.app) else conflict


class _Judging(Generic[State]):
    """A transaction as it stands on the newest version that it was judged against."""

    def __init__(
        self, format_: TableFormat[State], read: State, mutation: Mutation, redo: Redo | None, level: Isolation | None
    ) -> None:
        self._format, self._read = format_, read.snapshot
        self._original = mutation, redo
        self._level = level or isolation(self._read.properties.get(ISOLATION_LEVEL))
        self._came: list[Came] = []
        self.state, self.mutation, self._redo = read, mutation, redo
        self._vacuumed = False

    def refuse_lost(self, env: Env) -> None:
        """Refuse to commit files that a vacuum took meanwhile."""
        keeps_ms = self._format.keeps_ms(self.state)
        refuse_lost(self.state.snapshot, self.mutation, env, keeps_ms=keeps_ms, vacuumed=self._vacuumed)

    def go_on(self) -> ConcurrentWrite | None:
        """Stand on what the table is now, or say what makes the transaction wrong."""
        newest, came = self._format.since(self.state)
        self._came.append(came)
        self._vacuumed = self._vacuumed or takes_files(came.winners)
        verdict = self._judged(self.state.snapshot, newest, self.mutation, self._redo, came)
        if isinstance(verdict, Clash) and self._redo is not None and len(self._came) > 1:
            whole = self._judged(self._read, newest, *self._original, joined(self._came))
            verdict = verdict if isinstance(whole, Clash) else whole
        if isinstance(verdict, Clash):
            self.state = newest
            return _conflict(verdict, self.mutation, self._read)
        self.state, self.mutation = newest, verdict.mutation
        if self._redo is not None:
            self._redo = replace(self._redo, touched=verdict.touched)
        return None

    def _judged(
        self, stands_on: Snapshot, newest: State, mutation: Mutation, redo: Redo | None, came: Came
    ) -> Rebased | Clash:
        if redo is None:
            serializable = self._level is Isolation.SERIALIZABLE
            clash = judge(mutation, self._read, came.winners, serializable=serializable)
            return clash or Rebased(mutation, Touched())
        if not came.winners:
            return Rebased(mutation, redo.touched)
        return judge_definition(mutation, came.winners) or rebased(
            mutation, redo, stands_on, newest.snapshot, came, self._level
        )


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
