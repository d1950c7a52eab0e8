"""Applies equality deletes of Iceberg: finds the rows of a file that equal a deleted row.

1. A row is deleted when all compared columns equal those of a delete that applies to its file; null equals null.
2. There is no Python loop over rows; deletes are sorted once per file.
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
    """The rows of equality delete files: the compared columns, and the sequence number and group of each row's file."""

    fields: tuple[Field, ...]
    rows: pa.Table
    everywhere: bool

    def of(self, sequence: int, group: int | None) -> list[pa.Array] | None:
        """The compared columns of the deletes that apply to a file; None where none does."""
        counts = pc.greater(self.rows[SEQUENCE], sequence)
        if not self.everywhere:
            counts = pc.and_(counts, pc.equal(self.rows[GROUP], group))
        chosen = self.rows.filter(counts)
        if not chosen.num_rows:
            return None
        return [chosen[f.name].combine_chunks() for f in self.fields]


def are_deleted(columns: Sequence[pa.Array], deleted: Sequence[pa.Array]) -> NDArray[np.bool_]:
    """Which rows, given by their columns, equal one of the deleted rows."""
    row_codes, deleted_codes = np.zeros(len(columns[0]), np.int64), np.zeros(len(deleted[0]), np.int64)
    for values, deleted_values in zip(columns, deleted, strict=True):
        distinct = deleted_values.unique()
        codes = _codes(values, distinct)
        row_codes = np.where((row_codes < 0) | (codes < 0), -1, row_codes * len(distinct) + codes)
        # Renumbered after each column, so that many columns never need more than 64 bits.
        used, deleted_codes = np.unique(
            deleted_codes * len(distinct) + _codes(deleted_values, distinct), return_inverse=True
        )
        at = np.minimum(np.searchsorted(used, row_codes), len(used) - 1)
        row_codes = np.where((row_codes >= 0) & (used[at] == row_codes), at, -1)
    return row_codes >= 0


def _codes(values: pa.Array, distinct: pa.Array) -> NDArray[np.int64]:
    indexes = pc.fill_null(pc.index_in(values, value_set=distinct, skip_nulls=False), -1)
    codes: NDArray[np.int64] = indexes.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
