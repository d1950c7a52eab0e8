"""A column of vectors as a matrix, and a query as one.

1. A row whose vector is null, or has an element that is null or not finite, is at no distance from anything: it is
   left out.
2. Vectors of one column have one length. Others are counted, and refused by whoever asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import Invalid
from holdfast.index.vector.metric import Matrix
from holdfast.schema.types import Array, Field, Primitive

_ELEMENTS = ("float", "double")


@dataclass(frozen=True, slots=True, eq=False)
class VectorMatrix:
    """The vectors of some rows: a matrix, the rows they belong to, and how many have another length."""

    matrix: Matrix
    rows: NDArray[np.int64]
    odd: int = 0  # rows whose vectors have another length


def refuse_no_vectors(column: Field) -> None:
    """Refuse a column that has no vectors."""
    match column.type:
        case Array(Primitive(name), _) if name in _ELEMENTS:
            return
    raise Invalid(f"{column.name} holds no vectors: its type must be array<float> or array<double>")


def vectors_of(column: pa.Array | pa.ChunkedArray, length: int | None) -> VectorMatrix:
    """Vectors from Arrow lists; `length` None: that of the first."""
    lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    lengths = pc.fill_null(pc.list_value_length(lists), -1).to_numpy()
    there = np.flatnonzero(lengths >= 0)
    dtype = np.dtype(lists.type.value_type.to_pandas_dtype())
    if not len(there):
        return VectorMatrix(np.zeros((0, length or 0), dtype), there)
    length = int(lengths[there[0]]) if length is None else length
    right = lengths == length
    odd = len(there) - int(right.sum())
    if odd:
        there = np.flatnonzero(right)
        lists = lists.take(pa.array(there))
    matrix: Matrix = lists.flatten().to_numpy(zero_copy_only=False).reshape(len(there), length)
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        matrix, there = matrix[finite], there[finite]
    return VectorMatrix(matrix, there, odd)


def odd_lengths(column: str, odd: int, length: int) -> Invalid:
    """What to say of vectors that have another length."""
    rows = "1 row has a vector" if odd == 1 else f"{odd} rows have vectors"
    return Invalid(
        f"{rows} of another length than {length} in {column}, and between those there is no distance: set them to "
        f"null, or correct them (size({column}) <> {length})"
    )


def queries_of(vector: Any, column: str) -> tuple[NDArray[np.float64], bool]:
    """What was asked for as a matrix of one query per row, and whether it was several."""
    try:
        if isinstance(vector, pa.Array | pa.ChunkedArray):
            vector = vector.to_pylist()
        found = np.asarray(vector, np.float64)
    except (TypeError, ValueError) as error:
        raise Invalid(f"a query for {column} is a list of numbers, or a list of such lists of one length") from error
    if found.ndim not in (1, 2) or not found.shape[-1]:
        raise Invalid(f"a query for {column} is a list of numbers, or a list of such lists, and none is empty")
    if not np.isfinite(found).all():
        raise Invalid(f"a query for {column} has an element that is not a finite number")
    return np.atleast_2d(found), found.ndim == 2
