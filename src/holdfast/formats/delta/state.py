"""A Delta table at one version: the snapshot every storey above works with, and what only Delta has beside it.

1. A state never changes; refresh gives another one, or the same when nothing was committed.
2. Refresh reads the new commits and nothing else, unless the log it knows was cleaned up, rewound or replaced.
3. Reading asks nothing of writer features; a reader feature that is not known refuses the table before anything of it
   is interpreted.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from holdfast.errors import Damaged, Invalid
from holdfast.formats.delta.checkpoint.file_counts import RunningFileCounts
from holdfast.formats.delta.log.actions import DomainMetadata, Line, Metadata, Protocol, Txn
from holdfast.formats.delta.log.file_names import first_name
from holdfast.formats.delta.log.listing import has_log, list_hinted, list_log, list_next, log_url, read_lines
from holdfast.formats.delta.log.reader import Replayed, apply_deltas, replay
from holdfast.formats.delta.log.replay import ActionLayer, LiveFiles
from holdfast.formats.delta.log.segment import LogSegment
from holdfast.formats.delta.log.settings import TableSettings, complete
from holdfast.formats.delta.log.times import version_at, version_time
from holdfast.formats.delta.protocol.features import check_readable
from holdfast.formats.delta.shape import clustering_of, identity_of, partitions_of, resolve_of, schema_of
from holdfast.model.files import Slab
from holdfast.model.snapshot import Resolve, Snapshot
from holdfast.storage.base import ObjectMeta
from holdfast.storage.error_mapping import parsing
from holdfast.storage.location import Location

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeltaState:
    """A snapshot and, beside it, what the log says that no other format knows."""

    snapshot: Snapshot
    protocol: Protocol
    metadata: Metadata
    txns: Mapping[str, Txn]  # by application
    domains: Mapping[str, DomainMetadata]  # by domain
    segment: LogSegment
    commit: ObjectMeta | None  # the version's own commit file, where it is still there
    base: tuple[Slab, ...]  # files of the checkpoint, dead ones included
    layers: tuple[ActionLayer, ...]  # files of the commits after it
    file_counts: RunningFileCounts = field(compare=False)

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def table_id(self) -> str:
        """What tells a table from one that was put in its place."""
        return self.metadata.id or self.snapshot.location.url


def is_table(location: Location) -> bool:
    """Whether there is a log with at least one version."""
    return has_log(location)


def load(location: Location, *, version: int | None = None, timestamp_ms: int | None = None) -> DeltaState:
    """The table at a version or at a moment, by default as it is now."""
    if version is not None and timestamp_ms is not None:
        raise Invalid("ask for a version or for a timestamp, not for both")
    with _parsing(location):
        at = version_at(location, timestamp_ms) if timestamp_ms is not None else version
        return _state(location, replay(location, list_hinted(location, at=at), at=at))


def refresh(state: DeltaState) -> DeltaState:
    """The table as it is now; the same state when nothing was committed since."""
    with _parsing(state.snapshot.location):
        return _refreshed(state, None)


def advance(state: DeltaState) -> tuple[DeltaState, Sequence[Sequence[Line]] | None]:
    """The table as it is now, and the actions of each commit that came; None where the table was read anew instead."""
    commits: list[Sequence[Line]] = []
    with _parsing(state.snapshot.location):
        new = _refreshed(state, commits)
    return new, commits if len(commits) == new.version - state.version else None


def _parsing(location: Location) -> AbstractContextManager[None]:
    """While a state is made of a log: what each file is checked for by itself may still make no table together."""
    return parsing(log_url(location), "makes no table", remedy="restore the log, or read an earlier version")


def _refreshed(state: DeltaState, commits: list[Sequence[Line]] | None) -> DeltaState:
    """The table as it is now; the actions of each commit that came are put into `commits`."""
    location, version = state.snapshot.location, state.version
    listing = list_next(location, version, state.commit) or list_log(location, start=first_name(version))
    found = listing.commits.get(version)
    if found != state.commit:
        # Cleaned up, when the log goes on without it; else this is not the log the state came from.
        return _again(state, replaced=found is not None or (listing.latest or 0) < version)
    deltas: list[ObjectMeta] = []
    while (meta := listing.commits.get(version + len(deltas) + 1)) is not None:
        deltas.append(meta)
    newest = version + len(deltas)
    if listing.latest is not None and listing.latest > newest:
        return _again(state, replaced=False)
    if not deltas:
        return state
    old = TableSettings(state.protocol, state.metadata, state.txns, state.domains)
    try:
        lines = _noting(read_lines(location, tuple(deltas)), commits)
        settings, layers, last = apply_deltas(location, lines, old, state.layers, files=True)
    except Damaged:
        if commits is not None:
            commits.clear()
        return load(location)
    segment = LogSegment(newest, state.segment.checkpoint, (*state.segment.deltas, *deltas))
    return _state(
        location,
        Replayed(segment, listing, complete(settings), LiveFiles(state.base, layers), last, state.snapshot.notes),
        before=state,
    )


def _noting(files: Iterator[list[Line]], commits: list[Sequence[Line]] | None) -> Iterator[list[Line]]:
    for lines in files:
        if commits is not None:
            commits.append(lines)
        yield lines


def _again(state: DeltaState, *, replaced: bool) -> DeltaState:
    """Read everything anew, and say so when the log is not the one the state came from."""
    location = state.snapshot.location
    new = load(location)
    if not replaced:
        return new
    return _noted(new, f"{log_url(location)} was rewound or replaced since version {state.version} was read")


def _state(location: Location, replayed: Replayed, *, before: DeltaState | None = None) -> DeltaState:
    settings, segment = replayed.settings, replayed.segment
    protocol, metadata = settings.protocol, settings.metadata
    where = location.url
    check_readable(protocol, table=where)
    mapping = resolve_of(protocol, metadata)
    files = replayed.files
    one_more = before is not None and segment.version == before.version + 1
    file_counts = (
        before.file_counts.next(files, replayed.last) if before is not None and one_more else RunningFileCounts(files)
    )
    if before is not None and before.metadata is metadata and before.protocol is protocol:
        schema, partitions = before.snapshot.schema, before.snapshot.partition_columns
    else:
        schema = schema_of(metadata, mapped=mapping is not None, files=files, where=where)
        partitions = partitions_of(metadata, schema, where=where)
    snapshot = Snapshot(
        location=location,
        version=segment.version,
        timestamp_ms=version_time(location, replayed),
        schema=schema,
        partition_columns=partitions,
        files=files,
        identity=identity_of(protocol, metadata, settings.domains, where=where),
        resolve=mapping or Resolve.BY_NAME,
        clustering_columns=clustering_of(settings.domains, where=where),
        properties=metadata.properties,
        notes=replayed.notes,
    )
    return DeltaState(
        snapshot,
        protocol,
        metadata,
        settings.txns,
        settings.domains,
        segment,
        replayed.listing.commits.get(segment.version),
        files.base,
        files.layers,
        file_counts,
    )


def _noted(state: DeltaState, note: str) -> DeltaState:
    _log.warning("%s", note)
    return replace(state, snapshot=replace(state.snapshot, notes=(*state.snapshot.notes, note)))
