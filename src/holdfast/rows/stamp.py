"""Hand out row ids to the files of one commit attempt.

Fresh rows of a file take consecutive ids from its base upward, so one number per
file is enough. Files are stamped per attempt, not when they are written: an attempt
that loses its version is stamped again above the winner's mark.

1. The ranges follow the order of the files and tile the ids above the old mark.
2. The new mark is the last id handed out; with no rows it is the old mark.
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
    """The first row id of each file, and the highest id in use afterwards."""

    bases: tuple[int, ...]
    high_water: int


def stamp(row_counts: Sequence[int], *, high_water: int = NO_IDS_YET) -> Stamp:
    """Give each file its first row id, in the order listed."""
    *bases, end = accumulate(row_counts, initial=high_water + 1)
    if end - 1 > LARGEST_ID:
        raise LimitReached(f"{sum(row_counts)} rows do not fit above row id {high_water}")
    return Stamp(tuple(bases), end - 1)
