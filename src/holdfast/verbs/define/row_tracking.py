"""Enables row tracking on a table that has rows already: one loop of commits until every row has an id.

1. Each round reads the newest version, decides what it lacks, and commits that on top of this very version. A lost
   race changes only the version to read, so files that a winner removed or stamped drop out, and new ones are seen.
2. Nothing is remembered between runs: a run that stopped is continued by the next one.
3. Other writers go on meanwhile; their appends survive every commit made here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from holdfast.env import Env
from holdfast.errors import Invalid, LimitReached
from holdfast.formats.delta.commit.restamp import Tracking, tracking_of, unstamped, with_counts
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.protocol.features import check_writable
from holdfast.formats.delta.state import DeltaState
from holdfast.model.mutation import Committed, Mutation, VersionTaken
from holdfast.verbs.commit.loop import ATTEMPTS
from holdfast.verbs.define.backfill import BATCH_FILES, enabled, restamped, row_counts, supported


class Step(Enum):
    """What a commit on the way did."""

    SUPPORT = "new files get ids"
    BACKFILL = "older files got ids"
    ENABLE = "every row has an id"


@dataclass(frozen=True, slots=True)
class Progress:
    """A commit on the way, and how far it leads."""

    step: Step
    version: int
    files_done: int  # by this run
    files_left: int  # as of the version this one stands on


@dataclass(frozen=True, slots=True)
class Tracked:
    """What enabling did: its last commit (None: nothing was left to do), the files that got ids, all its commits."""

    version: int | None
    files: int
    commits: int


Report: TypeAlias = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class _Next:
    step: Step
    mutation: Mutation
    files: int = 0
    left: int = 0


_READDED_AT_MOST = 3  # times the files there were, before somebody must be adding files without ids


def enable_row_tracking(
    state: DeltaState, env: Env, *, batch_files: int = BATCH_FILES, progress: Report | None = None
) -> Tracked:
    """Give every row of a table an id, beside other writers; `progress` hears of each commit."""
    if type(batch_files) is not int or batch_files < 1:
        raise Invalid(f"a batch has at least one file, not {batch_files!r}")
    location = state.snapshot.location
    check_writable(state.protocol, table=location.url)
    format_ = DeltaFormat(location)
    most = _READDED_AT_MOST * max(len(state.snapshot.files), batch_files)
    counts: Mapping[str, int] = {}
    last: int | None = None
    done = commits = batches = lost = 0
    while tracking_of(state) is not Tracking.ENABLED:
        next_, counts = _next(state, batch_files, batches, counts)
        match format_.attempt(state, next_.mutation, env):
            case Committed(version):
                last, done, commits, lost = version, done + next_.files, commits + 1, 0
                batches += next_.step is Step.BACKFILL
                format_.post_commit(state, version, env)
                if progress is not None:
                    progress(Progress(next_.step, version, done, next_.left))
            case VersionTaken():
                lost += 1
        if lost == ATTEMPTS:
            raise LimitReached(
                f"lost {lost} races in a row on {location.url}; try again when fewer writers are at work"
            )
        if done > most:
            raise LimitReached(
                f"{done} files of {location.url} were given row ids and there are still some without: another writer "
                "adds files without ids, so it does not know row tracking; stop it, then run this again"
            )
        newest = format_.newest(state)
        assert newest is not None, "a table does not go away"
        state = newest
    return Tracked(last, done, commits)


def _next(
    state: DeltaState, batch_files: int, batch: int, counts: Mapping[str, int]
) -> tuple[_Next, Mapping[str, int]]:
    """What the table lacks first, and the row counts known by now: a lost race does not read a footer again."""
    location = state.snapshot.location
    match tracking_of(state):
        case Tracking.NONE:
            return _Next(
                Step.SUPPORT, supported(DeltaFormat.definition_of(state)), left=len(state.snapshot.files)
            ), counts
        case Tracking.SUSPENDED:
            raise Invalid(
                f"row tracking of {location.url} is suspended (delta.rowTrackingSuspended=true), as it is while the "
                "feature is being dropped: unset that property first"
            )
    files, missing = unstamped(state, batch_files)
    if not missing:
        return _Next(Step.ENABLE, enabled(DeltaFormat.definition_of(state))), counts
    counts = row_counts(location, files, counts)
    mutation = restamped(with_counts(files, counts), batch)
    return _Next(Step.BACKFILL, mutation, files.num_rows, missing - files.num_rows), counts
