"""Arranges intervals of row ids in layers, so that binary searches find all intervals around an id.

Ranges of new rows of different files never overlap, so one layer holds them all; a rewritten file overlaps the ranges
its rows came from and needs another layer. There are at most a few layers more than intervals around one id.

1. Within a layer the intervals are sorted and disjoint; every interval is in exactly one layer.
2. Building sorts, and loops in Python only over intervals that a few vectorised passes cannot place.
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
    """Disjoint intervals in ascending order: the first and the last id of each, and its number."""

    lows: Numbers
    highs: Numbers
    numbers: Numbers

    def holding(self, ids: Numbers) -> tuple[Numbers, Numbers]:
        """Which of the ids lie in an interval (as indices into `ids`), and the number of that interval."""
        at = np.searchsorted(self.lows, ids, side="right") - 1
        hit = np.flatnonzero((at >= 0) & (ids <= self.highs[at]))
        return hit, self.numbers[at[hit]]


def arrange(lows: Numbers, highs: Numbers) -> tuple[IntervalLayer, ...]:
    """Layers of the intervals [low, high], which are numbered in order."""
    return tuple(IntervalLayer(lows[numbers], highs[numbers], numbers) for numbers in _disjoint(lows, highs))


def overlaps(lows: Numbers, highs: Numbers) -> Numbers:
    """The index of the earlier range that each one overlaps, of several the one that ends last; -1 for none.

    Ends are exclusive, and ranges are sorted by their start.
    """
    into = np.full(len(lows), -1, np.int64)
    if len(lows) < 2:
        return into
    furthest = np.maximum.accumulate(highs)
    raises = np.concatenate(([True], highs[1:] > furthest[:-1]))
    holder = np.maximum.accumulate(np.where(raises, np.arange(len(lows)), 0))
    hit = lows[1:] < furthest[:-1]
    into[1:][hit] = holder[:-1][hit]
    return into


def _disjoint(lows: Numbers, highs: Numbers) -> Iterator[Numbers]:
    remaining = np.argsort(lows, kind="stable")
    while len(remaining):
        reach = np.maximum.accumulate(highs[remaining])
        is_disjoint = np.concatenate(([True], lows[remaining[1:]] > reach[:-1]))
        layer = remaining[is_disjoint]
        if 2 * len(layer) < len(remaining):
            yield from _by_first_free(lows, highs, remaining)
            return
        yield layer
        remaining = remaining[~is_disjoint]


def _by_first_free(lows: Numbers, highs: Numbers, order: Numbers) -> Iterator[Numbers]:
    """Puts each interval on the layer that ends first, or on a new one where every layer overlaps it."""
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
