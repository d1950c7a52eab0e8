"""Pairs rows of a source and a target that have equal keys; all rows where there are no keys.

Each key column of the source is numbered by value, and several keys by the combinations that occur, so that looking a
row up costs a hash per column and a binary search per further key.

1. Every pair whose keys are equal is found once: NaN equals NaN, -0.0 equals 0.0, and null equals null only where the
   key is null-safe.
2. Pairs come in the order of the target's rows, a bounded number at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.engines.local.expressions.values import canonical
from holdfast.rows.distinct import distinct

Rows: TypeAlias = NDArray[np.int64]
PAIRS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class KeyIndex:
    """The rows of a source by their keys."""

    values: tuple[pa.Array, ...]  # distinct values per key, without null; whole numbers ascend
    null_safe: tuple[bool, ...]
    combinations: tuple[Rows, ...]  # after each key, the numbers of those that occur, sorted
    order: Rows  # the source's rows, those with equal keys together
    starts: Rows  # where in the order each combination begins, and the end

    def pairs(self, keys: Sequence[pa.Array], rows: Rows) -> Iterator[tuple[Rows, Rows]]:
        """Rows of a target, whose keys are given in their order, with the rows of the source that have the same."""
        codes = self._codes(keys, len(rows))
        rows, codes = rows[codes >= 0], codes[codes >= 0]
        counts = self.starts[codes + 1] - self.starts[codes]
        ends = np.cumsum(counts)
        start = 0
        while start < len(rows):
            before = ends[start] - counts[start]
            stop = max(start + 1, int(np.searchsorted(ends, before + PAIRS_AT_ONCE, side="right")))
            many = counts[start:stop]
            first = np.repeat(self.starts[codes[start:stop]] - (ends[start:stop] - many - before), many)
            yield np.repeat(rows[start:stop], many), self.order[first + np.arange(many.sum())]
            start = stop

    def _codes(self, keys: Sequence[pa.Array], count: int) -> Rows:
        codes = np.zeros(count, np.int64)
        for key, values, safe, known in zip(keys, self.values, self.null_safe, self.combinations, strict=True):
            combined = _combined(codes, key, values, safe)
            at = np.searchsorted(known, combined)
            is_known = (combined >= 0) & (known[np.minimum(at, len(known) - 1)] == combined) if len(known) else at < 0
            codes = np.where(is_known, at, -1)
        return codes


def index(keys: Sequence[pa.Array], null_safe: Sequence[bool], count: int) -> KeyIndex:
    """Index the rows of a source by their key columns."""
    codes = np.zeros(count, np.int64)
    values, combinations = [], []
    for key, safe in zip(keys, null_safe, strict=True):
        once = _once(key)
        combined = _combined(codes, key, once, safe)
        known = distinct(combined[combined >= 0])
        codes = np.where(combined >= 0, np.searchsorted(known, combined), -1)
        values.append(once)
        combinations.append(known)
    order = np.argsort(codes, kind="stable")
    order = order[codes[order] >= 0]
    groups = len(combinations[-1]) if combinations else 1
    starts = np.searchsorted(codes[order], np.arange(groups + 1))
    return KeyIndex(tuple(values), tuple(null_safe), tuple(combinations), order, starts)


def _once(key: pa.Array) -> pa.Array:
    """The values of a key, each once; whole numbers ascend."""
    values = canonical(key).drop_null()
    if not pa.types.is_integer(values.type):
        return values.unique()
    return pa.array(distinct(values.to_numpy(zero_copy_only=False)), values.type)


def _combined(codes: Rows, key: pa.Array, values: pa.Array, null_safe: bool) -> Rows:
    """The number of a row's combination so far, extended by one key; negative where nothing equals it."""
    at = _places(canonical(key), values)
    if null_safe:
        at[np.asarray(key.is_null())] = len(values)
    return np.where((codes >= 0) & (at >= 0), codes * (len(values) + 1) + at, -1)


def _places(keys: pa.Array, values: pa.Array) -> Rows:
    """Where each key is among the values; -1 for nowhere."""
    if not pa.types.is_integer(values.type) or keys.type != values.type or not len(values):
        hashed = pc.fill_null(pc.index_in(keys, value_set=values), -1)
        places: Rows = hashed.to_numpy(zero_copy_only=False).astype(np.int64)
        return places
    # A hash of all values would be made anew for every batch of keys.
    ours, known = keys.fill_null(0).to_numpy(zero_copy_only=False), values.to_numpy(zero_copy_only=False)
    at = np.minimum(np.searchsorted(known, ours), len(known) - 1)
    return np.where((known[at] == ours) & np.asarray(keys.is_valid()), at, -1).astype(np.int64)
