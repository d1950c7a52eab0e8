"""Assigns base row ids to the files of one commit attempt.

New rows of a file take consecutive ids from its base on, so one number per file is enough. Every attempt assigns anew:
one that lost a race takes ids above the winner's high-water mark.

1. The ranges follow the order of the files and fill the ids above the old high-water mark without a gap.
2. The new high-water mark is the last assigned id; without rows it is the old one.
3. No id passes LARGEST_ID.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from holdfast.errors import LimitReached

NO_IDS_YET = -1
LARGEST_ID = 2**63 - 1  # the log stores ids as signed 64-bit integers
PROVISIONAL = 1 << 62  # ids and versions from here on stand for those that rows get when they are committed


@dataclass(frozen=True, slots=True)
class Stamp:
    """The base row id of each file, and the new high-water mark."""

    bases: tuple[int, ...]
    high_water: int


def stamp(row_counts: Sequence[int], *, high_water: int = NO_IDS_YET) -> Stamp:
    """Assign a base row id to each file, in order."""
    *bases, end = accumulate(row_counts, initial=high_water + 1)
    if end - 1 > LARGEST_ID:
        raise LimitReached(f"{sum(row_counts)} rows do not fit above row id {high_water}")
    return Stamp(tuple(bases), end - 1)
