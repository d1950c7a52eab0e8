"""Some bytes of Avro: the places where values begin and end in them, and the values of many places at once.

1. Only Python's own indexing and numpy's touch the bytes: a place beyond them is an IndexError, never memory of others.
2. A length is never below zero, and a number has at most 64 bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Run: TypeAlias = Callable[[bytes, int], re.Match[bytes] | None]
_NUMBER_BYTES = 10
_NUMBER: Run = re.compile(rb"[\x80-\xff]{1,9}[\x00-\x7f]").match  # one of several bytes


class Malformed(Exception):
    """Bytes that are no Avro, or not by their schema; says what is wrong with them."""


def number_at(data: bytes, at: int) -> tuple[int, int]:
    """The number that stands somewhere, and where it ends."""
    number = 0
    for place, byte in enumerate(data[at : at + _NUMBER_BYTES]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if number >> 64:
                break
            return (number >> 1) ^ -(number & 1), at + place + 1
    raise IndexError(f"no number ends where one begins, at byte {at}")


def after_number(data: bytes, at: int) -> int:
    """Where a number ends."""
    number = _NUMBER(data, at)
    if number is None:
        raise IndexError(f"no number ends where one begins, at byte {at}")
    return number.end()


def after_blob(data: bytes, at: int) -> int:
    """Where a text, or bytes, end whose length stands somewhere, which may be beyond the data."""
    low, high = data[at], data[at + 1]
    if low & 0x81 == 0x80 and high < 0x80:
        return at + 2 + (low >> 1 & 0x3F | high << 6)
    size, start = number_at(data, at)
    if size < 0:
        raise Malformed("a length is below zero")
    return start + size


def counted(data: bytes, at: int) -> tuple[int, int, int | None]:
    """How many items follow in a list, where the first begins, and where the last must end if that is said."""
    count, first = number_at(data, at)
    told = None
    if count < 0:
        size, first = number_at(data, first)
        count, told = -count, first + size
    if count > len(data) - first:
        raise IndexError(f"a list claims {count} items where {len(data) - first} bytes are left")
    return count, first, told


@lru_cache(maxsize=1024)
def run_of(count: int) -> Run:
    """Finds where so many numbers end that stand behind each other."""
    return re.compile(rb"(?>(?>[\x80-\xff]{0,9}[\x00-\x7f]){%d})" % count).match


def numbers_at(raw: NDArray[np.uint8], places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers that begin at some places, and where they end."""
    bytes_ = raw[places]
    values = (bytes_ & 0x7F).astype(np.uint64)
    ends = places + 1
    going = np.flatnonzero(bytes_ >= 0x80)
    for step in range(1, _NUMBER_BYTES):
        if not len(going):
            break
        bytes_ = raw[places[going] + step]
        if step == _NUMBER_BYTES - 1 and (bytes_ > 1).any():
            raise Malformed("a number is no signed 64-bit number")
        values[going] |= (bytes_ & 0x7F).astype(np.uint64) << np.uint64(7 * step)
        ends[going] += 1
        going = going[bytes_ >= 0x80]
    return (values >> np.uint64(1)).astype(np.int64) ^ -(values & np.uint64(1)).astype(np.int64), ends


def blobs(raw: NDArray[np.uint8], places: NDArray[np.int64], type_: pa.DataType) -> pa.Array:
    """The texts or bytes whose lengths stand at some places; null where a place is below zero."""
    there = places >= 0
    lengths, starts = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
    lengths[there], starts[there] = numbers_at(raw, places[there])
    return slices(raw, starts, lengths, there, type_)


def slices(
    raw: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    there: NDArray[np.bool_],
    type_: pa.DataType,
) -> pa.Array:
    """Stretches of the bytes; null, and without length, where one is not there."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    data = raw[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])]
    validity = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    made = pa.Array.from_buffers(type_, len(starts), buffers)
    if pa.types.is_string(type_):
        made.validate(full=True)  # that it is UTF-8
    return made
