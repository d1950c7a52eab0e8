"""The state of an Iceberg table at one snapshot: the shared `Snapshot`, and the metadata that only Iceberg has.

1. A state never changes; `time_travel` gives another of the same table and reads only manifests not read before.
   Opening a table reads the metadata file alone; manifests are read when files are needed.
2. Reading requires nothing of writers; metadata that contradicts the format, or uses an unknown feature, is refused.
3. The version of a snapshot is its snapshot id. A table without snapshots has no rows and the version NO_SNAPSHOT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.errors import Invalid, UnknownVersion
from holdfast.formats.iceberg.deletes.reader import DeleteReader
from holdfast.formats.iceberg.metadata.contents import LazyFiles, SnapshotContents
from holdfast.formats.iceberg.metadata.file_table import ManifestTypes, leaf_ids
from holdfast.formats.iceberg.metadata.manifests import ManifestEntries
from holdfast.formats.iceberg.metadata.partition_spec import parse_specs, unified_fields
from holdfast.formats.iceberg.metadata.paths import Paths, relocated
from holdfast.formats.iceberg.metadata.row_id_metrics import ROW_ID_COLUMN, ROW_ID_FIELD
from holdfast.formats.iceberg.metadata.table_metadata import (
    MAIN,
    ROW_IDS_SINCE,
    SnapshotEntry,
    TableMetadata,
    read_metadata,
)
from holdfast.formats.iceberg.metadata.types import (
    NAME_MAPPING,
    name_mapping_hint,
    parse_name_mapping,
    parse_schema,
    type_names,
)
from holdfast.model.files import FileTable
from holdfast.model.snapshot import Bucketed, Placement, Resolve, RowIdentity, Snapshot
from holdfast.schema.types import Struct
from holdfast.storage.error_mapping import parsing
from holdfast.storage.open import open_location, place

NO_SNAPSHOT = -1
UPDATED_FIELD = 2147483539


@dataclass(frozen=True)
class IcebergState:
    """A snapshot, and the metadata that only Iceberg has."""

    snapshot: Snapshot
    metadata: TableMetadata
    metadata_path: str
    entry: SnapshotEntry | None  # None: the table has no snapshot
    paths: Paths
    contents: SnapshotContents
    hidden: DeleteReader

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def table_id(self) -> str:
        """Tells the table from another one that replaced it under the same name."""
        return self.metadata.table_uuid or self.metadata.location


def load(
    metadata_path: str,
    *,
    relocate: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    allow_outside: bool | str | Sequence[str] = False,
) -> IcebergState:
    """Loads the table of a metadata file, at its current snapshot."""
    moves = {old: open_location(new, storage_options=storage_options).url for old, new in (relocate or {}).items()}
    file = open_location(relocated(metadata_path, moves), storage_options=storage_options)
    metadata = read_metadata(file.store, file.directory)
    location = open_location(
        relocated(metadata.location.rstrip("/"), moves), storage_options=storage_options, allow_outside=allow_outside
    )
    if file.store.url == location.store.url:
        location = replace(location, spelled=file.spelled)  # as the user spells it, not as the writer did
    if not moves and "://" not in metadata.location and not metadata.location.startswith("/"):
        moves = {metadata.location: location.url}  # a relative path is relative to this process
    return build_state(metadata, metadata_path, Paths(location, moves).with_write_paths(metadata.properties))


def reload(state: IcebergState, metadata_path: str) -> IcebergState:
    """The same table by another of its metadata files; manifests that were read are not read again."""
    paths = state.paths
    # The catalog names the metadata file, wherever it lies, as it did when the table was opened.
    store, key = place(paths.anywhere.location, paths.anywhere.key(metadata_path))
    metadata = read_metadata(store, key, state.metadata)
    return build_state(metadata, metadata_path, paths.with_write_paths(metadata.properties), read=state.contents.read)


def build_state(
    metadata: TableMetadata,
    where: str,
    paths: Paths,
    *,
    at: SnapshotEntry | None = None,
    schema_id: int | None = None,
    read: Mapping[str, ManifestEntries] | None = None,
) -> IcebergState:
    """The table at a snapshot, by default the current one; `read` are manifests that were read before."""
    with parsing(where, "describes no table"):
        entry = at or _current(metadata, where)
        raw = metadata.schema_of(schema_id, where)
        names = parse_name_mapping(metadata.properties, where=where)
        schema = parse_schema(raw, names, where=where)
        specs = parse_specs(metadata.partition_specs, where=where)
        unified = unified_fields(specs, type_names(metadata.schema_of(None, where)), where=where)
        types = ManifestTypes(specs, unified, leaf_ids(schema, type_names(raw)))
        contents = SnapshotContents(paths, entry, types, where, dict(read or {}))
        snapshot = _snapshot(metadata, entry, paths, schema, types, LazyFiles(contents))
        schemas = [schema, *(parse_schema(one, names, where=where) for one in reversed(metadata.schemas))]
        return IcebergState(
            snapshot, metadata, where, entry, paths, contents, DeleteReader(contents, snapshot, schemas)
        )


def time_travel(
    state: IcebergState, *, version: int | str | None = None, timestamp_ms: int | None = None
) -> IcebergState:
    """The same table at a snapshot id, at a branch or tag, or at a time."""
    if version is not None and timestamp_ms is not None:
        raise Invalid("ask for a version or for a timestamp, not for both")
    metadata, where = state.metadata, state.metadata_path
    schema_id = None
    if timestamp_ms is not None:
        entry = _entry_at(metadata, timestamp_ms, where)
        schema_id = entry.schema_id
    elif isinstance(version, str):
        ref = metadata.refs.get(version)
        if ref is None:
            names = ", ".join(sorted(metadata.refs)) or "none"
            raise UnknownVersion(f"the table has no branch and no tag {version!r}; it has {names}")
        entry = _entry(metadata, ref.snapshot_id, where)
        # A branch is read with the table's current schema, a tag with that of its snapshot.
        schema_id = None if ref.type == "branch" else entry.schema_id
    elif version is not None:
        entry = _entry(metadata, version, where)
        schema_id = entry.schema_id
    else:
        return state
    return build_state(metadata, where, state.paths, at=entry, schema_id=schema_id, read=state.contents.read)


def _snapshot(
    metadata: TableMetadata,
    entry: SnapshotEntry | None,
    paths: Paths,
    schema: Struct,
    types: ManifestTypes,
    files: FileTable,
) -> Snapshot:
    return Snapshot(
        location=paths.location,
        version=NO_SNAPSHOT if entry is None else entry.snapshot_id,
        timestamp_ms=metadata.last_updated_ms if entry is None else entry.timestamp_ms,
        schema=schema,
        partition_columns=(),
        files=files,
        identity=_identity(metadata),
        resolve=Resolve.BY_ID,
        properties=metadata.properties,
        placement=Placement(types.tuple_type, _identities(types), _buckets(metadata, types)),
        hides=metadata.format_version >= 2,
        to_name="" if NAME_MAPPING in metadata.properties else name_mapping_hint(schema),
        to_track="rows have ids from format version 3 on: upgrade the table to it",
    )


def _identities(types: ManifestTypes) -> dict[int, dict[int, str]]:
    """The names of identity partition fields, by source field id and spec id."""
    names = {f.field_id: f.name for f in types.unified}
    identities: dict[int, dict[int, str]] = {}
    for spec in types.specs.values():
        for f in spec.fields:
            if f.transform.kind == "identity" and f.field_id in names:
                identities.setdefault(f.source_id, {})[spec.spec_id] = names[f.field_id]
    return identities


def _buckets(metadata: TableMetadata, types: ManifestTypes) -> tuple[Bucketed, ...]:
    """Bucket partition fields; not those of uuid columns, which Holdfast holds, and would hash, as strings."""
    spelled = type_names(metadata.schema_of(None, metadata.location))
    return tuple(
        Bucketed(f.source_id, f.name, f.transform.parameter)
        for f in types.unified
        if f.transform.kind == "bucket" and f.transform.parameter and spelled[f.source_id] != "uuid"
    )


def _identity(metadata: TableMetadata) -> RowIdentity | None:
    if metadata.format_version < ROW_IDS_SINCE:
        return None
    return RowIdentity(
        ROW_ID_COLUMN,
        "_last_updated_sequence_number",
        (metadata.next_row_id or 0) - 1,
        id_field=ROW_ID_FIELD,
        version_field=UPDATED_FIELD,
        has_gaps=True,
    )


def _current(metadata: TableMetadata, where: str) -> SnapshotEntry | None:
    ref = metadata.refs.get(MAIN)
    return None if ref is None else _entry(metadata, ref.snapshot_id, where)


def _entry(metadata: TableMetadata, snapshot_id: int, where: str) -> SnapshotEntry:
    entry = metadata.snapshot(snapshot_id)
    if entry is None:
        raise UnknownVersion(f"{where} has no snapshot {snapshot_id}, or no longer has it", version=snapshot_id)
    return entry


def _entry_at(metadata: TableMetadata, timestamp_ms: int, where: str) -> SnapshotEntry:
    """The snapshot that was current at a time, by the snapshot log."""
    current = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= timestamp_ms]
    if not current:
        first = min((entry.timestamp_ms for entry in metadata.snapshot_log), default=None)
        since = "it has no history" if first is None else f"its history begins at {first} ms since 1970"
        raise UnknownVersion(f"{where} does not know the table at {timestamp_ms} ms since 1970: {since}")
    return _entry(metadata, max(current, key=lambda entry: entry.timestamp_ms).snapshot_id, where)
