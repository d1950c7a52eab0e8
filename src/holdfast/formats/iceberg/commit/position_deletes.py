"""Writes position deletes: deletion vectors in version 3, position delete files in version 2.

They are made per attempt, on the attempt's snapshot: rows that another writer hid meanwhile stay hidden.

1. The deletes of a data file hold all of its hidden positions, those of older deletes included; older deletes that
   reference this file alone are removed in the same commit. Those that apply to several files stay.
2. Spec and partition tuple are copied from the data file's entry; a file with no row left is removed instead.
3. All deletion vectors of an attempt are in one Puffin file; a position delete file references one data file. A blob
   has the framing of Delta's deletion vectors, which its offset and length include.
4. Deletes that an earlier attempt wrote for the same rows of a file in the same partition are used again.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast import __version__
from holdfast.errors import Damaged
from holdfast.formats.iceberg.commit.manifest_writer import ManifestWriter, stored_tuple_schema, tuple_at
from holdfast.formats.iceberg.deletes.scope import FILE_PATH_ID, referenced_files
from holdfast.formats.iceberg.metadata.manifests import DELETES, POSITION_DELETES, ManifestEntries
from holdfast.formats.iceberg.metadata.paths import path_indices
from holdfast.formats.iceberg.state import IcebergState
from holdfast.parquet.fit import stored_field
from holdfast.rows import bitmap
from holdfast.storage.arrays import strings

POSITION_ID = 2147483545  # of `pos` in position delete files
_POSITION_FIELD = 2147483645  # of the reserved column _pos
_PUFFIN_MAGIC = b"PFA1"
_POSITIONS = pa.schema(
    [
        stored_field("file_path", pa.string(), FILE_PATH_ID).with_nullable(False),
        stored_field("pos", pa.int64(), POSITION_ID).with_nullable(False),
    ]
)


@dataclass(frozen=True)
class HiddenPositions:
    """The hidden positions of files in an attempt."""

    united: Mapping[str, BitMap64] = field(default_factory=dict)  # all hidden positions, by path of the data file
    emptied: frozenset[str] = frozenset()  # keys of files with no row left


@dataclass(frozen=True, slots=True)
class FilePartition:
    """The spec and the partition tuple of a data file."""

    spec_id: int
    tuple_schema: Mapping[str, Any]
    values: Mapping[str, Any]

    def values_for(self, tuple_schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """The tuple by the field names of another manifest of the same spec."""
        if self.tuple_schema == tuple_schema:
            return self.values
        names = {f.get("field-id"): f["name"] for f in tuple_schema["fields"]}
        fields = self.tuple_schema["fields"]
        return {names.get(f.get("field-id"), f["name"]): self.values.get(f["name"]) for f in fields}


def unite_positions(state: IcebergState, hidden: Mapping[str, BitMap64]) -> HiddenPositions:
    """Positions to hide, by key, united with those that are hidden at this snapshot."""
    if not hidden:
        return HiddenPositions()
    files = state.snapshot.files.among(hidden)
    if len(files) != len(hidden):
        missing = sorted(set(hidden) - set(files.column("key").to_pylist()))
        raise Damaged(
            f"{missing[0]} is no file of snapshot {state.version} of {state.metadata.location}", path=missing[0]
        )
    old = state.hidden.load(state.snapshot.location, files).positions
    united, emptied = dict[str, BitMap64](), set[str]()
    columns = (files.column("key").to_pylist(), files.column("path").to_pylist(), files.num_records.to_pylist())
    for key, path, rows in zip(*columns, strict=True):  # one per changed file
        positions = hidden[key] | old.get(key, BitMap64())
        if positions.max() >= rows:
            raise Damaged(f"row {positions.max()} of {key} is to be hidden, which has {rows} rows", path=key)
        if len(positions) == rows:
            emptied.add(key)
        else:
            united[path] = positions
    return HiddenPositions(united, frozenset(emptied))


def superseded(listed: ManifestEntries, files: pa.Array) -> NDArray[np.bool_]:
    """Which entries of a manifest are position deletes that reference one of these data files alone."""
    if listed.manifest.content != DELETES or not len(listed) or not len(files):
        return np.zeros(len(listed), np.bool_)
    by_position = pc.equal(listed.entries["content"], POSITION_DELETES).to_numpy(zero_copy_only=False)
    mask: NDArray[np.bool_] = by_position & (path_indices(files, referenced_files(listed.entries)) >= 0)
    return mask


def partitions_of(state: IcebergState, paths: Sequence[str]) -> dict[str, FilePartition]:
    """The specs and partition tuples of live data files, by path."""
    value_set = strings(list(paths))
    partitions: dict[str, FilePartition] = {}
    for listed in state.contents.listed:
        if listed.manifest.content == DELETES or not len(listed):
            continue
        rows = np.flatnonzero(pc.is_in(listed.entries["file_path"].combine_chunks(), value_set=value_set))
        if not len(rows):
            continue
        schema, spec = stored_tuple_schema(listed.avro_schema), state.contents.types.specs[listed.spec_id]
        for row in rows.tolist():  # one per changed file
            path = listed.entries["file_path"][row].as_py()
            partitions[path] = FilePartition(listed.spec_id, schema, tuple_at(listed, row, spec, schema))
    return partitions


def delete_files(
    writer: ManifestWriter, hidden: Mapping[str, BitMap64], partitions: Mapping[str, FilePartition], folder: str
) -> Iterator[tuple[FilePartition, Mapping[str, Any]]]:
    """Writes deletes of these rows; gives each data file's partition and the `data_file` struct of its deletes."""
    drafts = writer.drafts.deletes
    new = {path: rows for path, rows in hidden.items() if drafts.get(path, ())[:2] != (rows, partitions[path])}
    if new:
        write = _write_vectors if writer.version >= 3 else _write_position_files
        for path, file in write(writer, new, folder):
            entry = {
                "content": POSITION_DELETES,
                "partition": partitions[path].values,
                "record_count": len(new[path]),
                "referenced_data_file": path,
                **file,
            }
            drafts[path] = new[path], partitions[path], entry
    yield from ((partitions[path], drafts[path][2]) for path in hidden)  # one per changed file


def _write_position_files(
    writer: ManifestWriter, hidden: Mapping[str, BitMap64], folder: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, positions in hidden.items():  # one per changed file
        data, metrics = _position_file(path, positions)
        name = f"{folder}/{writer.name}-{len(writer.drafts.written):05d}-deletes.parquet"
        writer.put(name, data)
        yield path, {"file_path": name, "file_format": "PARQUET", "file_size_in_bytes": len(data), **metrics}


def _write_vectors(
    writer: ManifestWriter, hidden: Mapping[str, BitMap64], folder: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    data, blobs = puffin(list(hidden.items()))
    name = f"{folder}/{writer.name}-{len(writer.drafts.written):05d}-deletes.puffin"
    writer.put(name, data)
    file = {"file_path": name, "file_format": "PUFFIN", "file_size_in_bytes": len(data)}
    for path, (offset, size) in zip(hidden, blobs, strict=True):
        yield path, {**file, "content_offset": offset, "content_size_in_bytes": size}


def _position_file(path: str, positions: BitMap64) -> tuple[bytes, dict[str, Any]]:
    """The bytes of a position delete file for one data file, and its metrics, with whole paths as bounds."""
    at = np.array(positions.to_array(), np.int64)
    sink = pa.BufferOutputStream()
    table = pa.Table.from_arrays([pa.repeat(path, len(at)), pa.array(at)], schema=_POSITIONS)
    pq.write_table(table, sink, compression="zstd", store_schema=False)

    def pairs(file_path: bytes | int, pos: bytes | int) -> list[dict[str, bytes | int]]:
        return [{"key": FILE_PATH_ID, "value": file_path}, {"key": POSITION_ID, "value": pos}]

    lower, upper = (pairs(path.encode(), struct.pack("<q", int(end))) for end in (at[0], at[-1]))
    counts = {"value_counts": pairs(len(at), len(at)), "null_value_counts": pairs(0, 0)}
    return bytes(sink.getvalue()), {**counts, "lower_bounds": lower, "upper_bounds": upper}


def puffin(vectors: Sequence[tuple[str, BitMap64]]) -> tuple[bytes, list[tuple[int, int]]]:
    """The bytes of a Puffin file with the deletion vectors of data files, and the offset and length of each blob."""
    data = bytearray(_PUFFIN_MAGIC)
    places, blobs = [], []
    for path, positions in vectors:
        framed = bitmap.frame(bitmap.encode(positions))
        places.append((len(data), len(framed)))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_POSITION_FIELD],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(data),
                "length": len(framed),
                "properties": {"referenced-data-file": path, "cardinality": str(len(positions))},
            }
        )
        data += framed
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": f"Holdfast {__version__}"}}).encode()
    data += _PUFFIN_MAGIC + footer + struct.pack("<i", len(footer)) + bytes(4) + _PUFFIN_MAGIC
    return bytes(data), places
