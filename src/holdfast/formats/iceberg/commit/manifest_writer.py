"""Writes the manifests and the manifest list of a commit attempt.

1. An existing manifest is rewritten only where entries of it are deleted or corrected. The entries that stay then state
   what they inherited: sequence numbers, snapshot ids, and in version 3 first row ids.
2. In the manifest list, a data manifest without a first row id gets the next one, and the next id advances by all of
   its live rows; a manifest that has a first row id keeps it, and a delete manifest never has one.
3. A manifest without live files is not in the next manifest list. Its own entries decide, whatever the list counts.
4. Many small data manifests of one spec are merged, unless the table's properties forbid it.
5. Of its commit a manifest states only the snapshot id. A sequence number of None in a row for the manifest list
   stands for that of the commit.
6. Field summaries bound every value of every entry and report nulls and NaN. Bounds are in binary: numbers
   little-endian, decimals big-endian and as short as possible.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged, Unsupported
from holdfast.formats.iceberg.avro.reader import read_container, read_same_schema
from holdfast.formats.iceberg.avro.writer import SYNC_BYTES, AvroSchema, write_container
from holdfast.formats.iceberg.commit.avro_schemas import entry_schema, list_schema
from holdfast.formats.iceberg.commit.drafts import Drafts, ManifestRow
from holdfast.formats.iceberg.metadata.manifests import DATA, DELETES, ManifestEntries, ManifestFile, fetch_file
from holdfast.formats.iceberg.metadata.partition_spec import PartitionSpec
from holdfast.formats.iceberg.metadata.table_metadata import ROW_IDS_SINCE
from holdfast.formats.iceberg.state import IcebergState
from holdfast.parquet.partition_transforms import shortest
from holdfast.storage.open import place
from holdfast.storage.prefetch import each

EXISTING, ADDED, DELETED = 0, 1, 2  # statuses of an entry
_LAYOUTS = {"int": "<i", "long": "<q", "float": "<f", "double": "<d"}  # of bounds
_STATUSES = {"added": ADDED, "existing": EXISTING, "deleted": DELETED}


@dataclass(frozen=True)
class ManifestWriter:
    """Writes the manifests of one attempt; each method returns the manifest's row for the manifest list."""

    state: IcebergState
    snapshot_id: int
    sequence: int
    name: str  # of the attempt, in the names of its files
    schema: Mapping[str, Any]  # of the table after the attempt
    drafts: Drafts = field(default_factory=Drafts)

    @property
    def version(self) -> int:
        return self.state.metadata.format_version

    def put(self, path: str, data: bytes) -> None:
        """Writes a file of the table."""
        store, key = place(self.state.paths.location, self.state.paths.key(path))
        self.drafts.written.append(path)  # before the put, because a put that fails may have stored the file
        store.put(key, data)

    def write_manifest(
        self, content: int, spec_id: int, tuple_schema: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Writes a manifest of some entries."""
        path = f"{metadata_folder(self.state)}/{self.name}-m{len(self.drafts.written)}.avro"
        spec = next(s for s in self.state.metadata.partition_specs if int(s.get("spec-id", 0)) == spec_id)
        header = {
            "schema": json.dumps(self.schema),
            "schema-id": str(self.schema.get("schema-id", 0)),
            "partition-spec": json.dumps(spec["fields"]),
            "partition-spec-id": str(spec_id),
            "format-version": str(self.version),
            "content": "deletes" if content == DELETES else "data",
        }
        data = write_container(entry_schema(tuple_schema, self.version), entries, header, sync=_sync(self.name))
        self.put(path, data)
        sequences = (e.get("sequence_number") for e in entries if e["status"] != DELETED)
        return {
            "manifest_path": path,
            "manifest_length": len(data),
            "partition_spec_id": spec_id,
            "content": content,
            "sequence_number": None,
            "min_sequence_number": min((number for number in sequences if number is not None), default=None),
            "added_snapshot_id": self.snapshot_id,
            "partitions": field_summaries(tuple_schema, [entry["data_file"]["partition"] for entry in entries]),
            **_counts(entries),
        }

    def write_added(
        self, content: int, spec_id: int, tuple_schema: Mapping[str, Any], files: Sequence[Mapping[str, Any]]
    ) -> ManifestRow:
        """Writes a manifest of new files, unless an earlier attempt has."""
        names = tuple((file["file_path"], file.get("content_offset")) for file in files)
        entries = [self.added_entry(file) for file in files]
        key = ("new", content, spec_id, names, self.schema.get("schema-id", 0))
        return self.drafts.once(key, lambda: self.write_manifest(content, spec_id, tuple_schema, entries))

    def added_entry(self, file: Mapping[str, Any]) -> dict[str, Any]:
        """The entry of a new file, which inherits what depends on the commit."""
        return {"status": ADDED, "snapshot_id": self.snapshot_id, "data_file": file}

    def write_without(self, listed: ManifestEntries, deleted: Sequence[bool]) -> ManifestRow:
        """Rewrites a manifest with some of its live entries deleted, unless an earlier attempt has."""

        def write() -> dict[str, Any]:
            change = {"status": DELETED, "snapshot_id": self.snapshot_id}
            live = zip(self._live(listed), deleted, strict=True)
            return self._rewrite(listed, [{**entry, **change} if gone else entry for entry, gone in live])

        return self.drafts.once(("without", listed.manifest, tuple(deleted), self.schema.get("schema-id", 0)), write)

    def write_restored(self, listed: ManifestEntries, chosen: Sequence[bool]) -> ManifestRow:
        """Writes a manifest that adds some entries of an earlier manifest again."""
        change = {"status": ADDED, "snapshot_id": self.snapshot_id, "file_sequence_number": None}
        live = zip(self._live(listed), chosen, strict=True)
        return self._rewrite(listed, [{**entry, **change} for entry, comes_back in live if comes_back])

    def write_corrected(
        self, listed: ManifestEntries, partition_values: Mapping[str, pa.Array], counts: Sequence[int | None]
    ) -> ManifestRow:
        """Rewrites a manifest with other partition values, by stored field name, and record counts; null: unchanged."""
        entries = self._live(listed)
        for entry, count in zip(entries, counts, strict=True):  # one per file
            if count is not None:
                entry["data_file"]["record_count"] = count
        for name, values in partition_values.items():
            for entry, value in zip(entries, values.to_pylist(), strict=True):  # one per file
                if value is not None:
                    entry["data_file"]["partition"][name] = value
        return self._rewrite(listed, entries)

    def write_merged(self, manifests: Sequence[ManifestFile], spec: PartitionSpec) -> ManifestRow:
        """Merges manifests of one spec."""
        same = self._live_of_same_schema(manifests)
        if same is not None:
            return self.write_manifest(DATA, spec.spec_id, *same)
        listed = self.state.contents.only(manifests).listed
        tuple_schema, entries = stored_tuple_schema(listed[0].avro_schema), []
        for one in listed:
            for row, entry in enumerate(self._live(one)):  # one per file
                entry["data_file"]["partition"] = tuple_at(one, row, spec, tuple_schema)
                entries.append(entry)
        return self.write_manifest(DATA, spec.spec_id, tuple_schema, entries)

    def _rewrite(self, listed: ManifestEntries, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        schema = stored_tuple_schema(listed.avro_schema)
        return self.write_manifest(listed.manifest.content, listed.spec_id, schema, entries)

    def _live_of_same_schema(
        self, manifests: Sequence[ManifestFile]
    ) -> tuple[Mapping[str, Any], list[dict[str, Any]]] | None:
        """The tuple schema and the live entries of manifests with the same writer schema; None: read each by itself."""
        paths = self.state.paths
        read = read_same_schema(list(each(paths.location.store, lambda one: fetch_file(paths, one.path), manifests)))
        if read is None or "status" not in read[0].records.type.names:
            return None
        records, entries = iter(read[0].records.to_pylist()), []
        for manifest, count in zip(manifests, read[1], strict=True):
            row_id, live = manifest.first_row_id, 0
            for entry in islice(records, count):  # one per file
                if entry["status"] == DELETED:
                    continue
                file, sequence = entry["data_file"], entry.get("sequence_number")
                if sequence is None and entry["status"] == EXISTING:
                    return None
                first = file.get("first_row_id")
                if row_id is None:
                    first = None
                elif first is None:
                    first, row_id = row_id, row_id + file["record_count"]
                number = manifest.sequence_number if sequence is None else sequence
                entries.append(_existing_entry(entry, manifest, number, first))
                live += 1
            if live != manifest.files:
                return None
        return stored_tuple_schema(read[0].header["avro.schema"]), entries

    def _live(self, listed: ManifestEntries) -> list[dict[str, Any]]:
        """The live entries of a manifest as existing ones, with everything that they inherited."""
        manifest = listed.manifest
        raw = read_container(fetch_file(self.state.paths, manifest.path), where=manifest.path).records
        live = raw.filter(pc.not_equal(raw.field("status"), DELETED)).to_pylist()
        inherited = (listed.entries[name].to_pylist() for name in ("sequence_number", "first_row_id"))
        return [_existing_entry(entry, manifest, *values) for entry, *values in zip(live, *inherited, strict=True)]

    def write_manifest_list(
        self, manifests: Iterable[Mapping[str, Any]], *, mark: int | None = None
    ) -> tuple[str, int | None, int | None]:
        """Writes the manifest list; returns its path, and in version 3 the snapshot's first row id and added rows.

        Row ids up to `mark` count as assigned. They are part of the added rows, because a catalog computes the next row
        id as first row id plus added rows.
        """
        metadata, parent = self.state.metadata, self.state.entry
        first = start = metadata.next_row_id if self.version >= ROW_IDS_SINCE else None
        if first is None and self.version >= ROW_IDS_SINCE:
            where = self.state.metadata_path
            raise Damaged(f"{where} has no next-row-id, so no row can be given an id", path=where)
        if start is not None and mark is not None:
            start = max(start, mark + 1)
        rows = []
        for one in manifests:
            row = dict(one)
            for name in ("sequence_number", "min_sequence_number"):
                row[name] = self.sequence if row[name] is None else row[name]
            if start is not None and row["content"] == DATA and row.get("first_row_id") is None:
                row["first_row_id"] = start
                start += row["added_rows_count"] + row["existing_rows_count"]
            if row["content"] == DELETES:
                row["first_row_id"] = None
            rows.append(row)
        header = {
            "snapshot-id": str(self.snapshot_id),
            "parent-snapshot-id": "null" if parent is None else str(parent.snapshot_id),
            "sequence-number": str(self.sequence),
            **({} if first is None else {"first-row-id": str(first)}),
            "format-version": str(self.version),
        }
        turn = max(1, self.drafts.attempts)
        path = f"{metadata_folder(self.state)}/snap-{self.snapshot_id}-{turn}-{self.name}.avro"
        self.put(path, write_container(list_schema(self.version), rows, header, sync=_sync(self.name)))
        return path, first, None if start is None or first is None else start - first


def manifest_list_rows(state: IcebergState) -> list[dict[str, Any]]:
    """The rows of a state's manifest list, without manifests that have no live file."""
    if state.entry is None:
        return []
    if state.contents.records is None:
        raise Unsupported(f"{state.metadata_path} lists its manifests one by one, as version 1 did: rewrite it first")
    rows = [_complete(row) for row in state.contents.records.to_pylist()]  # one per manifest
    return [row for row in rows if row["added_files_count"] or row["existing_files_count"] or _has_live(state, row)]


def _has_live(state: IcebergState, row: Mapping[str, Any]) -> bool:
    """Whether a manifest that the manifest list counts as empty has a live file."""
    one = next(one for one in state.contents.manifests if one.path == row["manifest_path"])
    return len(state.contents.only([one]).listed[0]) > 0


def _existing_entry(
    entry: Mapping[str, Any], manifest: ManifestFile, sequence: int, first_row_id: int | None
) -> dict[str, Any]:
    """A live entry for another manifest, with everything that it inherited from its own."""
    file, file_sequence, snapshot_id = entry["data_file"], entry.get("file_sequence_number"), entry.get("snapshot_id")
    return {
        "status": EXISTING,
        "snapshot_id": manifest.added_snapshot_id if snapshot_id is None else snapshot_id,
        "sequence_number": sequence,
        "file_sequence_number": manifest.sequence_number if file_sequence is None else file_sequence,
        "data_file": {**file, "content": file.get("content") or 0, "first_row_id": first_row_id},
    }


def stored_tuple_schema(avro_schema: bytes) -> Mapping[str, Any]:
    """The schema of the partition tuples of a manifest with this writer schema."""
    schema = msgspec.json.decode(avro_schema)
    for name in ("data_file", "partition"):
        inner = next(f["type"] for f in schema["fields"] if f["name"] == name)
        # In BigQuery's manifests the file is nullable, in Sail's the tuple: a union of two types.
        schema = inner if isinstance(inner, dict) else next(t for t in inner if isinstance(t, dict))
    record: Mapping[str, Any] = schema
    return record


def tuple_at(listed: ManifestEntries, row: int, spec: PartitionSpec, tuple_schema: Mapping[str, Any]) -> dict[str, Any]:
    """The partition tuple of an entry, for a manifest with this tuple schema."""
    names = {f.get("field-id"): f["name"] for f in tuple_schema["fields"]}
    columns = {names.get(f.field_id, f.name): listed.partition_column(f.field_id, f.name) for f in spec.fields}
    return {name: None if column is None else column[row].as_py() for name, column in columns.items()}


def metadata_folder(state: IcebergState) -> str:
    """The folder for metadata files of a table."""
    folder = state.metadata.properties.get("write.metadata.path")
    return folder.rstrip("/") if folder else f"{state.metadata.location.rstrip('/')}/metadata"


def _complete(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a manifest list of any version, with all counts and sequence numbers."""
    complete = {**row, "content": row.get("content") or DATA}
    for name in (f"{kind}_{what}_count" for kind in _STATUSES for what in ("files", "rows")):
        count = row.get(name)
        if count is None:
            count = row.get(name.replace("_files", "_data_files"))  # as version 1 calls it
        if count is None:
            raise Unsupported(
                f"the manifest list says no {name} of {row.get('manifest_path')}: rewrite the manifests first"
            )
        complete[name] = int(count)
    for name in ("sequence_number", "min_sequence_number"):
        complete[name] = row.get(name) or 0
    return complete


def _counts(entries: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    counts = {}
    for kind, status in _STATUSES.items():
        rows = [e["data_file"]["record_count"] for e in entries if e["status"] == status]
        counts[f"{kind}_files_count"], counts[f"{kind}_rows_count"] = len(rows), sum(rows)
    return counts


def _sync(name: str) -> bytes:
    return bytes.fromhex(name.replace("-", ""))[:SYNC_BYTES]


def field_summaries(
    tuple_schema: Mapping[str, Any], tuples: Sequence[Mapping[str, Any]]
) -> list[dict[str, bool | bytes | None]]:
    """A summary per partition field of these tuples, whose values are in Avro's types."""
    return [_summary(f["type"], [one.get(f["name"]) for one in tuples]) for f in tuple_schema["fields"]]


def _summary(type_: AvroSchema, values: Sequence[Any]) -> dict[str, bool | bytes | None]:
    if isinstance(type_, list):
        return _summary(next(one for one in type_ if one != "null"), values)
    kind, logical = (type_, None) if isinstance(type_, str) else (str(type_["type"]), type_.get("logicalType"))
    present = [value for value in values if value is not None]
    has_nan = False
    if kind in ("float", "double"):
        has_nan = any(math.isnan(value) for value in present)
        present = [value for value in present if not math.isnan(value)]
    low = high = None
    if present and logical == "decimal":
        numbers = [int.from_bytes(value, "big", signed=True) for value in present]
        low, high = shortest(min(numbers)), shortest(max(numbers))
    elif present:
        low, high = _bytes(kind, min(present), is_low=True), _bytes(kind, max(present), is_low=False)
    return {"contains_null": None in values, "contains_nan": has_nan, "lower_bound": low, "upper_bound": high}


def _bytes(kind: str, value: float | str | bytes, *, is_low: bool) -> bytes:
    match value:
        case bool():
            return b"\x01" if value else b"\x00"
        case str():
            return value.encode()
        case bytes():
            return value
        case float() if value == 0:  # the zeros of a float are two values, and the negative one is the smaller
            return struct.pack(_LAYOUTS[kind], -0.0 if is_low else 0.0)
        case _:
            return struct.pack(_LAYOUTS[kind], value)
