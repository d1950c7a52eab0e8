"""Intervals of row ids, arranged so that all that hold an id are found by binary searches.

Fresh ranges of different files never overlap, so one layer holds them all; a rewritten file lies over the ranges its
rows came from and goes to a layer above. The number of layers is the largest number of intervals that hold one id,
plus at most a few.

1. Within a layer the intervals are sorted and disjoint; every interval is in exactly one layer.
2. Building is sorting, and a Python step only per interval that a few vectorised passes cannot place.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class IntervalLayer:
    """Disjoint intervals: the first and the last id of each, ascending, and the number it was given by."""

    lows: Numbers
    highs: Numbers
    numbers: Numbers

    def holding(self, ids: Numbers) -> tuple[Numbers, Numbers]:
        """Which of the ids lie in an interval (as indices into `ids`), and the number of that interval."""
        at = np.searchsorted(self.lows, ids, side="right") - 1
        hit = np.flatnonzero((at >= 0) & (ids <= self.highs[at]))
        return hit, self.numbers[at[hit]]


def arrange(lows: Numbers, highs: Numbers) -> tuple[IntervalLayer, ...]:
    """Layers of the intervals [low, high], numbered as they are listed."""
    return tuple(IntervalLayer(lows[numbers], highs[numbers], numbers) for numbers in _disjoint(lows, highs))


def _disjoint(lows: Numbers, highs: Numbers) -> Iterator[Numbers]:
    left = np.argsort(lows, kind="stable")
    while len(left):
        reach = np.maximum.accumulate(highs[left])
        clear = np.concatenate(([True], lows[left[1:]] > reach[:-1]))
        taken = left[clear]
        if 2 * len(taken) < len(left):
            yield from _by_first_free(lows, highs, left)
            return
        yield taken
        left = left[~clear]


def _by_first_free(lows: Numbers, highs: Numbers, order: Numbers) -> Iterator[Numbers]:
    """Each interval goes to the layer that has been free the longest; a new one only when all are in use."""
    layers: list[list[int]] = []
    ends: list[tuple[int, int]] = []  # last id and number of each layer, a heap
    for number, low, high in zip(order.tolist(), lows[order].tolist(), highs[order].tolist(), strict=True):
        if ends and ends[0][0] < low:
            layer = ends[0][1]
            layers[layer].append(number)
            heapq.heapreplace(ends, (high, layer))
        else:
            heapq.heappush(ends, (high, len(layers)))
            layers.append([number])
    yield from (np.array(layer, np.int64) for layer in layers)
