"""Converts vector columns and query vectors into matrices.

1. A row whose vector is null, or has an element that is null or not finite, has no distance and is left out.
2. Vectors of one column have one length. Others are counted, and the caller refuses them.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """The vectors of some rows as a matrix, and the indices of these rows."""

    matrix: Matrix
    rows: NDArray[np.int64]
    odd: int = 0  # rows whose vectors have another length


def refuse_no_vectors(column: Field) -> None:
    match column.type:
        case Array(Primitive(name), _) if name in _ELEMENTS:
            return
    raise Invalid(f"{column.name} holds no vectors: its type must be array<float> or array<double>")


def vectors_of(column: pa.Array | pa.ChunkedArray, length: int | None) -> VectorMatrix:
    """Vectors from Arrow lists; `length` None: the length of the first."""
    lists = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    lengths = pc.fill_null(pc.list_value_length(lists), -1).to_numpy()
    rows = np.flatnonzero(lengths >= 0)
    dtype = np.dtype(lists.type.value_type.to_pandas_dtype())
    if not len(rows):
        return VectorMatrix(np.zeros((0, length or 0), dtype), rows)
    length = int(lengths[rows[0]]) if length is None else length
    right = lengths == length
    odd = len(rows) - int(right.sum())
    if odd:
        rows = np.flatnonzero(right)
        lists = lists.take(pa.array(rows))
    matrix: Matrix = lists.flatten().to_numpy(zero_copy_only=False).reshape(len(rows), length)
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        matrix, rows = matrix[finite], rows[finite]
    return VectorMatrix(matrix, rows, odd)


def odd_lengths(column: str, odd: int, length: int) -> Invalid:
    """The error for vectors of another length."""
    rows = "1 row has a vector" if odd == 1 else f"{odd} rows have vectors"
    return Invalid(
        f"{rows} of another length than {length} in {column}, and between those there is no distance: set them to "
        f"null, or correct them (size({column}) <> {length})"
    )


def queries_of(vector: object, column: str) -> tuple[NDArray[np.float64], bool]:
    """Queries as a matrix with one query per row, and whether there were several."""
    try:
        if isinstance(vector, pa.Array | pa.ChunkedArray):
            vector = vector.to_pylist()
        queries = np.asarray(vector, np.float64)
    except (TypeError, ValueError) as error:
        raise Invalid(f"a query for {column} is a list of numbers, or a list of such lists of one length") from error
    if queries.ndim not in (1, 2) or not queries.shape[-1]:
        raise Invalid(f"a query for {column} is a list of numbers, or a list of such lists, and none is empty")
    if not np.isfinite(queries).all():
        raise Invalid(f"a query for {column} has an element that is not a finite number")
    return np.atleast_2d(queries), queries.ndim == 2
