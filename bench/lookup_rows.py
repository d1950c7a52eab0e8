"""The rows that `lookup.py` looks up: a number, a text and a vector.

Needs numpy and Arrow alone, because every engine makes them in its own process.

1. The same arguments give the same rows. Numbers are all different and in no order.
2. Vectors lie around CENTRES places with noise in 16 dimensions; queries are drawn likewise and are no rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

LENGTH = 64
CENTRES = 2000
STRETCH = 500_000

_NOISE = 16


def stretches(rows: int) -> Iterator[pa.Table]:
    """All rows, some at a time."""
    ids = keys(rows)
    for number, start in enumerate(range(0, rows, STRETCH)):
        yield table_of(ids[start : start + STRETCH], seed=number)


def keys(rows: int) -> Any:
    """The number of each row, in the order of the rows."""
    return np.random.default_rng(1).permutation(rows)


def table_of(ids: Any, *, seed: int, text: str = "name") -> pa.Table:
    """Rows with these numbers."""
    flat = pa.array(vectors(len(ids), seed=seed).ravel())
    return pa.table(
        {
            "id": pa.array(ids.astype(np.int64)),
            "s": pa.array(np.char.add(f"{text}-", np.char.mod("%016d", ids))),
            "vec": pa.FixedSizeListArray.from_arrays(flat, LENGTH),
        }
    )


def vectors(count: int, *, seed: int) -> Any:
    shape = np.random.default_rng(7)  # the same places and noise whatever is drawn
    centres = shape.normal(size=(CENTRES, LENGTH)).astype(np.float32)
    basis = (shape.normal(size=(_NOISE, LENGTH)) / np.sqrt(_NOISE)).astype(np.float32)
    chance = np.random.default_rng([seed, 11])
    noise = chance.normal(size=(count, _NOISE)).astype(np.float32)
    return centres[chance.integers(0, CENTRES, count)] + noise @ basis
