"""Rows that are gone by their values: a look-up of each row among rows to delete.

1. A row is gone when all compared columns equal those of a row to delete that counts for its file; null equals null.
2. Nothing costs a step per row in Python; the rows to delete are put in order once per file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.schema.types import Field

SEQUENCE, GROUP = "__hf_sequence", "__hf_group"


@dataclass(frozen=True, slots=True)
class EqualityDeleteRows:
    """Rows to delete: the compared columns under their names, and the sequence and group of the file each stands in."""

    fields: tuple[Field, ...]
    rows: pa.Table
    everywhere: bool

    def of(self, sequence: int, group: int | None) -> list[pa.Array] | None:
        """The compared columns of those that count for a file; None where none does."""
        counts = pc.greater(self.rows[SEQUENCE], sequence)
        if not self.everywhere:
            counts = pc.and_(counts, pc.equal(self.rows[GROUP], group))
        chosen = self.rows.filter(counts)
        if not chosen.num_rows:
            return None
        return [chosen[f.name].combine_chunks() for f in self.fields]


def are_gone(values: Sequence[pa.Array], gone: Sequence[pa.Array]) -> NDArray[np.bool_]:
    """Which rows, given by their columns, equal one of those that are gone."""
    rows, wanted = np.zeros(len(values[0]), np.int64), np.zeros(len(gone[0]), np.int64)
    for mine, theirs in zip(values, gone, strict=True):
        distinct = theirs.unique()
        own, other = _codes(mine, distinct), _codes(theirs, distinct)
        rows = np.where((rows < 0) | (own < 0), -1, rows * len(distinct) + own)
        wanted = wanted * len(distinct) + other
        # Numbered anew, so that many columns never need more than 64 bits.
        kept, wanted = np.unique(wanted, return_inverse=True)
        at = np.minimum(np.searchsorted(kept, rows), len(kept) - 1)
        rows = np.where((rows >= 0) & (kept[at] == rows), at, -1)
    return rows >= 0


def _codes(values: pa.Array, distinct: pa.Array) -> NDArray[np.int64]:
    found = pc.fill_null(pc.index_in(values, value_set=distinct, skip_nulls=False), -1)
    codes: NDArray[np.int64] = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
