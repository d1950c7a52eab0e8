"""Measures the recall of a vector search, with the vectors of some rows as queries.

1. Rows are drawn at random from all live rows with a vector.
2. A row is no neighbour of itself; a row as near as the farthest expected one counts as found.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.index.reader import PinnedReader
from holdfast.index.vector.column import vectors_of
from holdfast.index.vector.metric import Near, Numbers
from holdfast.rows.columns import ROW_ID
from holdfast.schema.types import Field

_ID = "__hf_row_id"
_DRAWN = 4  # times the requested rows, because some are hidden or have no vector


def some_vectors(reader: PinnedReader, column: Field, count: int, seed: int) -> tuple[Numbers, NDArray[np.float64]]:
    """The ids and vectors of up to `count` random rows."""
    counts = pc.fill_null(reader.snapshot.files.num_records, 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(counts, dtype=np.int64)
    if not len(ends) or not ends[-1]:
        return np.zeros(0, np.int64), np.zeros((0, 0))
    drawn = np.unique(np.random.default_rng(seed).integers(0, ends[-1], _DRAWN * count))
    files = np.searchsorted(ends, drawn, side="right")
    positions = drawn - (ends - counts)[files]
    live = ~reader.is_hidden(files, positions)
    rows = reader.take_at(files[live], positions[live], [column.name], {ROW_ID: _ID})
    vectors = vectors_of(rows.column(0), None)
    chosen = np.random.default_rng(seed).permutation(len(vectors.rows))[:count]
    return rows.column(_ID).to_numpy()[vectors.rows[chosen]], vectors.matrix[chosen].astype(np.float64)


def recall_of(approximate: Near, exact: Near, own: int, k: int) -> float:
    """The share of the k nearest other rows that a search found."""
    others = exact.distances[exact.ids != own][:k]
    if not len(others):
        return 1.0
    return min(1.0, float((approximate.distances[approximate.ids != own] <= others[-1]).sum()) / len(others))
