"""Manifests in the making: entries that are new, those of manifests that lose some, and the list over all of them.

1. A manifest is written anew only where an entry of it goes, or is told anew; its other entries say outright what they
   inherited: their sequence numbers, their snapshots, and in version 3 their first row ids.
2. In the list, a data manifest without a first row id gets the next one, and the count goes on by all of its live rows;
   one that has an id keeps it, and a delete manifest never has one.
3. A manifest none of whose files is live is left out of the next list; that it has none it says itself, whatever the
   list counts.
4. Where many small data manifests of one spec have come together, they become one, unless the table says not to.
5. A manifest says nothing of the commit it lands with but the snapshot's id; a sequence number that is None in what is
   to be listed is that of the commit.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged, Unsupported
from holdfast.formats.iceberg.avro.reader import read_container, read_same_schema
from holdfast.formats.iceberg.avro.writer import SYNC_BYTES, write_container
from holdfast.formats.iceberg.commit.avro_schemas import entry_schema, list_schema
from holdfast.formats.iceberg.commit.drafts import Drafts, ManifestRow
from holdfast.formats.iceberg.commit.partition_summaries import summaries
from holdfast.formats.iceberg.metadata.fetch import each
from holdfast.formats.iceberg.metadata.manifests import DATA, DELETES, ManifestEntries, ManifestFile, fetch_file
from holdfast.formats.iceberg.metadata.partition_spec import PartitionSpec
from holdfast.formats.iceberg.metadata.table_metadata import ROW_IDS_SINCE
from holdfast.formats.iceberg.state import IcebergState
from holdfast.storage.open import place

EXISTING, ADDED, DELETED = 0, 1, 2  # statuses of an entry
_OLD_NAMES = {  # what lists of version 1 call their counts
    "added_files_count": "added_data_files_count",
    "existing_files_count": "existing_data_files_count",
    "deleted_files_count": "deleted_data_files_count",
}
_COUNTS = ("added", "existing", "deleted")


@dataclass(frozen=True)
class ManifestWriter:
    """Where the manifests of one attempt go, and what they say of themselves."""

    state: IcebergState
    snapshot_id: int
    sequence: int
    name: str  # of the attempt, in the names of its files
    schema: Mapping[str, Any]  # that the table has once the attempt is taken
    drafts: Drafts = field(default_factory=Drafts)

    @property
    def version(self) -> int:
        return self.state.metadata.format_version

    def put(self, path: str, data: bytes) -> None:
        """Write a file of the table."""
        store, key = place(self.state.paths.location, self.state.paths.key(path))
        self.drafts.written.append(path)  # also if that fails: it may be there all the same
        store.put(key, data)

    def manifest(
        self, content: int, spec_id: int, tuples: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Write a manifest; gives what the list says of it."""
        metadata = self.state.metadata
        path = f"{metadata_folder(self.state)}/{self.name}-m{len(self.drafts.written)}.avro"
        schema = self.schema
        spec = next(s for s in metadata.partition_specs if int(s.get("spec-id", 0)) == spec_id)
        notes = {
            "schema": json.dumps(schema),
            "schema-id": str(schema.get("schema-id", 0)),
            "partition-spec": json.dumps(spec["fields"]),
            "partition-spec-id": str(spec_id),
            "format-version": str(self.version),
            "content": "deletes" if content == DELETES else "data",
        }
        data = write_container(entry_schema(tuples, self.version), entries, notes, sync=_sync(self.name))
        self.put(path, data)
        known = (e.get("sequence_number") for e in entries if e["status"] != DELETED)
        return {
            "manifest_path": path,
            "manifest_length": len(data),
            "partition_spec_id": spec_id,
            "content": content,
            "sequence_number": None,
            "min_sequence_number": min((number for number in known if number is not None), default=None),
            "added_snapshot_id": self.snapshot_id,
            "partitions": summaries(tuples, [entry["data_file"]["partition"] for entry in entries]),
            **_counted(entries),
        }

    def of_new(
        self, content: int, spec_id: int, tuples: Mapping[str, Any], files: Sequence[Mapping[str, Any]]
    ) -> ManifestRow:
        """Write a manifest of new files; gives what the list says of it."""
        names: Hashable = tuple((file["file_path"], file.get("content_offset")) for file in files)
        entries = [self.added(file) for file in files]
        key = ("new", content, spec_id, names, self._schema_id)
        return self.drafts.once(key, lambda: self.manifest(content, spec_id, tuples, entries))

    @property
    def _schema_id(self) -> int:
        return int(self.schema.get("schema-id", 0))

    def without(self, listed: ManifestEntries, gone: Sequence[bool]) -> ManifestRow:
        """Write a manifest anew in which some of its live entries are deleted ones; gives what the list says of it."""

        def made() -> dict[str, Any]:
            deleted = {"status": DELETED, "snapshot_id": self.snapshot_id}
            entries = [
                {**entry, **deleted} if dead else entry for entry, dead in zip(self._live(listed), gone, strict=True)
            ]
            return self.manifest(
                listed.manifest.content, listed.spec_id, stored_tuple_schema(listed.avro_schema), entries
            )

        return self.drafts.once(("without", listed.manifest, tuple(gone), self._schema_id), made)

    def again(self, listed: ManifestEntries, back: Sequence[bool]) -> dict[str, Any]:
        """Write a manifest with some entries of another, which come back; gives what the list says of it."""
        new = {"status": ADDED, "snapshot_id": self.snapshot_id, "file_sequence_number": None}
        entries = [{**entry, **new} for entry, comes in zip(self._live(listed), back, strict=True) if comes]
        return self.manifest(listed.manifest.content, listed.spec_id, stored_tuple_schema(listed.avro_schema), entries)

    def retold(
        self, listed: ManifestEntries, exact: Mapping[str, pa.Array], counts: Sequence[int | None] | None = None
    ) -> dict[str, Any]:
        """Write a manifest anew with other values in its tuples, by the names they are stored under; null: as it is.

        `counts` are row counts of its files, None where the one that is said stays.
        """
        entries = self._live(listed)
        for entry, count in zip(entries, counts or [None] * len(entries), strict=True):  # one per file
            if count is not None:
                entry["data_file"]["record_count"] = count
        for name, values in exact.items():
            for entry, value in zip(entries, values.to_pylist(), strict=True):  # one per file
                if value is not None:
                    entry["data_file"]["partition"][name] = value
        return self.manifest(listed.manifest.content, listed.spec_id, stored_tuple_schema(listed.avro_schema), entries)

    def merged(self, some: Sequence[ManifestFile], spec: PartitionSpec) -> ManifestRow:
        """Write manifests of one spec as one; gives what the list says of it."""
        alike = self._alike(some)
        if alike is not None:
            return self.manifest(DATA, spec.spec_id, *alike)
        listed = self.state.contents.only(some).listed
        tuples, entries = stored_tuple_schema(listed[0].avro_schema), []
        for one in listed:
            for row, entry in enumerate(self._live(one)):  # one per file
                entry["data_file"]["partition"] = tuple_at(one, row, spec, tuples)
                entries.append(entry)
        return self.manifest(DATA, spec.spec_id, tuples, entries)

    def _alike(self, some: Sequence[ManifestFile]) -> tuple[Mapping[str, Any], list[dict[str, Any]]] | None:
        """The tuples and the live entries of manifests that one writer wrote, said outright; None: look at each."""
        paths = self.state.paths
        read = read_same_schema(list(each(paths.location, lambda one: fetch_file(paths, one.path), some)))
        if read is None or "status" not in read[0].records.type.names:
            return None
        records, made = iter(read[0].records.to_pylist()), []
        for manifest, count in zip(some, read[1], strict=True):
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
                made.append(
                    _outright(entry, manifest, manifest.sequence_number if sequence is None else sequence, first)
                )
                live += 1
            if live != manifest.files:
                return None
        return stored_tuple_schema(read[0].header["avro.schema"]), made

    def _live(self, listed: ManifestEntries) -> list[dict[str, Any]]:
        """The live entries of a manifest as another one says them: outright, whatever they inherited."""
        manifest = listed.manifest
        raw = read_container(fetch_file(self.state.paths, manifest.path), where=manifest.path).records
        live = raw.filter(pc.not_equal(raw.field("status"), DELETED)).to_pylist()
        sequences, row_ids = (listed.entries[name].to_pylist() for name in ("sequence_number", "first_row_id"))
        return [_outright(entry, manifest, *told) for entry, *told in zip(live, sequences, row_ids, strict=True)]

    def added(self, file: Mapping[str, Any]) -> dict[str, Any]:
        """An entry of a new file: what depends on the commit it inherits."""
        return {"status": ADDED, "snapshot_id": self.snapshot_id, "data_file": file}

    def manifest_list(
        self, manifests: Iterable[Mapping[str, Any]], *, mark: int | None = None
    ) -> tuple[str, int | None, int | None]:
        """Write the list; gives its path, and in version 3 the first row id of the snapshot and how many it takes.

        Row ids up to a `mark` count as taken: what the snapshot takes begins where the table's count is, and what is
        given out beyond the mark, because a catalog only ever adds the one to the other.
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
        notes = {
            "snapshot-id": str(self.snapshot_id),
            "parent-snapshot-id": "null" if parent is None else str(parent.snapshot_id),
            "sequence-number": str(self.sequence),
            **({} if first is None else {"first-row-id": str(first)}),
            "format-version": str(self.version),
        }
        turn = max(1, self.drafts.attempts)
        path = f"{metadata_folder(self.state)}/snap-{self.snapshot_id}-{turn}-{self.name}.avro"
        self.put(path, write_container(list_schema(self.version), rows, notes, sync=_sync(self.name)))
        return path, first, None if start is None or first is None else start - first


def manifest_list_rows(state: IcebergState) -> list[dict[str, Any]]:
    """What the list of a state says of its manifests, those without a live file left out."""
    if state.entry is None:
        return []
    if state.contents.records is None:
        raise Unsupported(f"{state.metadata_path} lists its manifests one by one, as version 1 did: rewrite it first")
    rows = [_complete(row) for row in state.contents.records.to_pylist()]  # one per manifest
    return [row for row in rows if row["added_files_count"] or row["existing_files_count"] or _holds(state, row)]


def _holds(state: IcebergState, row: Mapping[str, Any]) -> bool:
    """Whether a manifest that its list counts as empty has a live file all the same."""
    path = row["manifest_path"]
    one = next(one for one in state.contents.manifests if one.path == path)
    return len(state.contents.only([one]).listed[0]) > 0


def _outright(entry: Mapping[str, Any], manifest: ManifestFile, sequence: int, first: int | None) -> dict[str, Any]:
    """A live entry as another manifest says it."""
    file, of_file, author = entry["data_file"], entry.get("file_sequence_number"), entry.get("snapshot_id")
    return {
        "status": EXISTING,
        "snapshot_id": manifest.added_snapshot_id if author is None else author,
        "sequence_number": sequence,
        "file_sequence_number": manifest.sequence_number if of_file is None else of_file,
        "data_file": {**file, "content": file.get("content") or 0, "first_row_id": first},
    }


def stored_tuple_schema(written_as: bytes) -> Mapping[str, Any]:
    """How the tuples of a manifest are stored, whose schema its writer said so."""
    schema = msgspec.json.decode(written_as)
    for name in ("data_file", "partition"):
        inner = next(f["type"] for f in schema["fields"] if f["name"] == name)
        # BigQuery lets a file be null, and Sail a tuple, so that its type is a choice of two.
        schema = inner if isinstance(inner, dict) else next(t for t in inner if isinstance(t, dict))
    record: Mapping[str, Any] = schema
    return record


def tuple_at(listed: ManifestEntries, row: int, spec: PartitionSpec, tuples: Mapping[str, Any]) -> dict[str, Any]:
    """The tuple of an entry, as a manifest with these tuples stores it."""
    names = {f.get("field-id"): f["name"] for f in tuples["fields"]}
    made = {}
    for f in spec.fields:
        column = listed.partition_column(f.field_id, f.name)
        made[names.get(f.field_id, f.name)] = None if column is None else column[row].as_py()
    return made


def metadata_folder(state: IcebergState) -> str:
    """Where metadata files of a table go."""
    asked = state.metadata.properties.get("write.metadata.path")
    return asked.rstrip("/") if asked else f"{state.metadata.location.rstrip('/')}/metadata"


def _complete(row: dict[str, Any]) -> dict[str, Any]:
    filled = {**row, "content": row.get("content") or DATA}
    for kind in _COUNTS:
        name, rows = f"{kind}_files_count", f"{kind}_rows_count"
        filled[name] = _known(row, name, row.get(_OLD_NAMES[name]))
        filled[rows] = _known(row, rows, None)
    filled["sequence_number"] = row.get("sequence_number") or 0
    filled["min_sequence_number"] = row.get("min_sequence_number") or 0
    return filled


def _known(row: Mapping[str, Any], name: str, otherwise: Any) -> int:
    found = row.get(name)
    found = otherwise if found is None else found
    if found is None:
        raise Unsupported(
            f"the manifest list says no {name} of {row.get('manifest_path')}: rewrite the manifests first"
        )
    return int(found)


def _counted(entries: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    made = {}
    for kind, status in zip(_COUNTS, (ADDED, EXISTING, DELETED), strict=True):
        of = [e["data_file"]["record_count"] for e in entries if e["status"] == status]
        made[f"{kind}_files_count"], made[f"{kind}_rows_count"] = len(of), sum(of)
    return made


def _sync(name: str) -> bytes:
    return bytes.fromhex(name.replace("-", ""))[:SYNC_BYTES]
