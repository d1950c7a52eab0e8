"""Rows that deletes hide, read from where they are stored: positions per data file, and delete files to compare with.

1. Every vector and every position-delete file that may concern the asked files is read and checked, or this raises: one
   that lacks a column, or has another number of rows than its manifest says, is Damaged and never fewer deletes. Files
   of deletes by value have at least as many rows as it says, by their footers, whichever engine reads them then.
2. A vector is read by the place its manifest entry gives; whether a Puffin file is around it is not asked. Its magic,
   length, checksum and count must be right.
3. A position counts for a data file when the file it stands in applies there, by sequence and by group; a file that a
   vector hides rows of takes no other positions.
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
from holdfast.formats.iceberg.metadata.fetch import each
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

FRAME_BYTES = 8  # length before a blob and checksum after it, both counted by Iceberg
CLOSE_BYTES = 1 << 20  # fetching this much for nothing is cheaper than another request
_DELETE_COLUMNS = (
    Field("file_path", STRING, metadata={MAPPING_ID: 2147483546, FILE_NAMES: ("file_path",)}),
    Field("pos", LONG, metadata={MAPPING_ID: 2147483545, FILE_NAMES: ("pos",)}),
)


@dataclass(frozen=True, slots=True)
class _Vector:
    """Where the vector of a data file is, and what must be true of it."""

    key: str  # of the data file
    path: str
    offset: int
    size: int
    cardinality: int
    rows: int | None  # of the data file; None: not said

    def positions(self, data: bytes) -> BitMap64:
        where = f"{self.path} at {self.offset} (of data file {self.key})"
        blob = bitmap.unframe(data, size=self.size - FRAME_BYTES, where=where)
        found = bitmap.decode(blob, expected_cardinality=self.cardinality, where=where)
        _check_within(found, self.rows, self.key, where)
        return found


@dataclass(frozen=True)
class DeleteReader:
    """How the hidden rows of a snapshot's files are found."""

    contents: SnapshotContents
    snapshot: Snapshot
    schemas: Sequence[Struct]  # that a compared column may be of, the one to prefer first

    @property
    def paths(self) -> Paths:
        return self.contents.paths

    @cached_property
    def by_value(self) -> tuple[GoneByValue, ...]:
        """Equality deletes, those over the same columns together."""
        sets = equality_sets(self.contents.deletes)
        entries = [entry for _, _, files in sets for entry in files.to_pylist()]  # one per delete file
        for _ in each(self.paths.location, self._check_by_value, entries):
            pass
        return tuple(
            equality_delete_set(self.snapshot, self.schemas, ids, everywhere, files, self.paths)
            for ids, everywhere, files in sets
        )

    def _check_by_value(self, entry: Mapping[str, Any]) -> None:
        source, task = open_delete_file(self.paths, entry)
        _, rows = columns_and_rows(source, task)
        check_rows(min(rows, entry["record_count"]), task)  # hand-made tables have more, and read well elsewhere

    def load(self, location: Location, files: FileTable) -> HiddenRows:
        """What is hidden in these files."""
        with parsing(self.contents.where, "has deletes that cannot be read", remedy="read an earlier snapshot"):
            return self._load(files)

    def _load(self, files: FileTable) -> HiddenRows:
        storage = pc.struct_field(files.column("dv"), "storage").combine_chunks()
        vectors = files.filter(pc.fill_null(pc.equal(storage, PUFFIN), False))
        others = files.filter(pc.fill_null(pc.equal(storage, POSITIONS), False))
        found = dict(self._vectors(vectors))
        if len(others):
            found |= self._positions(others)
        return HiddenRows(found, self.by_value if pc.any(may_lose(files)).as_py() else ())

    def _vectors(self, files: FileTable) -> Iterator[tuple[str, BitMap64]]:
        """Vectors, those of one file fetched together where they lie close."""
        by_file: dict[str, list[_Vector]] = {}
        rows = zip(
            files.column("key").to_pylist(), files.column("dv").to_pylist(), files.num_records.to_pylist(), strict=True
        )
        for key, dv, count in rows:  # one per file that has a vector
            by_file.setdefault(dv["path"], []).append(
                _Vector(key, dv["path"], dv["offset"], dv["size"], dv["cardinality"], count)
            )
        for found in each(self.paths.location, self._fetched, list(by_file.values())):
            yield from found

    def _fetched(self, vectors: list[_Vector]) -> list[tuple[str, BitMap64]]:
        """The vectors of one file."""
        start, end = min(v.offset for v in vectors), max(v.offset + v.size for v in vectors)
        if end - start > sum(v.size for v in vectors) + CLOSE_BYTES and len(vectors) > 1:
            return [found for vector in vectors for found in self._fetched([vector])]
        store, name = place(self.paths.location, self.paths.key(vectors[0].path))
        try:
            data = store.get_range(name, start, end - start)
        except NotFound as error:
            raise _missing(f"{store.url}/{name}", f"the deletion vector of data file {vectors[0].key}") from error
        return [(v.key, v.positions(data[v.offset - start : v.offset - start + v.size])) for v in vectors]

    def _positions(self, files: FileTable) -> dict[str, BitMap64]:
        """The positions that delete files name in these files; each of these has a bitmap, if an empty one."""
        table = files.table
        paths, sequences, groups = (
            table["path"].combine_chunks(),
            table["sequence"].to_numpy(),
            table["group"].to_numpy(),
        )
        found = [BitMap64() for _ in range(len(files))]
        chosen = self._concerning(table)
        entries = chosen.to_pylist()
        reads = each(self.paths.location, partial(read_position_deletes, self.paths), entries)
        for entry, read in zip(entries, reads, strict=True):
            places = path_indices(paths, read["file_path"].combine_chunks())
            at = np.maximum(places, 0)
            counts = (places >= 0) & (sequences[at] <= entry["sequence_number"]) & (groups[at] == entry["group"])
            _added(found, places[counts], read["pos"].to_numpy()[counts])
        keys = table["key"].to_pylist()
        for key, positions, rows in zip(keys, found, files.num_records.to_pylist(), strict=True):
            _check_within(positions, rows, key, f"of data file {key}")
        return dict(zip(keys, found, strict=True))

    def _concerning(self, files: pa.Table) -> pa.Table:
        """The position-delete files that may name one of these files."""
        positions = self.contents.deletes.positions
        about = referenced_files(positions)
        named = path_indices(files["path"].combine_chunks(), about) >= 0
        grouped = pc.is_in(positions["group"], value_set=files["group"].combine_chunks().unique())
        several = np.asarray(pc.is_null(about)) & np.asarray(grouped.combine_chunks())
        return positions.filter(pa.array(named | several))


def read_position_deletes(paths: Paths, entry: Mapping[str, Any]) -> pa.Table:
    """What a file of position deletes holds: `file_path` and `pos`."""
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
    # Other engines pass over a row without a file or a position, and so does this.
    return read.drop_null()


def open_delete_file(paths: Paths, entry: Mapping[str, Any]) -> tuple[Any, FileTask]:
    """A delete file, open, and what its manifest says of it."""
    path, size = entry["file_path"], entry["file_size_in_bytes"]
    store, name = place(paths.location, paths.key(path))
    task = FileTask(uri=path, size=size, format=entry["file_format"], rows=entry["record_count"])
    return open_source(store, name, size), task


def _added(found: Sequence[BitMap64], places: NDArray[np.int64], positions: NDArray[np.int64]) -> None:
    if not len(places):
        return
    order = np.argsort(places, kind="stable")
    places, positions = places[order], positions[order]
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(places)], strict=True):  # one per data file
        found[int(places[start])] |= BitMap64(positions[start:end].astype(np.uint64))


def _check_within(positions: BitMap64, rows: int | None, key: str, where: str) -> None:
    if rows is not None and positions and positions.max() >= rows:
        raise Damaged(
            f"deletes {where} hide position {positions.max()}, and the file has {rows} rows; read an earlier snapshot",
            path=key,
            expected=f"below {rows}",
            found=str(positions.max()),
        )


def _missing(url: str, why: str) -> MissingFile:
    return MissingFile(f"{url} is not there, and {why} is in it; restore it, or read an earlier snapshot", path=url)
