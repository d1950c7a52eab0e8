"""Builds a vector segment: takes rows, and gives the bytes of the segment's files.

Runs in this process and inside Spark tasks, where it is pickled by value: it imports only Arrow, numpy, faiss and
modules that do likewise.

    lists.faiss      vectors encoded by the quantizer of the generation (hnsw: its graph)
    flat.npy         vectors that do not fit the quantizer, unencoded; for method flat, all vectors
    entries.parquet  row id and row commit version of each entry: first those in lists, then the flat ones

1. Every row with a vector has one entry, in one of the two files.
2. Vectors of another length than the generation's are counted; the caller refuses them and writes nothing.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.index.vector.coder import Coder, Trained, prepared
from holdfast.index.vector.column import vectors_of
from holdfast.index.vector.metric import Matrix, Numbers

LISTS, FLAT, ENTRIES = "lists.faiss", "flat.npy", "entries.parquet"
ROW_ID, VERSION = "row_id", "row_commit_version"
SEGMENT_ROWS = 1 << 24  # beyond which another segment begins


@dataclass(frozen=True, slots=True)
class Filled:
    """A complete segment, as bytes, with its figures."""

    files: Mapping[str, bytes]
    entries: int
    low_id: int
    high_id: int
    flat: int  # entries that are not encoded
    away: float  # mean distance to the centre of the list

    def written(self, directory: str) -> WrittenSegment:
        """The segment once its files are written to a directory."""
        sums = {name: (len(data), zlib.crc32(data)) for name, data in self.files.items()}
        return WrittenSegment(directory, sums, self.entries, self.low_id, self.high_id, self.flat, self.away)


@dataclass(frozen=True, slots=True)
class WrittenSegment:
    """A segment whose files are written, each with size and checksum; only its `meta.json` is not."""

    directory: str
    files: Mapping[str, tuple[int, int]]
    entries: int
    low_id: int
    high_id: int
    flat: int
    away: float


@dataclass
class _EntryList:
    """Ids and versions of encoded or flat entries."""

    ids: list[Numbers] = field(default_factory=list)
    versions: list[Numbers] = field(default_factory=list)
    count: int = 0

    def add(self, ids: Numbers, versions: Numbers) -> None:
        self.ids.append(ids)
        self.versions.append(versions)
        self.count += len(ids)


class Filler:
    def __init__(self, trained: Trained, quantizer: bytes) -> None:
        self.trained = trained
        self.odd = 0  # rows with vectors of another length
        self.coder = Coder(trained, quantizer) if quantizer else None
        self._coded, self._kept = _EntryList(), _EntryList()
        self._vectors: list[Matrix] = []
        self._away, self._measured = 0.0, 0

    def __len__(self) -> int:
        return self._coded.count + self._kept.count

    def add(self, column: pa.Array | pa.ChunkedArray, ids: pa.ChunkedArray, versions: pa.ChunkedArray) -> None:
        """Add rows: their vectors, ids and commit versions."""
        parsed = vectors_of(column, self.trained.length)
        self.odd += parsed.odd
        if len(parsed.rows):
            self.add_vectors(parsed.matrix, ids.to_numpy()[parsed.rows], versions.to_numpy()[parsed.rows])

    def add_vectors(self, vectors: Matrix, ids: Numbers, versions: Numbers) -> None:
        if self.coder is None:
            self.keep(vectors, ids, versions)
            return
        narrow, fits = prepared(vectors, self.trained)
        some = np.flatnonzero(fits)
        inside, away = self.coder.add(narrow[some])
        fits[some] = inside
        self._away += away
        self._measured += len(some)
        self._coded.add(ids[fits], versions[fits])
        self.keep(vectors[~fits], ids[~fits], versions[~fits])

    def keep(self, vectors: Matrix, ids: Numbers, versions: Numbers) -> None:
        """Add rows whose vectors are not encoded."""
        if len(ids):
            self._vectors.append(vectors)
            self._kept.add(ids, versions)

    def adopt(self, other: Coder, ids: Numbers, versions: Numbers, kept: NDArray[np.bool_], away: float) -> None:
        """Add encoded entries of another segment of the generation."""
        assert self.coder is not None, "a segment with lists is of a generation with lists"
        self.coder.adopt(other, kept)
        self._coded.add(ids[kept], versions[kept])
        self._away += away * int(kept.sum())
        self._measured += int(kept.sum())

    def finish(self) -> Filled | None:
        """The segment; None if no row had a vector."""
        if not len(self):
            return None
        ids = np.concatenate([*self._coded.ids, *self._kept.ids])
        versions = np.concatenate([*self._coded.versions, *self._kept.versions])
        files = {ENTRIES: _entries(ids, versions)}
        if self.coder is not None and self._coded.count:
            files[LISTS] = self.coder.stored()
        if self._kept.count:
            held = io.BytesIO()
            np.save(held, np.concatenate(self._vectors), allow_pickle=False)
            files[FLAT] = held.getvalue()
        away = self._away / self._measured if self._measured else 0.0
        return Filled(files, len(self), int(ids.min()), int(ids.max()), self._kept.count, away)


def _entries(ids: Numbers, versions: Numbers) -> bytes:
    table = pa.table({ROW_ID: pa.array(ids, pa.int64()), VERSION: pa.array(versions, pa.int64())})
    sink = pa.BufferOutputStream()
    encodings = {ROW_ID: "DELTA_BINARY_PACKED", VERSION: "DELTA_BINARY_PACKED"}
    pq.write_table(table, sink, compression="zstd", use_dictionary=False, column_encoding=encodings)
    return bytes(sink.getvalue().to_pybytes())
