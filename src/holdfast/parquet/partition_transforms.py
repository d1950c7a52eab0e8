"""Iceberg's partition transforms, computed on Arrow arrays, and the rows of each partition.

Spark tasks pickle this module by value: it imports only Arrow, numpy and modules of lower layers.

1. Rows belong to one partition exactly if all their transformed values are equal; null equals null, and floats are
   compared by their bits.
2. A partition value becomes a text without loss: integers, days and microseconds as digits, floats and bytes as hex.
3. A value that a transform cannot represent (a decimal of too many digits, too many hours) is refused.
4. Buckets are Murmur3 of 32 bits over the bytes that Iceberg specifies for each type, as in all engines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import Invalid
from holdfast.storage.arrays import truths

_UNITS = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
_MOST = 2**31 - 1
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
Texts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class PartitionTransform:
    """A transform of a column, with the name of its value in the metadata of files and in their paths."""

    column: str  # a name among the fields of a spec
    inside: tuple[int, ...]  # indexes from the column down to the nested field
    kind: str  # identity, bucket, truncate, year, month, day, hour, void
    parameter: int | None
    key: str
    folder: str


def rows_by_partition(
    columns: Sequence[pa.Array], by: Sequence[PartitionTransform]
) -> Iterator[tuple[Texts, pa.Array]]:
    """Each combination of transformed values, with the indexes of its rows; `columns` are what `by` transforms."""
    values = [transformed(_inner(c, one.inside), one) for c, one in zip(columns, by, strict=True)]
    codes = np.zeros(len(columns[0]), np.int64)
    for array in values:
        encoded = _comparable(array).dictionary_encode(null_encoding="encode")
        codes = np.unique(codes * len(encoded.dictionary) + encoded.indices.to_numpy(), return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    firsts = pa.array(order[starts])
    partitions = zip(*(texts(array.take(firsts)) for array in values), strict=True)
    for partition, rows in zip(partitions, np.split(order, starts[1:]), strict=True):
        yield partition, pa.array(rows)


def transformed(values: pa.Array, by: PartitionTransform) -> pa.Array:
    """The transform of every value; null for null."""
    match by.kind:
        case "identity":
            return values
        case "void":
            return pa.nulls(len(values), values.type)
        case "year" | "month" | "day" | "hour":
            return _calendar(values, _UNITS[by.kind], by.column)
        case "truncate" if by.parameter:
            return _truncated(values, by.parameter, by.column)
        case "bucket" if by.parameter:
            hashed = _hashes(values, by.column)
            buckets = (hashed & np.uint32(0x7FFFFFFF)).astype(np.int64) % by.parameter
            return pa.array(buckets.astype(np.int32), mask=_absent(values))
        case _:
            raise AssertionError(f"{by.kind} is no transform that tables are written with")


def texts(values: pa.Array) -> list[str | None]:
    """Values as texts, from which they can be parsed again."""
    return [_text(value) for value in _comparable(_integers(values)).to_pylist()]


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.hex() if isinstance(value, bytes) else str(value).lower() if isinstance(value, bool) else str(value)


def _integers(values: pa.Array) -> pa.Array:
    """Dates as days, times and timestamps as microseconds; other values as they are."""
    if pa.types.is_date(values.type):
        return values.cast(pa.int32())
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us", values.type.tz)).view("int64")
    return values.cast(pa.time64("us")).view("int64") if pa.types.is_time(values.type) else values


def _inner(column: pa.Array, inside: Sequence[int]) -> pa.Array:
    for at in inside:
        column = pc.struct_field(column, at)
    return column


def _comparable(values: pa.Array) -> pa.Array:
    """Values that are equal exactly if their rows belong to one partition: floats as the integers of their bits."""
    if not pa.types.is_floating(values.type):
        return values
    floats = values.cast(pa.float32() if pa.types.is_float16(values.type) else values.type)
    numbers = floats.fill_null(0).to_numpy(zero_copy_only=False)
    numbers = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers)
    return pa.array(numbers.view(f"i{numbers.itemsize}"), mask=_absent(values))


def _calendar(values: pa.Array, unit: str, column: str) -> pa.Array:
    counts = _integers(values).fill_null(0).to_numpy(zero_copy_only=False)
    moments = counts.astype("datetime64[D]" if pa.types.is_date(values.type) else "datetime64[us]")
    counted = moments.astype(f"datetime64[{unit}]").astype(np.int64)
    if len(counted) and max(counted.max(), -counted.min()) > _MOST:
        raise Invalid(
            f"a value of {column} is more than {_MOST} hours from 1970, which is no partition value: leave the row "
            "out, or give the table another partition spec"
        )
    return pa.array(counted.astype(np.int32), mask=_absent(values))


def _truncated(values: pa.Array, width: int, column: str) -> pa.Array:
    types, type_ = pa.types, values.type
    if types.is_string(type_):
        return pc.utf8_slice_codeunits(values, 0, width)
    if types.is_binary(type_):
        return pc.binary_slice(values, 0, width)
    if types.is_decimal(type_):
        encoded = values.dictionary_encode()
        return _truncated_decimals(encoded.dictionary, width, column).take(encoded.indices)
    if types.is_integer(type_):
        numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
        return pa.array(numbers - numbers % width, mask=_absent(values))
    raise Invalid(f"{column} is {type_}, which cannot be truncated for partitioning")


def _truncated_decimals(values: pa.Array, width: int, column: str) -> pa.Array:
    type_ = values.type
    whole = [n - n % width for n in unscaled(values) if n is not None]
    if beyond := next((n for n in whole if abs(n) >= 10**type_.precision), None):
        raise Invalid(
            f"a value of {column} truncated to multiples of {width} is {beyond} in units of 1E-{type_.scale}, which "
            f"has more digits than {type_}: widen the type of the column, or give the table another partition spec"
        )
    data = b"".join(n.to_bytes(type_.byte_width, "little", signed=True) for n in whole)
    return pa.Array.from_buffers(type_, len(whole), [None, pa.py_buffer(data)])


def _hashes(values: pa.Array, column: str) -> NDArray[np.uint32]:
    types, type_ = pa.types, values.type
    if types.is_integer(type_) or types.is_date(type_) or types.is_timestamp(type_) or types.is_time(type_):
        longs = _integers(values).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return _murmur(np.ascontiguousarray(longs).view(np.uint8).reshape(-1, 8), np.full(len(longs), 8))
    if types.is_decimal(type_):
        encoded = values.fill_null(0).dictionary_encode()
        blobs = [shortest(n) for n in unscaled(encoded.dictionary) if n is not None]
        hashed: NDArray[np.uint32] = _hashes_of_blobs(pa.array(blobs, pa.binary()))[encoded.indices.to_numpy()]
        return hashed
    if types.is_string(type_) or types.is_binary(type_):
        return _hashes_of_blobs(values.cast(pa.binary()).fill_null(b""))
    raise Invalid(f"{column} is {type_}, which has no buckets")


def _hashes_of_blobs(blobs: pa.Array) -> NDArray[np.uint32]:
    lengths = pc.binary_length(blobs).to_numpy(zero_copy_only=False)
    width = -(-int(lengths.max(initial=0)) // 4) * 4
    padded = np.zeros((len(blobs), width), np.uint8)
    _, offsets, data = blobs.buffers()
    starts = np.frombuffer(offsets, np.int32)[blobs.offset : blobs.offset + len(blobs)].astype(np.int64)
    letters = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    at = np.arange(width)[None, :]
    inside = at < lengths[:, None]
    places = np.where(inside, starts[:, None] + at, 0)
    if len(letters):
        padded[inside] = letters[places[inside]]
    return _murmur(padded, lengths)


def _murmur(data: NDArray[np.uint8], lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Murmur3, with seed 0, of each row of zero-padded bytes."""
    words = np.ascontiguousarray(data).view("<u4").reshape(len(data), -1)
    hashed = np.zeros(len(data), np.uint32)
    lengths = lengths.astype(np.int64)
    with np.errstate(over="ignore"):
        for at in range(words.shape[1]):
            mixed = _rotated(words[:, at] * _C1, 15) * _C2
            whole = _rotated(hashed ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
            remaining = lengths - 4 * at
            hashed = np.where(remaining >= 4, whole, np.where(remaining > 0, hashed ^ mixed, hashed))
        hashed = hashed ^ lengths.astype(np.uint32)
        hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return hashed ^ (hashed >> np.uint32(16))


def _rotated(words: NDArray[np.uint32], by: int) -> NDArray[np.uint32]:
    return (words << np.uint32(by)) | (words >> np.uint32(32 - by))


def unscaled(values: pa.Array) -> list[int | None]:
    """Decimals as integers of their smallest unit; Python's decimal context would round them."""
    width, buffer = values.type.byte_width, values.buffers()[1]
    data = b"" if buffer is None else buffer.slice(values.offset * width, len(values) * width).to_pybytes()
    return [
        int.from_bytes(data[at * width : (at + 1) * width], "little", signed=True) if is_valid else None
        for at, is_valid in enumerate(values.is_valid().to_pylist())
    ]


def shortest(number: int) -> bytes:
    """An integer in two's complement, big-endian, in as few bytes as possible."""
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _absent(values: pa.Array) -> NDArray[np.bool_]:
    return truths(values.is_null())
