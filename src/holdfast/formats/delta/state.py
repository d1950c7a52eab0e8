"""The state of a Delta table at one version: its snapshot, and what only Delta has, such as protocol and log segment.

1. A state never changes; `refresh` returns another one, or the same where nothing was committed.
2. `refresh` reads only the new commits, unless the log was cleaned up, rewound or replaced.
3. Writer features do not matter; an unknown reader feature is refused before metadata is interpreted.
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
from holdfast.formats.delta.metadata import clustering_of, identity_of, partitions_of, resolve_of, schema_of
from holdfast.formats.delta.protocol.features import check_readable
from holdfast.model.files import Slab
from holdfast.model.snapshot import Resolve, Snapshot
from holdfast.storage.base import ObjectMeta
from holdfast.storage.error_mapping import parsing
from holdfast.storage.location import Location

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeltaState:
    """A snapshot, with what only a Delta log has."""

    snapshot: Snapshot
    protocol: Protocol
    metadata: Metadata
    txns: Mapping[str, Txn]  # by application
    domains: Mapping[str, DomainMetadata]  # by domain
    segment: LogSegment
    commit: ObjectMeta | None  # the commit file of the version, where the log still has it
    base: tuple[Slab, ...]  # files of the checkpoint, also those removed since
    layers: tuple[ActionLayer, ...]  # files of the commits after it
    file_counts: RunningFileCounts = field(compare=False)

    @property
    def settings(self) -> TableSettings:
        return TableSettings(self.protocol, self.metadata, self.txns, self.domains)

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def table_id(self) -> str:
        """The id of the table, which differs from that of a table created later in its place."""
        return self.metadata.id or self.snapshot.location.url


def is_table(location: Location) -> bool:
    """Whether there is a log with at least one version."""
    return has_log(location)


def load(location: Location, *, version: int | None = None, timestamp_ms: int | None = None) -> DeltaState:
    """The table at a version or a time, by default the newest version."""
    if version is not None and timestamp_ms is not None:
        raise Invalid("ask for a version or for a timestamp, not for both")
    with _parsing(location):
        at = version_at(location, timestamp_ms) if timestamp_ms is not None else version
        return _state(location, replay(location, list_hinted(location, at=at), at=at))


def refresh(state: DeltaState) -> DeltaState:
    """The newest state; the same object where nothing was committed since."""
    with _parsing(state.snapshot.location):
        return _refreshed(state, None)


def advance(state: DeltaState) -> tuple[DeltaState, Sequence[Sequence[Line]] | None]:
    """The newest state, and the actions of each commit since; None where the table was read again from the start."""
    commits: list[Sequence[Line]] = []
    with _parsing(state.snapshot.location):
        new = _refreshed(state, commits)
    return new, commits if len(commits) == new.version - state.version else None


def _parsing(location: Location) -> AbstractContextManager[None]:
    """Turns parsing errors into Damaged: files of a log that are valid by themselves may contradict each other."""
    return parsing(log_url(location), "makes no table", remedy="restore the log, or read an earlier version")


def _refreshed(state: DeltaState, commits: list[Sequence[Line]] | None) -> DeltaState:
    """The newest state; appends the actions of each commit since to `commits`."""
    location, version = state.snapshot.location, state.version
    listing = list_next(location, version, state.commit) or list_log(location, start=first_name(version))
    commit = listing.commits.get(version)
    if commit != state.commit:
        # Cleaned up where the log continues without the commit; otherwise another log has replaced this one.
        return _read_again(state, replaced=commit is not None or (listing.latest or 0) < version)
    deltas: list[ObjectMeta] = []
    while (meta := listing.commits.get(version + len(deltas) + 1)) is not None:
        deltas.append(meta)
    newest = version + len(deltas)
    if listing.latest is not None and listing.latest > newest:
        return _read_again(state, replaced=False)
    if not deltas:
        return state
    try:
        lines = _recording(read_lines(location, tuple(deltas)), commits)
        settings, layers, last = apply_deltas(location, lines, state.settings, state.layers, files=True)
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


def _recording(files: Iterator[list[Line]], commits: list[Sequence[Line]] | None) -> Iterator[list[Line]]:
    for lines in files:
        if commits is not None:
            commits.append(lines)
        yield lines


def _read_again(state: DeltaState, *, replaced: bool) -> DeltaState:
    """Loads the table from the start; adds a note where another log has replaced that of the state."""
    new = load(state.snapshot.location)
    if not replaced:
        return new
    log = log_url(state.snapshot.location)
    note = f"{log} was rewound or replaced since version {state.version} was read"
    _log.warning("%s", note)
    return replace(new, snapshot=replace(new.snapshot, notes=(*new.snapshot.notes, note)))


def _state(location: Location, replayed: Replayed, *, before: DeltaState | None = None) -> DeltaState:
    settings, segment = replayed.settings, replayed.segment
    protocol, metadata = settings.protocol, settings.metadata
    where = location.url
    check_readable(protocol, table=where)
    mapping = resolve_of(protocol, metadata)
    files = replayed.files
    file_counts = RunningFileCounts(files)
    if before is not None and segment.version == before.version + 1:
        file_counts = before.file_counts.next(files, replayed.last)
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
