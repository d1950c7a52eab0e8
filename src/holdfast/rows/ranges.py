"""Finds overlapping ranges of row ids.

1. Ends are exclusive, and ranges are sorted by their start.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


def overlaps(lows: Numbers, highs: Numbers) -> Numbers:
    """The index of the earlier range that each one overlaps, of several the one that ends last; -1 for none."""
    into = np.full(len(lows), -1, np.int64)
    if len(lows) < 2:
        return into
    furthest = np.maximum.accumulate(highs)
    raises = np.concatenate(([True], highs[1:] > furthest[:-1]))
    holder = np.maximum.accumulate(np.where(raises, np.arange(len(lows)), 0))
    hit = lows[1:] < furthest[:-1]
    into[1:][hit] = holder[:-1][hit]
    return into
