"""The Hilbert and Z-order curves through a grid: one number per cell, in numpy without a loop over rows.

Runs in this process and inside Spark tasks, where it is pickled by value.

1. Both curves number the cells of a grid with `2**bits` cells per side one to one, from 0 on.
2. Cells with consecutive numbers on the Hilbert curve differ by one step in one coordinate.
3. For one coordinate, both curves are the coordinate itself.

The Hilbert numbers follow Skilling's method: undo the rotations of all levels bit by bit, then a Gray code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_BITS = 62  # of a number, all coordinates together


def hilbert(coordinates: Sequence[NDArray[np.int64]], bits: int) -> NDArray[np.int64]:
    """The number of each cell on the Hilbert curve; coordinates are below `2**bits`."""
    if len(_checked(coordinates, bits)) == 1:
        return coordinates[0]
    narrow: type[np.signedinteger[Any]] = np.int32 if bits < 32 else np.int64  # half the bytes, nearly half the time
    x: list[NDArray[np.signedinteger[Any]]] = [c.astype(narrow) for c in coordinates]
    for level in range(bits - 1, 0, -1):
        low = (1 << level) - 1
        for i in range(len(x)):
            flips = -(x[i] >> level & 1)  # all bits, or none
            swapped = (x[0] ^ x[i]) & ~flips & low
            x[0] ^= flips & low | swapped
            if i:
                x[i] ^= swapped
    for i in range(1, len(x)):
        x[i] ^= x[i - 1]
    turned = np.zeros_like(x[0])
    for level in range(bits - 1, 0, -1):
        turned ^= -(x[-1] >> level & 1) & ((1 << level) - 1)
    return interleave([c ^ turned for c in x], bits)


def interleave(coordinates: Sequence[NDArray[np.integer[Any]]], bits: int) -> NDArray[np.int64]:
    """The number of each cell on the Z-order curve: bits of all coordinates in turn, the first one's the highest."""
    x = _checked(coordinates, bits)
    number = np.zeros(len(x[0]), np.int64)
    for level in range(bits - 1, -1, -1):
        for c in x:
            number <<= 1
            number |= c >> level & 1
    return number


def _checked(coordinates: Sequence[NDArray[np.integer[Any]]], bits: int) -> Sequence[NDArray[np.integer[Any]]]:
    assert coordinates, "a curve goes through at least one coordinate"
    assert 0 < bits * len(coordinates) <= MOST_BITS, f"{len(coordinates)} coordinates of {bits} bits fit no number"
    return coordinates
