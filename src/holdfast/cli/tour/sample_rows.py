"""Generates the sample orders of the tour from their numbers, the same on every machine.

1. `order` rises from day to day; values of `ref` are spread over all files, so that statistics cannot prune by it.
2. No Python loop runs per row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

CUSTOMERS = 9_973
_SPREAD = np.uint64(2_654_435_761)  # odd, so that references are distinct
_BELOW = np.uint64(2**32)


def day(number: int, rows: int) -> pa.Table:
    """The orders of a day, from 0 on."""
    return orders_of(np.arange(number * rows, (number + 1) * rows, dtype=np.uint64))


def corrections(days: int, rows: int) -> pa.Table:
    """Late corrections: another amount for every thousandth order, order 17 included, and as many new orders."""
    existing = np.arange(17, days * rows, 1000, dtype=np.uint64)
    fresh = np.arange(days * rows, days * rows + len(existing), dtype=np.uint64)
    late = orders_of(np.concatenate([existing, fresh]))
    return late.set_column(late.column_names.index("cents"), "cents", pc.add(late["cents"], 5))


def ref_of(order: int) -> str:
    ref: str = _refs(np.array([order], dtype=np.uint64))[0].as_py()
    return ref


def orders_of(numbers: npt.NDArray[np.uint64]) -> pa.Table:
    customers = pa.array(numbers % np.uint64(CUSTOMERS)).cast(pa.string())
    return pa.table(
        {
            "order": numbers.astype(np.int64),
            "ref": _refs(numbers),
            "customer": pc.binary_join_element_wise("customer", customers, " "),
            "status": pa.repeat("new", len(numbers)),
            "cents": ((numbers * np.uint64(7_919)) % np.uint64(90_000) + np.uint64(1_000)).astype(np.int64),
        }
    )


def _refs(numbers: npt.NDArray[np.uint64]) -> pa.Array:
    spread = pa.array((numbers * _SPREAD) % _BELOW).cast(pa.string())
    return pc.binary_join_element_wise("R", spread, "")
