"""Forgetting old versions: log files that nothing within the retention time needs.

The newest good checkpoint at or before the cutoff is kept, with its commit and everything after it; what is older goes.
The cutoff is a midnight, so that there is something to do about once a day.

1. The checkpoint that is kept was read, whole, before anything goes, and says what the log states of it elsewhere;
   without one nothing goes.
2. The hint points to it or further before anything goes.
3. Commits go first, oldest first, then checkpoints, then sidecars that no checkpoint left names: a crash at any moment
   leaves every version from the kept one on as it was.
4. Sidecars younger than a day stay: somebody may be about to name them.
5. Everything from the checkpoint of the oldest pinned version on stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from holdfast.env import Env
from holdfast.errors import Damaged
from holdfast.formats.delta.checkpoint.reader import survey
from holdfast.formats.delta.checkpoint.writer import point_to
from holdfast.formats.delta.history.pins import pins_of
from holdfast.formats.delta.log.file_names import (
    FIRST_NAME,
    LOG,
    SIDECARS,
    Checksum,
    ClassicCheckpoint,
    Commit,
    CompactedLog,
    PartCheckpoint,
    UniqueCheckpoint,
    commit_name,
    first_name,
    parse_log_name,
)
from holdfast.formats.delta.log.listing import list_log, log_url
from holdfast.formats.delta.log.segment import Checkpoint, LogListing, read_listing
from holdfast.formats.delta.log.times import file_times
from holdfast.formats.delta.protocol.features import reader_features, writer_features
from holdfast.formats.delta.state import DeltaState, load
from holdfast.schema.properties import LOG_RETENTION, PROTECTED_BEFORE, number, span_ms, truth
from holdfast.storage.base import NotFound, ObjectMeta
from holdfast.storage.leftovers import delete_one
from holdfast.storage.location import Location

EXPIRED_LOG_CLEANUP = "delta.enableExpiredLogCleanup"
DEFAULT_RETENTION = "interval 30 days"
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Expired:
    """What may go, as names below the log in the order in which it may, and the checkpoint that makes it needless."""

    names: tuple[str, ...] = ()
    kept: Checkpoint | None = None


def clean_log(state: DeltaState, env: Env, *, upto_ms: int | None = None) -> Expired:
    """Delete what `expired` lists; what was deleted."""
    location = state.snapshot.location
    plan = expired(state, env, upto_ms=upto_ms)
    if plan.kept is not None:
        point_to(location, plan.kept, list_log(location, start=first_name(plan.kept.version)))
    for name in plan.names:
        delete_one(location, location.key(LOG, name))
    return plan


def expired(state: DeltaState, env: Env, *, upto_ms: int | None = None) -> Expired:
    """The log files that are past their retention, or past a moment that the caller says; nothing is changed."""
    location, properties, now_ms = state.snapshot.location, state.metadata.properties, env.now_ms()
    if upto_ms is None and not truth(properties.get(EXPIRED_LOG_CLEANUP), default=True):
        return Expired()
    cutoff = upto_ms
    if cutoff is None:
        cutoff = cutoff_ms(now_ms, span_ms(LOG_RETENTION, properties.get(LOG_RETENTION, DEFAULT_RETENTION)))
    found = _listed(location, cutoff)
    listing = read_listing(found, directory=log_url(location))
    pinned = min(pins_of(state).values(), default=state.version)
    for checkpoint in candidates(listing, cutoff):
        if checkpoint.version > pinned:
            continue
        names = older_names(found, checkpoint.version)
        if not names or not _may_forget(state, checkpoint.version):
            break
        if _is_good(location, checkpoint):
            return Expired((*names, *_loose_sidecars(state, listing, checkpoint.version, now_ms)), checkpoint)
    return Expired()


def cutoff_ms(now_ms: int, retention_ms: int) -> int:
    """The midnight in UTC at or before the oldest moment to be kept."""
    return (now_ms - retention_ms) // DAY_MS * DAY_MS


def candidates(listing: LogListing, cutoff: int) -> Iterator[Checkpoint]:
    """The checkpoints at or before the last version made by a moment, newest first."""
    newest = max((version for version, made in file_times(listing).items() if made <= cutoff), default=-1)
    return (checkpoint for checkpoint in listing.checkpoints if checkpoint.version <= newest)


def older_names(found: Sequence[ObjectMeta], kept: int) -> tuple[str, ...]:
    """The names of log files that say nothing of a version from the kept one on, in the order in which they may go."""
    commits, rest, checkpoints = [], [], []
    for meta in found:
        match parse_log_name(meta.name):
            case Commit(version) if version < kept:
                commits.append(meta.name)
            case Checksum(version) if version < kept:
                rest.append(meta.name)
            case CompactedLog(start, _) if start <= kept:
                rest.append(meta.name)
            case ClassicCheckpoint(version) | PartCheckpoint(version) | UniqueCheckpoint(version) if version < kept:
                checkpoints.append(meta.name)
            case _:
                pass
    return (*commits, *rest, *checkpoints)


def _listed(location: Location, cutoff: int) -> list[ObjectMeta]:
    """The whole log, or its beginning where already the oldest commit is too young to go."""
    try:
        # Nothing is listed for a log that is younger than its retention: a file system would list all of it.
        if location.store.head(location.key(LOG, commit_name(0))).modified_ms > cutoff:
            return []
    except NotFound:
        pass  # it went long ago
    found: list[ObjectMeta] = []
    commits = 0
    for meta in location.store.list_from(location.key(LOG), FIRST_NAME):
        found.append(meta)
        if isinstance(parse_log_name(meta.name), Commit):
            commits += 1
            if commits == 1 and meta.modified_ms > cutoff:
                break
    return found


def _may_forget(state: DeltaState, kept: int) -> bool:
    """Whether everything before a version may go: a protected stretch goes whole or not at all."""
    protected = state.metadata.properties.get(PROTECTED_BEFORE)
    if protected is None or "checkpointProtection" not in writer_features(state.protocol):
        return True
    return kept >= number(PROTECTED_BEFORE, protected)


def _is_good(location: Location, checkpoint: Checkpoint) -> bool:
    """Whether a version is read from its checkpoint, rather than around it."""
    try:
        read_from = load(location, version=checkpoint.version).segment.checkpoint
    except Damaged:
        return False
    return read_from is not None and read_from.name == checkpoint.name


def _loose_sidecars(state: DeltaState, listing: LogListing, kept: int, now_ms: int) -> list[str]:
    """Old sidecars that no checkpoint from the kept version on names; none where one of those cannot be read."""
    location = state.snapshot.location
    has = reader_features(state.protocol) | writer_features(state.protocol)
    if not has & {"v2Checkpoint", "checkpointProtection"}:  # a table that is protected may have had the other
        return []
    found = location.store.list_from(location.key(LOG, SIDECARS))
    old = [meta.name for meta in found if meta.modified_ms < now_ms - DAY_MS]
    if not old:
        return []
    named: set[str] = set()
    for checkpoint in listing.checkpoints:
        if checkpoint.version < kept:
            continue
        try:
            paths = [sidecar.path.rpartition("/")[2] for sidecar in survey(location, checkpoint).sidecars]
        except Damaged:
            return []
        named.update(paths, map(unquote, paths))
    return [f"{SIDECARS}/{name}" for name in old if name not in named]
