"""Encodes index keys, of one or several columns, so that comparing the encoded keys compares the keys.

A single column of at most eight bytes becomes a signed 64-bit *code*; anything else (strings, binary, wide decimals,
several columns) becomes a *text*: bytes in the order of the keys.

1. The order is that of the table's comparisons: numbers by value with NaN last and -0.0 equal to 0.0, strings and
   binary by bytes, false before true, dates and timestamps by time. In keys of several columns null comes first.
2. Two keys are equal iff their codes or texts are. A single column that is null has neither; `null` marks it.
3. An interval of keys includes its low end and excludes its high end; None means that it is open.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.storage.arrays import truths

Numbers: TypeAlias = NDArray[np.int64]
Bound: TypeAlias = int | bytes | None

_SIGN = np.uint64(1 << 63)
_NULL, _VALUE, _AFTER = b"\0", b"\1", b"\2"
_SMALL_DECIMAL = 18  # digits that fit a code


@dataclass(frozen=True, slots=True)
class Interval:
    """Keys from `low`, included, to `high`, excluded; None: open."""

    low: Bound
    high: Bound


def is_keyable(type_: pa.DataType) -> bool:
    """Whether values of a type can be keys."""
    return _is_coded(type_) or pa.types.is_decimal(type_) or _is_text(type_)


def is_coded(types: Sequence[pa.DataType]) -> bool:
    """Whether keys of these columns are codes, else they are texts."""
    return len(types) == 1 and _is_coded(types[0])


@dataclass(frozen=True)
class Keys:
    """Keys of consecutive rows: codes or texts, and which of them are null."""

    codes: Numbers | None  # of null keys: anything; None: there are texts
    texts: pa.Array  # of binary, null where the key is; None where there are codes
    null: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.null)

    @property
    def values(self) -> pa.Array:
        """Codes or texts, as an array."""
        return self.texts if self.codes is None else pa.array(self.codes)

    @property
    def known(self) -> pa.Array:
        """Codes or texts, null where the key is."""
        return self.texts if self.codes is None else pa.array(self.codes, mask=self.null)

    def order(self) -> Numbers:
        """The rows in the order of their keys, null ones first; equal ones stay as they are."""
        if self.codes is not None:
            rows = np.argsort(self.codes, kind="stable")
        else:
            table = pa.table({"key": self.texts, "row": np.arange(len(self))})
            indices = pc.sort_indices(table, sort_keys=[("key", "ascending"), ("row", "ascending")])
            rows = np.asarray(indices.to_numpy(), np.int64)
        return np.concatenate((rows[self.null[rows]], rows[~self.null[rows]])) if self.null.any() else rows


def keys_of(columns: Sequence[pa.Array]) -> Keys:
    """The keys that rows have in these columns."""
    arrays = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]
    if is_coded([a.type for a in arrays]):
        return Keys(_codes(arrays[0]), None, _null(arrays[0]))
    if len(arrays) == 1:
        return Keys(None, _bytes(arrays[0]), _null(arrays[0]))
    return Keys(None, _joined(arrays), np.zeros(len(arrays[0]), bool))


def prefix_of(columns: Sequence[pa.Array]) -> pa.Array:
    """The prefix of the texts of keys whose first columns have these values."""
    return _joined([c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns])


def after_prefix(prefix: bytes) -> bytes:
    """The first text after all keys that begin with a prefix."""
    return prefix + _AFTER


def bounded(prefix: bytes, low: pa.Array | None, high: pa.Array | None, *, low_in: bool, high_in: bool) -> Interval:
    """The interval of keys with a prefix whose last column is between two values; null is not between any."""
    first = prefix + _VALUE
    if low is not None:
        first = _joined([low])[0].as_py()
        first = prefix + (first if low_in else first + _AFTER)
    last = prefix + _AFTER
    if high is not None:
        text = prefix + _joined([high])[0].as_py()
        last = text + _AFTER if high_in else text
    return Interval(first, last)


def following(key: int | bytes) -> int | bytes:
    """The least key after one."""
    return key + 1 if isinstance(key, int) else key + b"\0"


class SortedCodes:
    """Ascending codes."""

    def __init__(self, codes: Numbers) -> None:
        self.codes = codes

    def __len__(self) -> int:
        return len(self.codes)

    def between(self, interval: Interval) -> tuple[int, int]:
        """The first row of an interval, and the one after its last."""
        return _place(self.codes, interval.low, 0), _place(self.codes, interval.high, len(self.codes))

    def equal(self, keys: Numbers) -> tuple[Numbers, Numbers]:
        """The first row of each key, and the one after its last."""
        return np.searchsorted(self.codes, keys, "left"), np.searchsorted(self.codes, keys, "right")


class SortedTexts:
    """Ascending texts, searched by the eight bytes after their common prefix, then by all of their bytes."""

    def __init__(self, texts: pa.Array) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def _common(self) -> bytes:
        return _shared(self.texts[0].as_py(), self.texts[-1].as_py()) if len(self.texts) else b""

    @cached_property
    def _heads(self) -> NDArray[np.uint64]:
        return _heads(self.texts, len(self._common))

    def between(self, interval: Interval) -> tuple[int, int]:
        """The first row of an interval, and the one after its last."""
        low = 0 if interval.low is None else self._first(interval.low)
        high = len(self) if interval.high is None else self._first(interval.high)
        return low, max(low, high)

    def equal(self, keys: pa.Array) -> tuple[Numbers, Numbers]:
        """The first row of each key, and the one after its last."""
        ends = [self.between(Interval(text, following(text))) for text in keys.to_pylist()]  # one per key
        return np.array([low for low, _ in ends], np.int64), np.array([high for _, high in ends], np.int64)

    def _first(self, bound: int | bytes) -> int:
        """The first row that is at or after a text."""
        assert isinstance(bound, bytes), "texts are compared with texts"
        if not len(self):
            return 0
        common = self._common
        if not bound.startswith(common):
            return 0 if bound < common else len(self)
        head = np.uint64(int.from_bytes(bound[len(common) : len(common) + 8].ljust(8, b"\0"), "big"))
        low = int(np.searchsorted(self._heads, head, "left"))
        high = int(np.searchsorted(self._heads, head, "right"))
        return bisect.bisect_left(range(high), bound, low, high, key=lambda row: self.texts[row].as_py())


def _shared(one: bytes, two: bytes) -> bytes:
    """The common prefix of two texts."""
    least = min(len(one), len(two))
    return one[: next((at for at in range(least) if one[at] != two[at]), least)]


def _place(codes: Numbers, bound: Bound, otherwise: int) -> int:
    if bound is None:
        return otherwise
    assert isinstance(bound, int), "codes are compared with codes"
    if bound > np.iinfo(np.int64).max:
        return len(codes)
    return int(np.searchsorted(codes, bound, "left"))


def _is_coded(type_: pa.DataType) -> bool:
    if pa.types.is_decimal(type_):
        return bool(type_.precision <= _SMALL_DECIMAL)
    return bool(
        pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_date32(type_)
        or pa.types.is_timestamp(type_)
    )


def _is_text(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(kind(type_) for kind in kinds)


def _null(values: pa.Array) -> NDArray[np.bool_]:
    return truths(values.is_null()) if values.null_count else np.zeros(len(values), bool)


def _codes(values: pa.Array) -> Numbers:
    """Signed integers in the order of the values; those of nulls are arbitrary."""
    type_ = values.type
    if pa.types.is_int64(type_) and not values.null_count:
        plain: Numbers = values.to_numpy()
        return plain
    if pa.types.is_floating(type_):
        return _float_codes(values.cast(pa.float64()))
    if pa.types.is_decimal(type_):
        raw = np.frombuffer(_data(values, 16), np.int64)[values.offset * 2 : (values.offset + len(values)) * 2 : 2]
        return np.where(_null(values), 0, raw)
    if pa.types.is_date32(type_):
        values = values.cast(pa.int32())
    filled = pc.fill_null(values.cast(pa.int64()), pa.scalar(0, pa.int64()))
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def _float_codes(values: pa.Array) -> Numbers:
    doubles = np.asarray(pc.fill_null(values, pa.scalar(0.0)).to_numpy(zero_copy_only=False), np.float64) + 0.0
    doubles = np.where(np.isnan(doubles), np.nan, doubles)  # one NaN, the one without a sign
    bits = np.abs(doubles).view(np.int64)
    return np.where(np.signbit(doubles) & ~np.isnan(doubles), -bits, bits)


def _data(values: pa.Array, width: int) -> pa.Buffer:
    buffer = values.buffers()[1]
    return pa.py_buffer(b"\0" * width * (values.offset + len(values))) if buffer is None else buffer


def _bytes(values: pa.Array) -> pa.Array:
    """The text of a single column: null where the value is."""
    if _is_text(values.type):
        return values.cast(pa.binary())
    fixed = _fixed(values).cast(pa.binary())
    return pc.if_else(values.is_valid(), fixed, pa.scalar(None, pa.binary()))


def _fixed(values: pa.Array) -> pa.Array:
    """Values of a fixed width as bytes in the same order."""
    if pa.types.is_decimal(values.type) and not _is_coded(values.type):
        wide = values.cast(pa.decimal128(38, values.type.scale))
        count = len(wide)
        halves = np.frombuffer(_data(wide, 16), np.uint64)[wide.offset * 2 : (wide.offset + count) * 2].reshape(-1, 2)
        big = np.stack((halves[:, 1] ^ _SIGN, halves[:, 0]), axis=1).astype(">u8")
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), count, [None, pa.py_buffer(big.tobytes())])
    raw = (_codes(values).view(np.uint64) ^ _SIGN).astype(">u8")
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(raw), [None, pa.py_buffer(raw.tobytes())])


def _joined(columns: Sequence[pa.Array]) -> pa.Array:
    """Several columns as one text: a byte before each value says whether it is null, and a mark ends each string."""
    parts = []
    for values in columns:
        if _is_text(values.type):
            body = pc.replace_substring(values.cast(pa.binary()), b"\0", b"\0\xff")
            body = pc.binary_join_element_wise(body, b"\0\0", b"")
        else:
            body = _fixed(values).cast(pa.binary())
        marked = pc.binary_join_element_wise(_VALUE, body, b"")
        parts.append(pc.if_else(values.is_valid(), marked, pa.scalar(_NULL, pa.binary())))
    return pc.binary_join_element_wise(*parts, b"") if len(parts) > 1 else parts[0]


def _heads(texts: pa.Array, skipped: int) -> NDArray[np.uint64]:
    """Eight bytes of each text after the first `skipped`, as a number, padded with zeros."""
    _, offsets, data = texts.buffers()
    width = np.int64 if pa.types.is_large_binary(texts.type) else np.int32
    ends = np.frombuffer(offsets, width)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    letters = np.frombuffer(data if data is not None else b"", np.uint8)
    starts = ends[:-1] + skipped
    at = starts[:, None] + np.arange(8)
    inside = at < ends[1:, None]
    heads = np.where(inside, letters[np.minimum(at, max(len(letters) - 1, 0))] if len(letters) else 0, 0)
    return np.ascontiguousarray(heads.astype(np.uint8)).view(">u8").ravel().astype(np.uint64)
