"""Parses a table's metadata file: schemas, partition specs, snapshots and snapshot references.

1. Format versions 1, 2 and 3 give the same record: a single schema or spec of version 1 becomes a list of one.
2. Fields that Holdfast does not know are kept as text; a format version that it does not know is refused.
3. Only `snapshots` and `snapshot-log` grow. Where they continue the text of the previous metadata file, only the new
   items are parsed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from holdfast.errors import Damaged, MissingFile, Unsupported
from holdfast.storage.base import NotFound, ObjectStore
from holdfast.storage.error_mapping import Long, json_record, parsing

NEWEST = 3
ROW_IDS_SINCE = 3  # format version
MAIN = "main"
_GZIP = b"\x1f\x8b"
_LARGEST_RATIO = 256  # of metadata to its compressed form
_Item = TypeVar("_Item")


class SnapshotRef(msgspec.Struct, frozen=True, rename="kebab"):
    """A branch or a tag."""

    snapshot_id: int
    type: str = "branch"
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: Long | None = None
    max_ref_age_ms: Long | None = None


class SnapshotEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """A snapshot in the metadata's `snapshots`."""

    snapshot_id: int
    timestamp_ms: Long = 0
    parent_snapshot_id: int | None = None
    sequence_number: int = 0
    manifest_list: str | None = None
    manifests: tuple[str, ...] = ()
    summary: Mapping[str, str] = {}
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None

    @property
    def operation(self) -> str:
        return self.summary.get("operation", "unknown")


class SnapshotLogEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """An item of `snapshot-log`: when a snapshot became the current one."""

    snapshot_id: int
    timestamp_ms: Long


class TableMetadata(msgspec.Struct, frozen=True, rename="kebab"):
    """The fields of a metadata file."""

    format_version: int
    location: str
    table_uuid: str | None = None
    last_sequence_number: int = 0
    last_updated_ms: Long = 0
    last_column_id: int = 0
    schemas: tuple[dict[str, Any], ...] = ()
    schema: dict[str, Any] | None = None
    current_schema_id: int = 0
    partition_specs: tuple[dict[str, Any], ...] = ()
    partition_spec: tuple[dict[str, Any], ...] | None = None
    default_spec_id: int = 0
    last_partition_id: int | None = None
    properties: Mapping[str, str] = {}
    current_snapshot_id: int | None = None
    snapshots: tuple[SnapshotEntry, ...] = ()
    snapshot_log: tuple[SnapshotLogEntry, ...] = ()
    refs: Mapping[str, SnapshotRef] = {}
    next_row_id: int | None = None
    metadata_log: tuple[dict[str, Any], ...] = ()
    statistics: tuple[dict[str, Any], ...] = ()
    partition_statistics: tuple[dict[str, Any], ...] = ()
    text: Mapping[str, bytes] = {}  # the JSON of each top-level field, as it is in the file

    def schema_of(self, schema_id: int | None, where: str) -> dict[str, Any]:
        """The schema with an id; None: the current schema."""
        number = self.current_schema_id if schema_id is None else schema_id
        for schema in self.schemas:
            if schema.get("schema-id", 0) == number:
                return schema
        raise Damaged(f"{where} speaks of schema {number} but does not have it", path=where, expected=str(number))

    def ancestry(self, entry: SnapshotEntry | None) -> Iterator[SnapshotEntry]:
        """A snapshot and those of its ancestors that the metadata still has, the newest first."""
        visited: set[int] = set()
        earlier = reversed(self.snapshots)  # most often a parent stands right before its child
        while entry is not None:
            if entry.snapshot_id in visited:
                path = f"snapshot {entry.snapshot_id} of {self.location}"
                raise Damaged(f"{path} descends from itself; restore an earlier metadata file", path=path)
            visited.add(entry.snapshot_id)
            yield entry
            parent = entry.parent_snapshot_id
            if parent is None:
                return
            entry = next((s for s in earlier if s.snapshot_id == parent), None) or self.snapshot(parent)

    def snapshot(self, snapshot_id: int) -> SnapshotEntry | None:
        return next((s for s in reversed(self.snapshots) if s.snapshot_id == snapshot_id), None)


_WHAT = "is no metadata of an Iceberg table"
_GROWING = ("snapshots", "snapshot-log")
_NAMES = frozenset(f.encode_name for f in msgspec.structs.fields(TableMetadata)) - {"text"}


def read_metadata(store: ObjectStore, key: str, previous: TableMetadata | None = None) -> TableMetadata:
    """Reads the metadata file at a key; `previous` is an earlier one of the same table."""
    where = f"{store.url}/{key}"
    try:
        data = store.get(key)
    except NotFound as error:
        raise MissingFile(f"{where} is not there; name a metadata file of the table", path=where) from error
    return parse_metadata(data, where=where, previous=previous)


def parse_metadata(data: bytes, *, where: str, previous: TableMetadata | None = None) -> TableMetadata:
    """Parses the bytes of a metadata file, compressed or not."""
    text = _decompress(data, where) if data[:2] == _GZIP else data
    fields = json_record(text, dict[str, msgspec.Raw], path=where, what=_WHAT)
    raw = {name: bytes(part) for name, part in fields.items()}
    small = {name: msgspec.Raw(part) for name, part in raw.items() if name in _NAMES and name not in _GROWING}
    before: Mapping[str, bytes] = {} if previous is None else previous.text
    snapshots, log = ((), ()) if previous is None else (previous.snapshots, previous.snapshot_log)
    metadata = msgspec.structs.replace(
        json_record(msgspec.json.encode(small), TableMetadata, path=where, what=_WHAT),
        snapshots=_parse_growing("snapshots", raw, tuple[SnapshotEntry, ...], before, snapshots, where),
        snapshot_log=_parse_growing("snapshot-log", raw, tuple[SnapshotLogEntry, ...], before, log, where),
        text=raw,
    )
    if not 1 <= metadata.format_version <= NEWEST:
        raise Unsupported(
            f"{where} is of format version {metadata.format_version}; Holdfast reads versions 1 to {NEWEST}",
            features=(f"format-version {metadata.format_version}",),
        )
    return _normalized(metadata, where)


def _parse_growing(
    name: str,
    raw: Mapping[str, bytes],
    type_: type[tuple[_Item, ...]],
    previous: Mapping[str, bytes],
    items: tuple[_Item, ...],
    where: str,
) -> tuple[_Item, ...]:
    """Parses a list of the file; where its text continues the previous one, which has `items`, only the rest."""
    text, before = raw.get(name, b"[]"), previous.get(name, b"")
    if items and text.startswith(before[:-1]):
        if len(text) == len(before):
            return items
        if text[len(before) - 1 : len(before)] == b",":
            return (*items, *json_record(b"[" + text[len(before) :], type_, path=where, what=_WHAT))
    return json_record(text, type_, path=where, what=_WHAT)


def _decompress(data: bytes, where: str) -> bytes:
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    with parsing(where, _WHAT):
        text = stream.decompress(data, len(data) * _LARGEST_RATIO)
        if not stream.eof:
            raise ValueError(f"it is cut short, or grows beyond {_LARGEST_RATIO} times its size")
    return text


def _normalized(metadata: TableMetadata, where: str) -> TableMetadata:
    """Metadata of version 1 in the form of later versions."""
    schemas, current = metadata.schemas, metadata.current_schema_id
    if not schemas:
        if metadata.schema is None:
            raise Damaged(f"{where} has no schema", path=where)
        schemas, current = (metadata.schema,), int(metadata.schema.get("schema-id", 0))
    specs = metadata.partition_specs or ({"spec-id": 0, "fields": list(metadata.partition_spec or ())},)
    snapshot_id = None if metadata.current_snapshot_id == -1 else metadata.current_snapshot_id
    refs = dict(metadata.refs)
    if snapshot_id is not None:
        refs.setdefault(MAIN, SnapshotRef(snapshot_id))
    return msgspec.structs.replace(
        metadata,
        schemas=schemas,
        current_schema_id=current,
        partition_specs=specs,
        current_snapshot_id=snapshot_id,
        refs=refs,
    )
