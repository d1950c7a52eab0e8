"""Computes the place of a row on a space-filling curve through its columns, from a sample of the rows.

Runs in this process and inside Spark tasks, where it is pickled by value.

    value of a column  ->  share of the sample below it, as a number of BITS bits  ->  cell  ->  number on the curve

Shares and not ranks: a column with two values splits the grid in the middle and not in a corner, so a column with few
values counts as much as one with many.

1. The share rises with the value, in Spark's order: null first, NaN last, text by its bytes.
2. Every row has a place, whatever the sample misses: the curve only affects the layout.
3. Cuts divide the curve into parts with about as many rows of the sample each, up to a third more or less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.plan.maintain.hilbert import hilbert, interleave

SAMPLE_ROWS = 1 << 17
PLACE_BITS = 40  # of a row's number on the curve; what is above them numbers the part

_BITS = 12  # per column: 4,096 shares, from a sample of 32 times as many rows
_ROOM = 0.15  # of a part: how far a cut may move to each side
_TEXT_BYTES = 64  # of a text that are compared
_EXACT_DIGITS = 18  # of a decimal in 64 bits


class Along(Enum):
    """A space-filling curve; the value is its name in a format."""

    HILBERT = "hilbert"
    Z_ORDER = "zorder"


@dataclass(frozen=True)
class Shares:
    """The share of a sample that lies below a value."""

    bounds: NDArray[np.generic]  # ascending, distinct
    ids: NDArray[np.int64]  # of values from each bound up to the next
    nan_id: int

    def of(self, column: pa.Array) -> NDArray[np.int64]:
        """A number per row; null is 0."""
        valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
        values = sortable(column)
        if not len(self.bounds):
            shares = np.zeros(len(values), np.int64)
        else:
            at = np.searchsorted(self.bounds, values.astype(self.bounds.dtype), side="right") - 1
            shares = self.ids[np.maximum(at, 0)]
        if values.dtype.kind == "f":
            shares = np.where(np.isnan(values), self.nan_id, shares)
        return np.where(valid, shares, 0)


@dataclass(frozen=True)
class Curve:
    """A curve through some columns, cut into parts."""

    along: Along
    bits: int
    columns: tuple[Shares, ...]
    cuts: NDArray[np.int64]  # the first number of every part but the first

    @property
    def parts(self) -> int:
        return len(self.cuts) + 1

    def place(self, columns: Sequence[pa.Array]) -> NDArray[np.int64]:
        """Part and number of each row as one integer, which sorts rows along the curve."""
        number = self.number(columns)
        return np.searchsorted(self.cuts, number, side="right").astype(np.int64) << PLACE_BITS | number

    def number(self, columns: Sequence[pa.Array]) -> NDArray[np.int64]:
        cells = [shares.of(column) for shares, column in zip(self.columns, columns, strict=True)]
        return (hilbert if self.along is Along.HILBERT else interleave)(cells, self.bits)


def curve_of(sample: Sequence[pa.Array], along: Along, parts: int) -> Curve:
    """The curve for a sample of rows, given as columns."""
    bits = min(_BITS, PLACE_BITS // len(sample))
    whole = Curve(along, bits, tuple(_shares(column, bits) for column in sample), np.empty(0, np.int64))
    numbers = np.sort(whole.number(sample))
    if parts < 2 or not len(numbers):
        return whole
    return Curve(along, bits, whole.columns, _cuts(numbers, parts))


def _cuts(numbers: NDArray[np.int64], parts: int) -> NDArray[np.int64]:
    """Where to cut sorted numbers: near even distances, moved to the border of the largest block of the grid.

    So a part is few whole blocks.
    """
    at = np.arange(1, parts) * len(numbers) / parts
    room = _ROOM * len(numbers) / parts
    low, high = (numbers[np.clip(at + by, 0, len(numbers) - 1).astype(np.int64)] for by in (-room, room))
    differ = np.frexp((low ^ high).astype(np.float64))[1]  # the highest bit that differs, counted from 1
    cuts = np.where(low == high, high, high >> np.maximum(differ - 1, 0) << np.maximum(differ - 1, 0))
    # Rows with the same number stay together.
    return np.unique(cuts[cuts > numbers[0]])


def sortable(column: pa.Array) -> NDArray[np.generic]:
    """Values as numbers or bytes that sort like them; nulls become any value."""
    type_ = column.type
    if pa.types.is_dictionary(type_):
        return sortable(column.dictionary_decode())
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        texts = pc.fill_null(column, "").cast(pa.large_binary()).to_numpy(zero_copy_only=False)
        return texts.astype(f"S{_TEXT_BYTES}") if len(texts) else np.empty(0, f"S{_TEXT_BYTES}")
    if pa.types.is_decimal(type_):
        return _unscaled(column.cast(pa.decimal128(type_.precision, type_.scale)))
    if pa.types.is_floating(type_):
        return _numbers(column.cast(pa.float64()))
    if pa.types.is_date32(type_):
        return _numbers(column.cast(pa.int32()).cast(pa.int64()))
    return _numbers(column.cast(pa.int64()))


def _numbers(column: pa.Array) -> NDArray[np.generic]:
    return np.asarray(pc.fill_null(column, pa.scalar(0, column.type)).to_numpy(zero_copy_only=False))


def _unscaled(column: pa.Decimal128Array) -> NDArray[np.generic]:
    """Decimals as integers of one scale; approximate beyond 18 digits."""
    words = np.frombuffer(column.buffers()[1] or b"", np.int64).reshape(-1, 2)  # low and high half
    words = words[column.offset : column.offset + len(column)]
    if column.type.precision <= _EXACT_DIGITS:
        return words[:, 0]
    return words[:, 1] * 2.0**64 + words[:, 0].astype(np.uint64)


def _shares(column: pa.Array, bits: int) -> Shares:
    """Bounds at even distances among the sorted values, each with the share of rows below it."""
    total = max(1, len(column))
    values = sortable(column.drop_null())
    nulls = column.null_count
    nan = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    ordered = np.sort(values[~nan])
    taken = np.unique(np.arange(1 << bits) * len(ordered) >> bits) if len(ordered) else np.empty(0, np.int64)
    bounds = np.unique(ordered[taken])
    below = nulls + np.searchsorted(ordered, bounds, side="left")
    ids = (below * (1 << bits) // total).astype(np.int64)
    return Shares(bounds, ids, int((total - int(nan.sum())) * (1 << bits) // total) if nan.any() else (1 << bits) - 1)
