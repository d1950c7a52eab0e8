"""Where moved rows are: an index over the row maps that were loaded so far.

1. Maps that come later are put together with those before them once that costs no more than it saves: what a map costs
   over the life of a reader grows with the logarithm of how many there are.
2. Versions of rows are looked up in one array over all maps, so that a lookup costs no step per file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from holdfast.rows.locator import RowLocator
from holdfast.rows.rowmap import RowMap

_APART = 8  # locators of maps that were loaded one after another
_POSITION_BITS = 40
_NOTHING = np.zeros(0, np.int64)


class Moved:
    """Rows of files that carry ids; files go by number."""

    def __init__(self) -> None:
        self._maps: dict[int, RowMap] = {}
        self._locators: list[RowLocator] = []
        self._places = _NOTHING  # file and end of each run of versions, as one number
        self._versions = _NOTHING

    def add(self, maps: Mapping[int, RowMap]) -> None:
        """Know the rows of more files."""
        self._maps.update(maps)
        if len(self._locators) >= _APART or 2 * len(maps) >= len(self._maps):
            self._locators, maps = [], self._maps
        sequences = [(file, known.ids) for file, known in maps.items()]
        self._locators.append(RowLocator.from_ranges(_NOTHING, _NOTHING, sequences=sequences))
        numbers = sorted(self._maps)
        runs = [self._maps[number].versions for number in numbers]
        firsts = np.repeat(np.array(numbers, np.int64) << _POSITION_BITS, [len(r.ends) for r in runs])
        self._places = firsts + np.concatenate([_NOTHING, *(r.ends for r in runs)])
        self._versions = np.concatenate([_NOTHING, *(r.values for r in runs)])

    def candidates(
        self, ids: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
        """Rows that have the ids, hidden or not: index into `ids`, file, position."""
        for locator in self._locators:
            yield from locator.candidates(ids)

    def versions(self, files: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The version of each of these rows."""
        return self._versions[np.searchsorted(self._places, (files << _POSITION_BITS) + positions, side="right")]
