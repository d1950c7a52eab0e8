"""A table's metadata file: its schemas, partition specs, snapshots and the names they go by.

1. Versions 1, 2 and 3 read as one shape: what version 1 says in the singular becomes a list of one.
2. What Holdfast does not know is left alone; a format version it does not know is refused.
3. Snapshots and their log are what grows. Those that an earlier file of the table began with, byte by byte, are not
   parsed again, so the next file costs what came since.
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
    """A snapshot as the metadata lists it."""

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
    """When a snapshot became the current one."""

    snapshot_id: int
    timestamp_ms: Long


class TableMetadata(msgspec.Struct, frozen=True, rename="kebab"):
    """What a metadata file says."""

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
    text: Mapping[str, bytes] = {}  # the file itself, by the names of its parts

    def schema_of(self, schema_id: int | None, where: str) -> dict[str, Any]:
        """A schema by its id, or the current one."""
        asked = self.current_schema_id if schema_id is None else schema_id
        for schema in self.schemas:
            if schema.get("schema-id", 0) == asked:
                return schema
        raise Damaged(f"{where} speaks of schema {asked} but does not have it", path=where, expected=str(asked))

    def ancestry(self, entry: SnapshotEntry | None) -> Iterator[SnapshotEntry]:
        """A snapshot and those it descends from, as far as they are kept, the newest first."""
        seen: set[int] = set()
        before = reversed(self.snapshots)  # most often a parent stands right before its child
        while entry is not None:
            if entry.snapshot_id in seen:
                path = f"snapshot {entry.snapshot_id} of {self.location}"
                raise Damaged(f"{path} descends from itself; restore an earlier metadata file", path=path)
            seen.add(entry.snapshot_id)
            yield entry
            parent = entry.parent_snapshot_id
            if parent is not None:
                entry = next((s for s in before if s.snapshot_id == parent), None) or self.snapshot(parent)
            else:
                entry = None

    def snapshot(self, snapshot_id: int) -> SnapshotEntry | None:
        return next((s for s in reversed(self.snapshots) if s.snapshot_id == snapshot_id), None)


_WHAT = "is no metadata of an Iceberg table"
_GROWING = ("snapshots", "snapshot-log")
_NAMES = frozenset(f.encode_name for f in msgspec.structs.fields(TableMetadata)) - {"text"}


def read_metadata(store: ObjectStore, key: str, known: TableMetadata | None = None) -> TableMetadata:
    """The metadata file at a key; `known` is what an earlier file of the table says."""
    where = f"{store.url}/{key}"
    try:
        data = store.get(key)
    except NotFound as error:
        raise MissingFile(f"{where} is not there; name a metadata file of the table", path=where) from error
    return parse_metadata(data, where=where, known=known)


def parse_metadata(data: bytes, *, where: str, known: TableMetadata | None = None) -> TableMetadata:
    """Metadata from the bytes of its file, compressed or not."""
    text = _unpacked(data, where, _WHAT) if data[:2] == _GZIP else data
    raw = {
        name: bytes(part) for name, part in json_record(text, dict[str, msgspec.Raw], path=where, what=_WHAT).items()
    }
    small = {name: msgspec.Raw(part) for name, part in raw.items() if name in _NAMES and name not in _GROWING}
    before: Mapping[str, bytes] = {} if known is None else known.text
    snapshots, log = ((), ()) if known is None else (known.snapshots, known.snapshot_log)
    found = msgspec.structs.replace(
        json_record(msgspec.json.encode(small), TableMetadata, path=where, what=_WHAT),
        snapshots=_grown("snapshots", raw, tuple[SnapshotEntry, ...], before, snapshots, where),
        snapshot_log=_grown("snapshot-log", raw, tuple[SnapshotLogEntry, ...], before, log, where),
        text=raw,
    )
    if not 1 <= found.format_version <= NEWEST:
        raise Unsupported(
            f"{where} is of format version {found.format_version}; Holdfast reads versions 1 to {NEWEST}",
            features=(f"format-version {found.format_version}",),
        )
    return _in_full(found, where)


def _grown(
    name: str,
    raw: Mapping[str, bytes],
    type_: type[tuple[_Item, ...]],
    known: Mapping[str, bytes],
    items: tuple[_Item, ...],
    where: str,
) -> tuple[_Item, ...]:
    """A list of the file; where it goes on after a known one, which has these items, only the rest is parsed."""
    text, before = raw.get(name, b"[]"), known.get(name, b"")
    if items and text.startswith(before[:-1]):
        if len(text) == len(before):
            return items
        if text[len(before) - 1 : len(before)] == b",":
            return (*items, *json_record(b"[" + text[len(before) :], type_, path=where, what=_WHAT))
    return json_record(text, type_, path=where, what=_WHAT)


def _unpacked(data: bytes, where: str, what: str) -> bytes:
    """The text of a compressed file, which is not much longer than any text of metadata would be."""
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
    with parsing(where, what):
        text = unpack.decompress(data, len(data) * _LARGEST_RATIO)
        if not unpack.eof:
            raise ValueError(f"it is cut short, or grows beyond {_LARGEST_RATIO} times its size")
    return text


def _in_full(found: TableMetadata, where: str) -> TableMetadata:
    schemas = found.schemas
    current = found.current_schema_id
    if not schemas:
        if found.schema is None:
            raise Damaged(f"{where} has no schema", path=where)
        schemas, current = (found.schema,), int(found.schema.get("schema-id", 0))
    specs = found.partition_specs or ({"spec-id": 0, "fields": list(found.partition_spec or ())},)
    snapshot_id = None if found.current_snapshot_id == -1 else found.current_snapshot_id
    refs = dict(found.refs)
    if snapshot_id is not None:
        refs.setdefault(MAIN, SnapshotRef(snapshot_id))
    return msgspec.structs.replace(
        found,
        schemas=schemas,
        current_schema_id=current,
        partition_specs=specs,
        current_snapshot_id=snapshot_id,
        refs=refs,
    )
