"""Builds Iceberg tables file by file, so that tests can have metadata that no writer would write."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from holdfast.rows import bitmap
from holdfast.storage.open import open_location
from tests.formats.iceberg.avro_containers import container
from tests.support.gateway import placed

FILE_PATH, POS, ROW_ID, UPDATED = 2147483546, 2147483545, 2147483540, 2147483539
ADDED, EXISTING, DELETED = 1, 0, 2
_AVRO = {
    "int": "int",
    "long": "long",
    "string": "string",
    "date": "int",
    "timestamp": "long",
    "timestamptz": "long",
    "double": "double",
    "float": "float",
    "boolean": "boolean",
    "binary": "bytes",
}
_PACK = {"int": "<i", "long": "<q", "double": "<d", "float": "<f", "date": "<i", "timestamp": "<q"}

Entry = dict[str, Any]


@dataclass
class Smith:
    """A table in the making. Columns and partition fields are given as the metadata has them."""

    root: str  # a path or URL
    columns: Sequence[Mapping[str, Any]]
    specs: list[list[dict[str, Any]]] = field(default_factory=lambda: [[]])
    version: int = 2
    properties: dict[str, str] = field(default_factory=dict)
    spelled: str | None = None  # the root as metadata spells it, where that is not where the files are
    schemas: list[dict[str, Any]] = field(default_factory=list)
    snapshots: list[dict[str, Any]] = field(default_factory=list)
    refs: dict[str, dict[str, Any]] = field(default_factory=dict)
    next_row_id: int = 0
    sequence: int = 0
    _number: int = 0
    _manifests: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.schemas.append({"type": "struct", "schema-id": 0, "fields": list(self.columns)})

    @property
    def location(self) -> str:
        return self.spelled or placed(self.root)

    def put(self, name: str, data: bytes) -> str:
        """Write a file, and say how metadata spells its path."""
        place = open_location(f"{self.root}/{name}")
        place.store.put(place.directory, data)
        return f"{self.location}/{name}"

    def evolve(self, columns: Sequence[Mapping[str, Any]]) -> None:
        self.schemas.append({"type": "struct", "schema-id": len(self.schemas), "fields": list(columns)})

    def data(
        self,
        rows: Mapping[str, Any],
        *,
        partition: Mapping[str, Any] | None = None,
        spec: int = 0,
        ids: Mapping[str, int] | None = None,
        name: str | None = None,
        row_ids: Sequence[int | None] | None = None,
        updated: Sequence[int | None] | None = None,
        with_ids: bool = True,
        group_rows: int | None = None,
    ) -> Entry:
        """A data file; `ids` gives field ids by name where they are not the current schema's."""
        numbers = ids or {f["name"]: f["id"] for f in self.schemas[-1]["fields"]}
        arrays, fields = [], []
        for column, values in rows.items():
            array = values if isinstance(values, pa.Array) else pa.array(values)
            arrays.append(array)
            fields.append(_field(column, array.type, numbers[column] if with_ids else None))
        for column, number, values in (
            ("_row_id", ROW_ID, row_ids),
            ("_last_updated_sequence_number", UPDATED, updated),
        ):
            if values is not None:
                arrays.append(pa.array(values, pa.int64()))
                fields.append(_field(column, pa.int64(), number))
        table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
        self._number += 1
        path, size = self._parquet(name or f"data/f{self._number}.parquet", table, group_rows)
        types = {f["id"]: f["type"] for s in self.schemas for f in s["fields"]}
        bounds = {numbers[c]: _bounds(table[c], types.get(numbers[c])) for c in rows if with_ids}
        return {
            "content": 0,
            "file_path": path,
            "file_format": "PARQUET",
            "partition": dict(partition or {}),
            "record_count": table.num_rows,
            "file_size_in_bytes": size,
            "spec": spec,
            "null_value_counts": [{"key": numbers[c], "value": table[c].null_count} for c in rows],
            "lower_bounds": [{"key": k, "value": b[0]} for k, b in bounds.items() if b],
            "upper_bounds": [{"key": k, "value": b[1]} for k, b in bounds.items() if b],
        }

    def positions(self, places: Sequence[tuple[str, int]], *, like: Entry | None = None, one: bool = False) -> Entry:
        """A position-delete file; placed as a data file is, and said to be about one where that is asked for."""
        schema = pa.schema([_field("file_path", pa.string(), FILE_PATH), _field("pos", pa.int64(), POS)])
        table = pa.Table.from_arrays(
            [pa.array([p for p, _ in places]), pa.array([n for _, n in places], pa.int64())], schema=schema
        )
        self._number += 1
        path, size = self._parquet(f"data/d{self._number}.parquet", table)
        return self._deletes(1, path, size, len(places), like) | ({"referenced_data_file": places[0][0]} if one else {})

    def equality(self, ids: Mapping[str, int], rows: Mapping[str, Any], *, like: Entry | None = None) -> Entry:
        """An equality-delete file over some columns."""
        arrays = [v if isinstance(v, pa.Array) else pa.array(v) for v in rows.values()]
        schema = pa.schema([_field(n, a.type, ids[n]) for n, a in zip(rows, arrays, strict=True)])
        table = pa.Table.from_arrays(arrays, schema=schema)
        self._number += 1
        path, size = self._parquet(f"data/e{self._number}.parquet", table)
        return self._deletes(2, path, size, table.num_rows, like) | {"equality_ids": list(ids.values())}

    def vectors(self, hidden: Sequence[tuple[Entry, Sequence[int]]], *, bare: bool = False) -> list[Entry]:
        """Deletion vectors of some data files, together in one Puffin file."""
        body, places = bytearray(b"" if bare else b"PFA1"), []
        for _, positions in hidden:
            framed = bitmap.frame(bitmap.encode(BitMap64(positions)))
            places.append((len(body), len(framed)))
            body += framed
        if not bare:
            footer = json.dumps({"blobs": []}).encode()
            body += b"PFA1" + footer + struct.pack("<i", len(footer)) + b"\0\0\0\0PFA1"
        self._number += 1
        path = self.put(f"data/v{self._number}.puffin", bytes(body))
        return [
            self._deletes(1, path, len(body), len(positions), entry)
            | {
                "file_format": "PUFFIN",
                "referenced_data_file": entry["file_path"],
                "content_offset": at,
                "content_size_in_bytes": size,
            }
            for (entry, positions), (at, size) in zip(hidden, places, strict=True)
        ]

    def commit(
        self,
        data: Sequence[Entry] = (),
        deletes: Sequence[Entry] = (),
        *,
        drop: Sequence[Entry] = (),
        operation: str = "append",
        branch: str = "main",
        sequence: int | None = None,
        manifest_ids: bool = True,
    ) -> int:
        """A snapshot with these files more, and without those dropped; returns its id."""
        self.sequence = sequence if sequence is not None else self.sequence + 1
        self._number += 1
        snapshot_id = 1000 + self._number
        gone = {(e["file_path"], e.get("content_offset")) for e in drop}
        kept = [m for m in (self._without(m, gone, snapshot_id) for m in self._manifests) if m is not None]
        first = self.next_row_id
        for content, entries in ((0, data), (1, deletes)):
            for spec in sorted({e["spec"] for e in entries}):
                mine = [
                    {"status": ADDED, "snapshot_id": snapshot_id, "data_file": e} for e in entries if e["spec"] == spec
                ]
                kept.append(self._manifest(content, spec, mine, snapshot_id, self.sequence))
        if self.version >= 3 and manifest_ids:
            for m in kept:
                if m["content"] == 0 and m["first_row_id"] is None:
                    m["first_row_id"] = self.next_row_id
                    self.next_row_id += sum(
                        e["data_file"]["record_count"] for e in m["entries"] if e["status"] != DELETED
                    )
        self._manifests = kept
        listing = container(_LIST[self.version], kept, {"format-version": str(self.version)})
        path = self.put(f"metadata/snap-{snapshot_id}.avro", listing)
        entry: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "sequence-number": self.sequence,
            "timestamp-ms": 1_700_000_000_000 + 1000 * self._number,
            "manifest-list": path,
            "summary": {"operation": operation},
            "schema-id": len(self.schemas) - 1,
        }
        if branch in self.refs:
            entry["parent-snapshot-id"] = self.refs[branch]["snapshot-id"]
        if self.version >= 3:
            entry |= {"first-row-id": first, "added-rows": self.next_row_id - first}
        self.snapshots.append(entry)
        self.refs[branch] = {"snapshot-id": snapshot_id, "type": "branch"}
        return snapshot_id

    def tag(self, name: str, snapshot_id: int) -> None:
        self.refs[name] = {"snapshot-id": snapshot_id, "type": "tag"}

    def metadata(self, name: str = "v1.metadata.json") -> str:
        """Write the metadata file, and give its path (where it really is)."""
        main = self.refs.get("main", {}).get("snapshot-id")
        log = [{"snapshot-id": s["snapshot-id"], "timestamp-ms": s["timestamp-ms"]} for s in self.snapshots]
        body = {
            "format-version": self.version,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": self.location,
            "last-sequence-number": self.sequence,
            "last-updated-ms": 1_700_000_000_000,
            "last-column-id": 100,
            "schemas": self.schemas,
            "current-schema-id": len(self.schemas) - 1,
            "partition-specs": [{"spec-id": i, "fields": f} for i, f in enumerate(self.specs)],
            "default-spec-id": len(self.specs) - 1,
            "last-partition-id": 1100,
            "properties": self.properties,
            "snapshots": self.snapshots,
            "snapshot-log": log,
            "refs": self.refs,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            **({} if main is None else {"current-snapshot-id": main}),
            **({"next-row-id": self.next_row_id} if self.version >= 3 else {}),
        }
        self.put(f"metadata/{name}", json.dumps(body).encode())
        return f"{self.root}/metadata/{name}"

    def _parquet(self, name: str, table: pa.Table, group_rows: int | None = None) -> tuple[str, int]:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, row_group_size=group_rows)
        data = sink.getvalue().to_pybytes()
        return self.put(name, data), len(data)

    def _deletes(self, content: int, path: str, size: int, count: int, like: Entry | None) -> Entry:
        place = like or {"partition": {}, "spec": 0}
        return {
            "content": content,
            "file_path": path,
            "file_format": "PARQUET",
            "partition": place["partition"],
            "spec": place["spec"],
            "record_count": count,
            "file_size_in_bytes": size,
        }

    def _without(self, manifest: Entry, gone: set[tuple[str, Any]], snapshot_id: int) -> Entry | None:
        """A manifest as it is, or written anew without some files."""
        entries = manifest["entries"]
        if not any((e["data_file"]["file_path"], e["data_file"].get("content_offset")) in gone for e in entries):
            return manifest
        written, first = [], manifest["first_row_id"]
        for e in entries:
            if e["status"] == DELETED:
                continue
            file = dict(e["data_file"])
            if first is not None and file.get("first_row_id") is None:
                file["first_row_id"] = first
                first += file["record_count"]
            lost = (file["file_path"], file.get("content_offset")) in gone
            sequence = e.get("sequence_number") or manifest["sequence_number"]
            written.append(
                {
                    "status": DELETED if lost else EXISTING,
                    "snapshot_id": snapshot_id if lost else e["snapshot_id"],
                    "sequence_number": sequence,
                    "file_sequence_number": sequence,
                    "data_file": file,
                }
            )
        made = self._manifest(manifest["content"], manifest["partition_spec_id"], written, snapshot_id, self.sequence)
        return made | {"first_row_id": manifest["first_row_id"]}

    def _manifest(self, content: int, spec: int, entries: list[Entry], snapshot_id: int, sequence: int) -> Entry:
        self._number += 1
        notes = {
            "partition-spec-id": str(spec),
            "format-version": str(self.version),
            "content": ("data", "deletes")[content],
            "partition-spec": json.dumps(self.specs[spec]),
            "schema": json.dumps(self.schemas[-1]),
        }
        data = container(self._entry_schema(spec), entries, notes)
        path = self.put(f"metadata/m{self._number}.avro", data)
        return {
            "manifest_path": path,
            "manifest_length": len(data),
            "partition_spec_id": spec,
            "content": content,
            "sequence_number": sequence,
            "min_sequence_number": sequence,
            "added_snapshot_id": snapshot_id,
            **{
                f"{kind}_files_count": sum(e["status"] == status for e in entries)
                for kind, status in (("added", ADDED), ("existing", EXISTING), ("deleted", DELETED))
            },
            "added_rows_count": sum(e["data_file"]["record_count"] for e in entries),
            "existing_rows_count": 0,
            "deleted_rows_count": 0,
            "first_row_id": None,
            "entries": entries,
        }

    def _entry_schema(self, spec: int) -> dict[str, Any]:
        types = {f["id"]: f["type"] for s in self.schemas for f in s["fields"]}
        parts = []
        for at, f in enumerate(self.specs[spec]):
            kind = f["transform"]
            result = (
                types[f["source-id"]]
                if kind in ("identity", "void") or kind.startswith("truncate")
                else "date"
                if kind == "day"
                else "int"
            )
            parts.append({"name": f["name"], "type": ["null", _AVRO[result]], "field-id": f.get("field-id", 1000 + at)})
        return _entry(parts, self.version)


def identity(source: int, name: str, number: int = 1000, transform: str = "identity") -> dict[str, Any]:
    """A partition field."""
    return {"source-id": source, "field-id": number, "name": name, "transform": transform}


def column(number: int, name: str, type_: Any = "long", **more: Any) -> dict[str, Any]:
    """A column of a schema."""
    return {"id": number, "name": name, "type": type_, "required": False, **more}


def _field(name: str, type_: pa.DataType, number: int | None) -> pa.Field:
    return pa.field(name, type_, metadata=None if number is None else {"PARQUET:field_id": str(number)})


def _bounds(values: pa.ChunkedArray, type_: Any) -> tuple[bytes, bytes] | None:
    plain = values.drop_null()
    if not len(plain) or type_ not in (*_PACK, "string"):
        return None
    ends = [min(plain.to_pylist()), max(plain.to_pylist())]
    if type_ == "string":
        return ends[0].encode(), ends[1].encode()
    if type_ in ("date", "timestamp"):
        return None
    return struct.pack(_PACK[type_], ends[0]), struct.pack(_PACK[type_], ends[1])


def _maybe(name: str, type_: Any, number: int) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "field-id": number}


def _must(name: str, type_: Any, number: int) -> dict[str, Any]:
    return {"name": name, "type": type_, "field-id": number}


def _pairs(key: int, value: int, type_: str) -> dict[str, Any]:
    fields = [_must("key", "int", key), _must("value", type_, value)]
    return {
        "type": "array",
        "logicalType": "map",
        "items": {"type": "record", "name": f"k{key}_v{value}", "fields": fields},
    }


def _entry(parts: list[dict[str, Any]], version: int) -> dict[str, Any]:
    file = [
        _must("content", "int", 134),
        _must("file_path", "string", 100),
        _must("file_format", "string", 101),
        _must("partition", {"type": "record", "name": "r102", "fields": parts}, 102),
        _must("record_count", "long", 103),
        _must("file_size_in_bytes", "long", 104),
        _maybe("null_value_counts", _pairs(121, 122, "long"), 110),
        _maybe("lower_bounds", _pairs(126, 127, "bytes"), 125),
        _maybe("upper_bounds", _pairs(129, 130, "bytes"), 128),
        _maybe("equality_ids", {"type": "array", "items": "int", "element-id": 136}, 135),
        *([_maybe("first_row_id", "long", 142)] if version >= 3 else []),
        _maybe("referenced_data_file", "string", 143),
        *(
            [_maybe("content_offset", "long", 144), _maybe("content_size_in_bytes", "long", 145)]
            if version >= 3
            else []
        ),
    ]
    fields = [
        _must("status", "int", 0),
        _maybe("snapshot_id", "long", 1),
        _maybe("sequence_number", "long", 3),
        _maybe("file_sequence_number", "long", 4),
        _must("data_file", {"type": "record", "name": "r2", "fields": file}, 2),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def _list(version: int) -> dict[str, Any]:
    longs = [
        ("sequence_number", 515),
        ("min_sequence_number", 516),
        ("added_snapshot_id", 503),
        ("added_rows_count", 512),
        ("existing_rows_count", 513),
        ("deleted_rows_count", 514),
    ]
    ints = [("added_files_count", 504), ("existing_files_count", 505), ("deleted_files_count", 506)]
    fields = [
        _must("manifest_path", "string", 500),
        _must("manifest_length", "long", 501),
        _must("partition_spec_id", "int", 502),
        _must("content", "int", 517),
        *(_must(n, "long", i) for n, i in longs),
        *(_must(n, "int", i) for n, i in ints),
        *([_maybe("first_row_id", "long", 520)] if version >= 3 else []),
    ]
    return {"type": "record", "name": "manifest_file", "fields": fields}


_LIST = {version: _list(version) for version in (2, 3)}
