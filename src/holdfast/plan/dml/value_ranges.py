"""A set of values as a bounded number of ranges.

A range starts as a single value. When there are too many ranges, neighbours are joined across the narrowest gaps, so
that clusters stay apart and an outlier does not widen the others.

1. Ranges are closed, ascending and disjoint; every value that was added lies in one.
2. Values are not null, and of a type that Arrow sorts like Spark: integers, doubles except NaN, decimals, strings.
3. No Python code runs per value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.predicate.bounds import first_not_below


@dataclass(frozen=True)
class Ranges:
    """Closed ranges in ascending order."""

    lows: pa.Array
    highs: pa.Array

    def __len__(self) -> int:
        return len(self.lows)

    @property
    def nbytes(self) -> int:
        return int(self.lows.nbytes + self.highs.nbytes)

    def meet(self, lows: pa.Array, highs: pa.Array) -> pa.BooleanArray:
        """For each pair of low and high, whether a range overlaps it; a null leaves that end open."""
        if not len(self):
            return pa.repeat(pa.scalar(False), len(lows))
        at = first_not_below(self.highs, pc.fill_null(lows, self.highs[0]))
        candidate = self.lows.take(pc.min_element_wise(at, len(self) - 1))
        beyond = pc.fill_null(pc.greater(candidate, highs), False)
        return pc.and_not(pc.less(at, len(self)), beyond)

    def with_values(self, values: pa.Array) -> Ranges:
        """The ranges, plus one for each distinct value that is in none."""
        unique = pc.unique(values)
        new = unique.filter(pc.invert(self.meet(unique, unique)))
        lows, highs = pa.concat_arrays([self.lows, new]), pa.concat_arrays([self.highs, new])
        order = pc.sort_indices(lows)
        return Ranges(lows.take(order), highs.take(order))

    def at_most(self, count: int, *, worth: float = 0.0) -> Ranges:
        """At most `count` ranges, split at the widest gaps; each gap is at least the share `worth` of all gaps."""
        if len(self) <= (1 if worth else count):
            return self
        gaps = _distances(self.highs[:-1], self.lows[1:])
        widest = np.argsort(gaps, kind="stable")[max(0, len(gaps) - count + 1) :]
        cuts = np.sort(widest[gaps[widest] >= worth * gaps[np.isfinite(gaps)].sum()])
        starts, stops = np.append(0, cuts + 1), np.append(cuts, len(gaps))
        return Ranges(self.lows.take(pa.array(starts)), self.highs.take(pa.array(stops)))

    def cast(self, type_: pa.DataType) -> Ranges:
        return Ranges(self.lows.cast(type_), self.highs.cast(type_))


def _distances(lefts: pa.Array, rights: pa.Array) -> NDArray[np.float64]:
    """The distance from each left value to its right value, which is greater; for strings an estimate."""
    if pa.types.is_integer(lefts.type):
        a, b = (side.to_numpy().view(np.uint64) for side in (lefts, rights))
        return np.asarray(b - a, np.float64)  # modulo 2**64, so that no difference overflows
    if pa.types.is_string(lefts.type):
        first, last = (np.frombuffer(text.as_py().encode(), np.uint8) for text in (lefts[0], rights[-1]))
        short = min(len(first), len(last))
        shared = int(np.append(np.flatnonzero(first[:short] != last[:short]), short)[0])
        return _heads(rights, shared) - _heads(lefts, shared)
    a, b = (side.cast(pa.float64()).to_numpy() for side in (lefts, rights))
    with np.errstate(over="ignore"):
        return np.asarray(b - a)


def _heads(texts: pa.Array, start: int) -> NDArray[np.float64]:
    """Eight bytes of each text from `start` on, as a number."""
    cut = pc.binary_slice(texts.cast(pa.binary()), start, start + 8)
    offsets = np.frombuffer(cut.buffers()[1], np.int32)[cut.offset : cut.offset + len(cut) + 1]
    data = np.append(np.frombuffer(cut.buffers()[2] or b"", np.uint8), np.zeros(8, np.uint8))
    heads = np.zeros(len(cut), np.float64)
    for place in range(8):
        at = offsets[:-1] + place
        heads = heads * 256 + np.where(at < offsets[1:], data[at], 0)
    return heads
