"""Computes exact distances between vectors, and the nearest rows.

    l2      the Euclidean distance
    cosine  one minus the cosine of the angle; a vector of zeros has no angle and lies at one
    dot     the negative of the inner product, so that the smallest is the best here too

1. A distance is computed in 64-bit numbers and depends only on the two vectors.
2. `nearest_rows` is exact: products in the stored precision exclude rows with a margin above their rounding error, and
   the distances of all other rows are computed again in 64 bits.
3. Rows at the same distance are ordered by id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Matrix: TypeAlias = NDArray[np.floating[Any]]  # a vector per row
Numbers: TypeAlias = NDArray[np.int64]
Distances: TypeAlias = NDArray[np.float64]

_AT_ONCE = 1 << 22  # products in memory at a time
_SLACK = 16  # rounding errors in addition to those of the sum


class Metric(Enum):
    L2 = "l2"
    COSINE = "cosine"
    DOT = "dot"


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """Rows by id and their distances, ascending."""

    ids: Numbers
    distances: Distances

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def none(cls) -> Near:
        return cls(np.zeros(0, np.int64), np.zeros(0, np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Vectors of rows, with row ids and lengths."""

    vectors: Matrix
    ids: Numbers
    norms: Distances = field(init=False)

    def __post_init__(self) -> None:
        with np.errstate(over="ignore"):
            norms = np.sqrt(np.einsum("ij,ij->i", self.vectors, self.vectors, dtype=np.float64))
        object.__setattr__(self, "norms", norms)

    def among(self, ascending: Numbers | None) -> Points:
        """The points of rows with one of these ids; None: all."""
        if ascending is None:
            return self
        if not len(ascending):
            return Points(self.vectors[:0], self.ids[:0])
        at = np.minimum(np.searchsorted(ascending, self.ids), len(ascending) - 1)
        chosen = ascending[at] == self.ids
        return self if chosen.all() else Points(self.vectors[chosen], self.ids[chosen])


def distances(vectors: Matrix, query: NDArray[np.float64], metric: Metric) -> Distances:
    """The distance of each vector to the query."""
    wide = vectors.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        match metric:
            case Metric.L2:
                measured = np.sqrt(np.square(wide - query).sum(axis=1))
            case Metric.COSINE:
                measured = 1.0 - (directions(wide) * directions(query[None, :])).sum(axis=1)
            case Metric.DOT:
                measured = -(wide * query).sum(axis=1)
    return np.where(np.isnan(measured), np.inf, measured)  # a sum of infinities of both signs


def nearest_rows(points: Points, queries: NDArray[np.float64], k: int, metric: Metric) -> list[Near]:
    best = [Near.none()] * len(queries)
    step = max(1, _AT_ONCE // max(1, len(queries)))
    for start in range(0, len(points.ids), step):
        for at, near in enumerate(_step(points, slice(start, start + step), queries, k, metric)):
            best[at] = nearer(best[at], near, k)
    return best


def nearer(one: Near, other: Near, k: int) -> Near:
    """The k nearest rows of two results; a row in both counts once."""
    if not len(one) or not len(other):
        return Near((one.ids if len(one) else other.ids)[:k], (one.distances if len(one) else other.distances)[:k])
    ids, first = np.unique(np.concatenate([one.ids, other.ids]), return_index=True)
    return _sorted(ids, np.concatenate([one.distances, other.distances])[first], k)


def _step(points: Points, some: slice, queries: NDArray[np.float64], k: int, metric: Metric) -> Iterator[Near]:
    vectors, ids, norms = points.vectors[some], points.ids[some], points.norms[some]
    narrow = queries.astype(vectors.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        products = (vectors @ narrow.T).astype(np.float64)
    for at, query in enumerate(queries):
        chosen = _possible(norms, products[:, at], query, k, metric, vectors)
        yield _sorted(ids[chosen], distances(vectors[chosen], query, metric), k)


def _possible(
    norms: Distances, products: Distances, query: NDArray[np.float64], k: int, metric: Metric, vectors: Matrix
) -> Numbers:
    """Rows that may be among the k nearest, by rounded products."""
    if len(norms) <= k:
        return np.arange(len(norms))
    kind = np.finfo(vectors.dtype)
    share = (vectors.shape[1] + _SLACK) * float(kind.eps)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        norm = np.sqrt(np.square(query).sum())
        both = norms * norm
        lost = vectors.shape[1] * float(kind.tiny) * (1.0 + norms + norm)  # values below the smallest number
        match metric:
            case Metric.L2:
                about, off = np.square(norms) + norm * norm - 2 * products, share * np.square(norms + norm) + 2 * lost
            case Metric.COSINE:
                about, off = np.where(both > 0, -products / both, 0.0), np.where(both > 0, share + lost / both, 0.0)
            case Metric.DOT:
                about, off = -products, share * both + lost
        low, high = about - off, about + off
    unsure = ~(np.isfinite(low) & np.isfinite(high))
    worst = np.partition(np.where(unsure, np.inf, high), k - 1)[k - 1]
    return np.flatnonzero(unsure | (low <= worst))


def _sorted(ids: Numbers, distances: Distances, k: int) -> Near:
    order = np.lexsort((ids, distances))[:k]
    return Near(ids[order], distances[order])


def directions(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Vectors scaled to length one, except zero vectors; scaled in two steps, so that no square overflows."""
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
    scaled = vectors / np.where(largest > 0, largest, 1.0)
    lengths = np.sqrt(np.square(scaled).sum(axis=1, keepdims=True))
    directions: NDArray[np.float64] = scaled / np.where(lengths > 0, lengths, 1.0)
    return directions
