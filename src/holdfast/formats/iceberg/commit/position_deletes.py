"""More rows hidden in live files: deletion vectors in version 3, position-delete files in version 2.

Made per attempt, on the snapshot the attempt is made on: what another writer hid meanwhile stays hidden.

1. What is written for a data file holds all of its hidden positions, those of older vectors and delete files included;
   what was about this file alone leaves in the same commit. What is about several files stays.
2. Spec and tuple are copied from the data file's own entry; a file with no row left is removed instead.
3. All vectors that an attempt writes are in one Puffin file; a position-delete file is about one data file.
4. What an earlier attempt wrote for the same rows of a file in the same place is used again.
"""

from __future__ import annotations

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

from holdfast.errors import Damaged
from holdfast.formats.iceberg.commit.manifest_writer import ManifestWriter, stored_tuple_schema, tuple_at
from holdfast.formats.iceberg.commit.puffin import puffin
from holdfast.formats.iceberg.deletes.scope import FILE_PATH_ID, referenced_files
from holdfast.formats.iceberg.metadata.manifests import DELETES, POSITION_DELETES, ManifestEntries
from holdfast.formats.iceberg.metadata.paths import path_indices
from holdfast.formats.iceberg.state import IcebergState
from holdfast.parquet.fit import stored_field
from holdfast.storage.arrays import strings

POSITION_ID = 2147483545
_POSITIONS = pa.schema(
    [
        stored_field("file_path", pa.string(), FILE_PATH_ID).with_nullable(False),
        stored_field("pos", pa.int64(), POSITION_ID).with_nullable(False),
    ]
)


@dataclass(frozen=True)
class HiddenPositions:
    """What an attempt hides, and what it finds to have no row left."""

    united: Mapping[str, BitMap64] = field(default_factory=dict)  # all hidden positions, by path of the data file
    emptied: frozenset[str] = frozenset()  # keys of files with no row left
    before: Mapping[str, int] = field(default_factory=dict)  # rows hidden already, by path


@dataclass(frozen=True, slots=True)
class FilePartition:
    """A data file's own spec and tuple."""

    spec_id: int
    tuples: Mapping[str, Any]  # how they are stored
    value: Mapping[str, Any]


def unite_positions(state: IcebergState, hidden: Mapping[str, BitMap64]) -> HiddenPositions:
    """Unite positions to hide with those hidden at this snapshot."""
    if not hidden:
        return HiddenPositions()
    touched = state.snapshot.files.among(hidden)
    if len(touched) != len(hidden):
        missing = sorted(set(hidden) - set(touched.column("key").to_pylist()))
        raise Damaged(
            f"{missing[0]} is no file of snapshot {state.version} of {state.metadata.location}", path=missing[0]
        )
    old = state.hidden.load(state.snapshot.location, touched).positions
    united, before, emptied = dict[str, BitMap64](), dict[str, int](), set[str]()
    names = (touched.column("key").to_pylist(), touched.column("path").to_pylist(), touched.num_records.to_pylist())
    for key, path, rows in zip(*names, strict=True):  # one per touched file
        positions = hidden[key] | old.get(key, BitMap64())
        if positions.max() >= rows:
            raise Damaged(f"row {positions.max()} of {key} is to be hidden, which has {rows} rows", path=key)
        if len(positions) == rows:
            emptied.add(key)
        else:
            united[path] = positions
            before[path] = len(old.get(key, ()))
    return HiddenPositions(united, frozenset(emptied), before)


def superseded(listed: ManifestEntries, about: pa.Array) -> NDArray[np.bool_]:
    """Entries of a manifest that are about one of these data files alone."""
    if listed.manifest.content != DELETES or not len(listed) or not len(about):
        return np.zeros(len(listed), np.bool_)
    by_position = pc.equal(listed.entries["content"], POSITION_DELETES).to_numpy(zero_copy_only=False)
    found: NDArray[np.bool_] = by_position & (path_indices(about, referenced_files(listed.entries)) >= 0)
    return found


def partitions_of(state: IcebergState, paths: Sequence[str]) -> dict[str, FilePartition]:
    """The specs and tuples of live data files."""
    wanted = strings(list(paths))
    found: dict[str, FilePartition] = {}
    for listed in state.contents.listed:
        if listed.manifest.content == DELETES or not len(listed):
            continue
        rows = np.flatnonzero(pc.is_in(listed.entries["file_path"].combine_chunks(), value_set=wanted))
        if not len(rows):
            continue
        tuples, spec = stored_tuple_schema(listed.avro_schema), state.contents.types.specs[listed.spec_id]
        for row in rows.tolist():  # one per touched file
            path = listed.entries["file_path"][row].as_py()
            found[path] = FilePartition(listed.spec_id, tuples, tuple_at(listed, row, spec, tuples))
    return found


def delete_files(
    writing: ManifestWriter, hidden: Mapping[str, BitMap64], places: Mapping[str, FilePartition], folder: str
) -> Iterator[tuple[FilePartition, Mapping[str, Any]]]:
    """Write what hides these rows; gives each data file's place and what a manifest says of its deletes."""
    known = writing.drafts.vectors
    new = {path: rows for path, rows in hidden.items() if known.get(path, ())[:2] != (rows, places[path])}
    if new:
        write = _vectors if writing.version >= 3 else _position_files
        for path, file in write(writing, new, places, folder):
            known[path] = new[path], places[path], file
    yield from ((places[path], known[path][2]) for path in hidden)  # one per touched file


def _position_files(
    writing: ManifestWriter, hidden: Mapping[str, BitMap64], places: Mapping[str, FilePartition], folder: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, positions in hidden.items():  # one per touched file
        data, told = _position_file(path, positions)
        name = f"{folder}/{writing.name}-{len(writing.drafts.written):05d}-deletes.parquet"
        writing.put(name, data)
        yield path, _told(path, places[path], "PARQUET", name, len(data), len(positions)) | told


def _vectors(
    writing: ManifestWriter, hidden: Mapping[str, BitMap64], places: Mapping[str, FilePartition], folder: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    data, blobs = puffin(list(hidden.items()))
    name = f"{folder}/{writing.name}-{len(writing.drafts.written):05d}-deletes.puffin"
    writing.put(name, data)
    for (path, positions), blob in zip(hidden.items(), blobs, strict=True):
        where = {"content_offset": blob.offset, "content_size_in_bytes": blob.size}
        yield path, _told(path, places[path], "PUFFIN", name, len(data), len(positions)) | where


def _told(path: str, place: FilePartition, form: str, name: str, size: int, count: int) -> dict[str, Any]:
    return {
        "content": POSITION_DELETES,
        "file_path": name,
        "file_format": form,
        "partition": place.value,
        "record_count": count,
        "file_size_in_bytes": size,
        "referenced_data_file": path,
    }


def _position_file(path: str, positions: BitMap64) -> tuple[bytes, dict[str, Any]]:
    """The bytes of a position-delete file about one data file, and its metrics: bounds of the path are never cut."""
    at = np.array(positions.to_array(), np.int64)
    sink = pa.BufferOutputStream()
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(at), np.int32)), strings([path])).cast(pa.string())
    pq.write_table(
        pa.Table.from_arrays([names, pa.array(at)], schema=_POSITIONS), sink, compression="zstd", store_schema=False
    )
    spelled = path.encode()
    counts = [{"key": number, "value": len(at)} for number in (FILE_PATH_ID, POSITION_ID)]
    bounds = [
        [{"key": FILE_PATH_ID, "value": spelled}, {"key": POSITION_ID, "value": struct.pack("<q", int(end))}]
        for end in (at[0], at[-1])
    ]
    nulls = [{"key": number, "value": 0} for number in (FILE_PATH_ID, POSITION_ID)]
    told = {"value_counts": counts, "null_value_counts": nulls, "lower_bounds": bounds[0], "upper_bounds": bounds[1]}
    return bytes(sink.getvalue()), told
