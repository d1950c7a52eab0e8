"""Deletes log files that no version within the log retention needs.

The newest valid checkpoint at or before the cutoff is kept, with its commit and all later files. Older files are
deleted. The cutoff is a midnight, so that there is something to delete about once a day.

1. Before anything is deleted, the kept checkpoint was read completely and agrees with the counts that the log states
   of it. Without such a checkpoint nothing is deleted.
2. Before anything is deleted, the hint points to the kept checkpoint or a newer one.
3. Commits are deleted first, oldest first, then checkpoints, then sidecars that no remaining checkpoint names. So a
   crash at any moment leaves every version from the kept one on readable.
4. Sidecars younger than a day are kept: a checkpoint being written may name them.
5. All files from the checkpoint of the oldest pinned version on are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from holdfast.env import Env
from holdfast.errors import Damaged
from holdfast.formats.delta.checkpoint.reader import survey
from holdfast.formats.delta.checkpoint.writer import point_hint_to
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
    """The names of files to delete, in order, and the checkpoint that replaces them."""

    names: tuple[str, ...] = ()
    kept: Checkpoint | None = None


def clean_log(state: DeltaState, env: Env, *, upto_ms: int | None = None) -> Expired:
    """Deletes the files that `expired` lists, and returns them."""
    location = state.snapshot.location
    plan = expired(state, env, upto_ms=upto_ms)
    if plan.kept is not None:
        point_hint_to(location, plan.kept, list_log(location, start=first_name(plan.kept.version)))
    for name in plan.names:
        delete_one(location, location.key(LOG, name))
    return plan


def expired(state: DeltaState, env: Env, *, upto_ms: int | None = None) -> Expired:
    """The log files that are older than the retention, or than `upto_ms`; nothing is changed."""
    location, properties, now_ms = state.snapshot.location, state.metadata.properties, env.now_ms()
    if upto_ms is None and not truth(properties.get(EXPIRED_LOG_CLEANUP), default=True):
        return Expired()
    cutoff = upto_ms
    if cutoff is None:
        cutoff = cutoff_ms(now_ms, span_ms(LOG_RETENTION, properties.get(LOG_RETENTION, DEFAULT_RETENTION)))
    files = _log_files(location, cutoff)
    listing = read_listing(files, directory=log_url(location))
    pinned = min(pins_of(state).values(), default=state.version)
    for checkpoint in candidates(listing, cutoff):
        if checkpoint.version > pinned:
            continue
        names = older_names(files, checkpoint.version)
        if not names or not _may_delete_before(state, checkpoint.version):
            break
        if _is_valid(location, checkpoint):
            return Expired((*names, *_unreferenced_sidecars(state, listing, checkpoint.version, now_ms)), checkpoint)
    return Expired()


def cutoff_ms(now_ms: int, retention_ms: int) -> int:
    """The last midnight (UTC) at or before the start of the retention."""
    return (now_ms - retention_ms) // DAY_MS * DAY_MS


def candidates(listing: LogListing, cutoff: int) -> Iterator[Checkpoint]:
    """The checkpoints of versions that were committed before the cutoff, newest first."""
    newest = max((version for version, time_ms in file_times(listing).items() if time_ms <= cutoff), default=-1)
    return (checkpoint for checkpoint in listing.checkpoints if checkpoint.version <= newest)


def older_names(files: Sequence[ObjectMeta], kept: int) -> tuple[str, ...]:
    """The names of log files that no version from the kept one on needs, in the order of deletion."""
    commits, others, checkpoints = [], [], []
    for meta in files:
        match parse_log_name(meta.name):
            case Commit(version) if version < kept:
                commits.append(meta.name)
            case Checksum(version) if version < kept:
                others.append(meta.name)
            case CompactedLog(start, _) if start <= kept:
                others.append(meta.name)
            case ClassicCheckpoint(version) | PartCheckpoint(version) | UniqueCheckpoint(version) if version < kept:
                checkpoints.append(meta.name)
            case _:
                pass
    return (*commits, *others, *checkpoints)


def _log_files(location: Location, cutoff: int) -> list[ObjectMeta]:
    """The files of the log; only the first ones where even the oldest commit is newer than the cutoff."""
    try:
        # Listing a local directory costs the same for one file as for all, so a young log is not listed.
        if location.store.head(location.key(LOG, commit_name(0))).modified_ms > cutoff:
            return []
    except NotFound:
        pass  # deleted by an earlier cleanup
    files: list[ObjectMeta] = []
    commits = 0
    for meta in location.store.list_from(location.key(LOG), FIRST_NAME):
        files.append(meta)
        if isinstance(parse_log_name(meta.name), Commit):
            commits += 1
            if commits == 1 and meta.modified_ms > cutoff:
                break
    return files


def _may_delete_before(state: DeltaState, kept: int) -> bool:
    """Whether all versions before `kept` may be deleted: protected checkpoints are deleted together or not at all."""
    protected = state.metadata.properties.get(PROTECTED_BEFORE)
    if protected is None or "checkpointProtection" not in writer_features(state.protocol):
        return True
    return kept >= number(PROTECTED_BEFORE, protected)


def _is_valid(location: Location, checkpoint: Checkpoint) -> bool:
    """Whether a reader of the version uses this checkpoint, rather than other files."""
    try:
        read_from = load(location, version=checkpoint.version).segment.checkpoint
    except Damaged:
        return False
    return read_from is not None and read_from.name == checkpoint.name


def _unreferenced_sidecars(state: DeltaState, listing: LogListing, kept: int, now_ms: int) -> list[str]:
    """Old sidecars that no checkpoint from the kept version on names; none where such a checkpoint cannot be read."""
    location = state.snapshot.location
    features = reader_features(state.protocol) | writer_features(state.protocol)
    if not features & {"v2Checkpoint", "checkpointProtection"}:  # dropping v2Checkpoint adds checkpointProtection
        return []
    sidecars = location.store.list_from(location.key(LOG, SIDECARS))
    old = [meta.name for meta in sidecars if meta.modified_ms < now_ms - DAY_MS]
    if not old:
        return []
    referenced: set[str] = set()
    for checkpoint in listing.checkpoints:
        if checkpoint.version < kept:
            continue
        try:
            paths = [sidecar.path.rpartition("/")[2] for sidecar in survey(location, checkpoint).sidecars]
        except Damaged:
            return []
        referenced.update(paths, map(unquote, paths))
    return [f"{SIDECARS}/{name}" for name in old if name not in referenced]
