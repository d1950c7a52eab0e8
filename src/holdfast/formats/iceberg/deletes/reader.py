"""Reads the hidden rows of data files: deletion vectors, position delete files and equality deletes.

1. Every deletion vector and position delete file that may apply to the given files is read and checked. One that lacks
   a column, or has another number of rows than its manifest entry, is Damaged; deletes are never left out. An equality
   delete file has, by its footer, at least as many rows as its manifest entry says, whichever engine reads it later.
2. A deletion vector is read at the offset in its manifest entry; the Puffin footer is not read. Its magic, length,
   checksum and cardinality must be right.
3. A position applies to a data file when its delete file does, by sequence number and partition; a data file with a
   deletion vector takes no positions from delete files.
4. A position past the end of its data file is Damaged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.errors import Damaged, MissingFile, Unsupported
from holdfast.formats.iceberg.deletes.equality_deletes import equality_delete_set
from holdfast.formats.iceberg.deletes.scope import POSITIONS, PUFFIN, equality_sets, referenced_files
from holdfast.formats.iceberg.metadata.contents import SnapshotContents
from holdfast.formats.iceberg.metadata.paths import Paths, path_indices
from holdfast.model.files import FileTable, may_lose
from holdfast.model.snapshot import GoneByValue, HiddenRows, Snapshot
from holdfast.parquet.read import FileTask, ReadSpec, check_rows, columns_and_rows, read_batches
from holdfast.parquet.source import open_source
from holdfast.rows import bitmap
from holdfast.schema.types import FILE_NAMES, LONG, MAPPING_ID, STRING, Field, Struct
from holdfast.storage.base import NotFound
from holdfast.storage.error_mapping import parsing
from holdfast.storage.location import Location
from holdfast.storage.open import place
from holdfast.storage.prefetch import each

_FRAME_BYTES = 8  # the length before a blob and the checksum after it, which the manifest entry includes
_CLOSE_BYTES = 1 << 20  # reading so many unneeded bytes is cheaper than another request
_DELETE_COLUMNS = (
    Field("file_path", STRING, metadata={MAPPING_ID: 2147483546, FILE_NAMES: ("file_path",)}),
    Field("pos", LONG, metadata={MAPPING_ID: 2147483545, FILE_NAMES: ("pos",)}),
)


@dataclass(frozen=True, slots=True)
class _Vector:
    """The manifest entry of a deletion vector, as far as reading needs it."""

    key: str  # of the data file
    path: str
    offset: int
    size: int
    cardinality: int
    rows: int | None  # of the data file; None: not known

    def positions(self, data: bytes) -> BitMap64:
        where = f"{self.path} at {self.offset} (of data file {self.key})"
        blob = bitmap.unframe(data, size=self.size - _FRAME_BYTES, where=where)
        positions = bitmap.decode(blob, expected_cardinality=self.cardinality, where=where)
        _check_within(positions, self.rows, self.key, where)
        return positions


@dataclass(frozen=True)
class DeleteReader:
    """Reads the hidden rows of a snapshot's files."""

    contents: SnapshotContents
    snapshot: Snapshot
    schemas: Sequence[Struct]  # a compared column is that of the first schema that has it

    @property
    def paths(self) -> Paths:
        return self.contents.paths

    @cached_property
    def by_value(self) -> tuple[GoneByValue, ...]:
        """Equality deletes, grouped by the columns that they compare."""
        sets = equality_sets(self.contents.deletes)
        entries = [entry for _, _, files in sets for entry in files.to_pylist()]  # one per delete file
        for _ in each(self.paths.location.store, self._check_row_count, entries):
            pass
        return tuple(
            equality_delete_set(self.snapshot, self.schemas, ids, everywhere, files, self.paths)
            for ids, everywhere, files in sets
        )

    def _check_row_count(self, entry: Mapping[str, Any]) -> None:
        source, task = open_delete_file(self.paths, entry)
        _, rows = columns_and_rows(source, task)
        check_rows(min(rows, entry["record_count"]), task)  # some tables have more, and other engines read them

    def load(self, location: Location, files: FileTable) -> HiddenRows:
        """The hidden rows of these files."""
        with parsing(self.contents.where, "has deletes that cannot be read", remedy="read an earlier snapshot"):
            return self._load(files)

    def _load(self, files: FileTable) -> HiddenRows:
        storage = pc.struct_field(files.column("dv"), "storage").combine_chunks()
        vectors = files.filter(pc.fill_null(pc.equal(storage, PUFFIN), False))
        others = files.filter(pc.fill_null(pc.equal(storage, POSITIONS), False))
        positions = dict(self._deletion_vectors(vectors))
        if len(others):
            positions |= self._position_deletes(others)
        return HiddenRows(positions, self.by_value if pc.any(may_lose(files)).as_py() else ())

    def _deletion_vectors(self, files: FileTable) -> Iterator[tuple[str, BitMap64]]:
        """The deletion vectors of data files, by key; close ones of one Puffin file are fetched in one request."""
        by_file: dict[str, list[_Vector]] = {}
        rows = zip(
            files.column("key").to_pylist(), files.column("dv").to_pylist(), files.num_records.to_pylist(), strict=True
        )
        for key, dv, count in rows:  # one per file that has a vector
            by_file.setdefault(dv["path"], []).append(
                _Vector(key, dv["path"], dv["offset"], dv["size"], dv["cardinality"], count)
            )
        for fetched in each(self.paths.location.store, self._fetch, list(by_file.values())):
            yield from fetched

    def _fetch(self, vectors: list[_Vector]) -> list[tuple[str, BitMap64]]:
        """The deletion vectors of one Puffin file."""
        start, end = min(v.offset for v in vectors), max(v.offset + v.size for v in vectors)
        if end - start > sum(v.size for v in vectors) + _CLOSE_BYTES and len(vectors) > 1:
            return [pair for vector in vectors for pair in self._fetch([vector])]
        store, name = place(self.paths.location, self.paths.key(vectors[0].path))
        try:
            data = store.get_range(name, start, end - start)
        except NotFound as error:
            url, why = f"{store.url}/{name}", f"the deletion vector of data file {vectors[0].key}"
            raise MissingFile(
                f"{url} is not there, and {why} is in it; restore it, or read an earlier snapshot", path=url
            ) from error
        return [(v.key, v.positions(data[v.offset - start : v.offset - start + v.size])) for v in vectors]

    def _position_deletes(self, files: FileTable) -> dict[str, BitMap64]:
        """The positions that position delete files hide in these files, by key; a bitmap may be empty."""
        table = files.table
        paths, sequences, groups = (
            table["path"].combine_chunks(),
            table["sequence"].to_numpy(),
            table["group"].to_numpy(),
        )
        bitmaps = [BitMap64() for _ in range(len(files))]
        entries = self._applicable(table).to_pylist()  # one per delete file
        reads = each(self.paths.location.store, partial(read_position_deletes, self.paths), entries)
        for entry, read in zip(entries, reads, strict=True):
            indices = path_indices(paths, read["file_path"].combine_chunks())
            at = np.maximum(indices, 0)
            applies = (indices >= 0) & (sequences[at] <= entry["sequence_number"]) & (groups[at] == entry["group"])
            _add_positions(bitmaps, indices[applies], read["pos"].to_numpy()[applies])
        keys = table["key"].to_pylist()
        for key, positions, rows in zip(keys, bitmaps, files.num_records.to_pylist(), strict=True):
            _check_within(positions, rows, key, f"of data file {key}")
        return dict(zip(keys, bitmaps, strict=True))

    def _applicable(self, files: pa.Table) -> pa.Table:
        """The position delete files that may apply to one of these files."""
        positions = self.contents.deletes.positions
        referenced = referenced_files(positions)
        matches = path_indices(files["path"].combine_chunks(), referenced) >= 0
        same_partition = pc.is_in(positions["group"], value_set=files["group"].combine_chunks().unique())
        of_partition = np.asarray(pc.is_null(referenced)) & np.asarray(same_partition.combine_chunks())
        return positions.filter(pa.array(matches | of_partition))


def read_position_deletes(paths: Paths, entry: Mapping[str, Any]) -> pa.Table:
    """Reads a position delete file: `file_path` and `pos`."""
    if entry["file_format"] not in ("parquet", "orc"):
        what = f"{entry['file_path']} holds position deletes as {entry['file_format']}"
        raise Unsupported(f"{what}, which Holdfast does not read")
    source, task = open_delete_file(paths, entry)
    try:
        batches = list(read_batches(source, ReadSpec(fields=_DELETE_COLUMNS, by_id=True, is_whole=True), task))
    except Unsupported as error:  # a column of another type
        raise Damaged(f"{task.uri} is no file of position deletes: {error}", path=task.uri) from error
    schema = pa.schema([("file_path", pa.string()), ("pos", pa.int64())])
    read = pa.Table.from_batches([b.cast(schema) for b in batches], schema)
    # Other engines ignore a row without a file or a position, too.
    return read.drop_null()


def open_delete_file(paths: Paths, entry: Mapping[str, Any]) -> tuple[pa.NativeFile, FileTask]:
    """Opens a delete file; gives it with its manifest entry as a task."""
    path, size = entry["file_path"], entry["file_size_in_bytes"]
    store, name = place(paths.location, paths.key(path))
    task = FileTask(uri=path, size=size, format=entry["file_format"], rows=entry["record_count"])
    return open_source(store, name, size), task


def _add_positions(bitmaps: list[BitMap64], files: NDArray[np.int64], positions: NDArray[np.int64]) -> None:
    """Adds each position to the bitmap of its file, given by index."""
    order = np.argsort(files, kind="stable")
    indices, starts = np.unique(files[order], return_index=True)
    parts = np.split(positions[order].astype(np.uint64), starts[1:])
    for index, part in zip(indices.tolist(), parts, strict=False):  # one per data file
        bitmaps[index] |= BitMap64(part)


def _check_within(positions: BitMap64, rows: int | None, key: str, where: str) -> None:
    if rows is not None and positions and positions.max() >= rows:
        raise Damaged(
            f"deletes {where} hide position {positions.max()}, and the file has {rows} rows; read an earlier snapshot",
            path=key,
            expected=f"below {rows}",
            found=str(positions.max()),
        )
