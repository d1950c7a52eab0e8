"""Reads vectors of a table in this process: for samples, for segments, and to compare every row.

`vector.spark` does the same on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from holdfast.engines.local.indexing import ID, VERSION, indexed_rows
from holdfast.index.segment import SegmentWriting
from holdfast.index.vector.coder import Trained
from holdfast.index.vector.column import VectorMatrix, vectors_of
from holdfast.index.vector.fill import SEGMENT_ROWS, Filler, WrittenSegment
from holdfast.index.vector.metric import Matrix, Metric, Near, Numbers, Points, nearer, nearest_rows
from holdfast.model.snapshot import Snapshot
from holdfast.plan.indexing import IndexedFiles
from holdfast.schema.types import Field


@dataclass(frozen=True)
class LocalVectorRows:
    """Rows of some files, with their vectors."""

    snapshot: Snapshot
    column: Field
    parts: Sequence[IndexedFiles]

    def sample(self, count: int, rows: int, seed: int) -> VectorMatrix:
        """`count` random vectors; all if there are no more."""
        share = 1.0 if rows <= count or count == 1 else min(1.0, 1.2 * count / rows)
        sample = self._sample(count, share, seed)
        return sample if len(sample.rows) or share == 1.0 else self._sample(count, 1.0, seed)  # few rows have vectors

    def _sample(self, count: int, share: float, seed: int) -> VectorMatrix:
        chance = np.random.default_rng(seed)
        matrices: list[Matrix] = []
        odd, length = 0, None
        for vectors, _, _ in self._vectors(None):
            matrix = vectors.matrix
            length = matrix.shape[1] if length is None else length
            odd += vectors.odd + (len(matrix) if matrix.shape[1] != length else 0)
            if matrix.shape[1] == length:
                matrices.append(matrix if share == 1.0 else matrix[chance.random(len(matrix)) < share])
            if count == 1 and matrices:
                break
        matrix = np.concatenate(matrices) if matrices else np.zeros((0, 0), np.float32)
        if len(matrix) > count:
            matrix = matrix[np.sort(chance.permutation(len(matrix))[:count])]
        return VectorMatrix(matrix, np.arange(len(matrix)), odd)

    def fill(
        self, trained: Trained, quantizer: bytes, directory: str, new_uuid: Callable[[], UUID], writing: SegmentWriting
    ) -> tuple[list[WrittenSegment], int]:
        """Write segments of all rows, each to its own directory; if vectors have another length, only their number."""
        written: list[WrittenSegment] = []
        filler, odd = Filler(trained, quantizer), 0
        for vectors, ids, versions in self._vectors(trained.length):
            odd += vectors.odd
            if odd or not len(ids):
                continue
            filler.add_vectors(vectors.matrix, ids, versions)
            if len(filler) >= SEGMENT_ROWS:
                written += _written(filler, f"{directory}/{new_uuid()}", writing)
                filler = Filler(trained, quantizer)
        return ([], odd) if odd else ([*written, *_written(filler, f"{directory}/{new_uuid()}", writing)], 0)

    def nearest(
        self, queries: NDArray[np.float64], k: int, metric: Metric, allowed: Numbers | None
    ) -> tuple[list[Near], int]:
        """The k nearest rows of each query, and how many rows have vectors of another length."""
        best, odd = [Near.none()] * len(queries), 0
        for vectors, ids, _ in self._vectors(queries.shape[1]):
            odd += vectors.odd
            near = nearest_rows(Points(vectors.matrix, ids).among(allowed), queries, k, metric)
            best = [nearer(one, other, k) for one, other in zip(best, near, strict=True)]
        return best, odd

    def all(self, length: int) -> tuple[Points, int]:
        """All vectors of one length, and the number of others."""
        matrices, ids, odd = [np.zeros((0, length), np.float32)], [np.zeros(0, np.int64)], 0
        for vectors, some, _ in self._vectors(length):
            odd += vectors.odd
            if len(some):
                matrices.append(vectors.matrix)
                ids.append(some)
        return Points(np.concatenate(matrices[1:] or matrices), np.concatenate(ids)), odd

    def _vectors(self, length: int | None) -> Iterator[tuple[VectorMatrix, Numbers, Numbers]]:
        """Vectors, row ids and row commit versions, in batches."""
        for part in self.parts:
            for rows in indexed_rows(self.snapshot, part.files, part.hidden, [self.column], part.newer_than):
                vectors = vectors_of(rows.column(0), length)
                ids, versions = (rows.column(name).to_numpy()[vectors.rows] for name in (ID, VERSION))
                if len(ids) or vectors.odd:
                    yield vectors, ids, versions


def _written(filler: Filler, directory: str, writing: SegmentWriting) -> list[WrittenSegment]:
    filled = filler.finish()
    if filled is None:
        return []
    for name, data in filled.files.items():
        writing.put(directory, name, data)
    return [filled.written(directory)]
