"""A window over Avro bytes: decodes values at one offset or at many offsets at once.

1. The bytes are read only by indexing that checks its bounds, in Python and numpy, and Arrow gets slices whose bounds
   were checked: an offset beyond the bytes is an error and never reads other memory.
2. A length is never negative, and a number has at most 64 bits.
3. The bytes walked and the values held stay below `LIMIT_WALKS` and `LIMIT_CELLS` times the bytes of the window.
4. A window that is not strict takes guessed offsets: a malformed value ends beyond the bytes instead of raising.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Places: TypeAlias = NDArray[np.int64]
Run: TypeAlias = Callable[[bytes, int], re.Match[bytes] | None]
NUMBER = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_LONG_NUMBER: Run = re.compile(rb"[\x80-\xff]{1,9}[\x00-\x7f]").match
_NUMBER_BYTES = 10
_ODD = 0x81  # bits of a byte that is a number of several bytes, or below zero
OTHER_SIZE = "a list has another size than it says"
LIMIT_CELLS, LIMIT_WALKS = 16, 64
_FEW_CELLS = 1 << 16


class Malformed(Exception):
    """Bytes that are not Avro, or do not fit their schema."""


def number_at(data: bytes, at: int) -> tuple[int, int]:
    """The number at an offset, and the offset behind it."""
    number = 0
    for place, byte in enumerate(data[at : at + _NUMBER_BYTES]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if number >> 64:
                break
            return (number >> 1) ^ -(number & 1), at + place + 1
    raise IndexError(f"no number ends where one begins, at byte {at}")


def after_number(data: bytes, at: int) -> int:
    """The offset behind a number."""
    if data[at] < 0x80:
        return at + 1
    number = _LONG_NUMBER(data, at)
    if number is None:
        raise IndexError(f"no number ends where one begins, at byte {at}")
    return number.end()


def after_blob(data: bytes, at: int) -> int:
    """The offset behind a string or bytes value, which may lie beyond the data."""
    low = data[at]
    if not low & _ODD:
        return at + 1 + (low >> 1)
    size, start = number_at(data, at)
    if size < 0:
        raise Malformed("a length is below zero")
    return start + size


def counted(data: bytes, at: int) -> tuple[int, int, int | None]:
    """The number of items in a block of a list, where the first begins, and where the last must end if it is stated."""
    count, first = number_at(data, at)
    end = None
    if count < 0:
        size, first = number_at(data, first)
        count, end = -count, first + size
    if count > len(data) - first:
        raise IndexError(f"a list claims {count} items where {len(data) - first} bytes are left")
    return count, first, end


@lru_cache(maxsize=1024)
def run_of(count: int) -> Run:
    """A matcher of `count` consecutive numbers."""
    return re.compile(rb"(?>(?>%b){%d})" % (NUMBER, count)).match


class AvroWindow:
    """Some bytes; values are decoded at many ascending offsets at once, and do not overlap."""

    def __init__(self, data: bytes) -> None:
        self.data, self.size, self._strict = data, len(data), True
        self._raw = np.frombuffer(data + b"\0", np.uint8)
        self._cells = _FEW_CELLS + LIMIT_CELLS * len(data)
        self._claims = _FEW_CELLS + LIMIT_WALKS * len(data)

    def loosely(self) -> AvroWindow:
        """The same bytes for guessed offsets."""
        window = copy(self)
        window._strict = False
        return window

    @cached_property
    def _stops(self) -> Places:
        """The last bytes of numbers: all bytes without a continuation bit."""
        return np.flatnonzero(self._raw < 0x80)

    def checked(self, after: Places, wrong: NDArray[np.bool_], why: str) -> Places:
        """Ends of values; raises if some are wrong, or sets these beyond the bytes if the window is not strict."""
        if wrong.any():
            if self._strict:
                raise Malformed(why)
            after[wrong] = self.size + 1
        return after

    def spend(self, cells: int) -> None:
        """Counts Arrow values that have no bytes, such as the fields of a null record."""
        self._cells -= cells
        if self._cells < 0:
            raise Malformed("its null records have more fields than it has bytes")

    def claim(self, count: int) -> None:
        """Counts the bytes that items of lists need at least, so that guesses with overlapping lists end soon."""
        self._claims -= count
        if self._claims < 0 or count > self.size:
            raise Malformed("its lists claim more items than it has bytes")

    def bytes_at(self, at: Places) -> NDArray[np.uint8]:
        """The bytes at some offsets; behind the last there is a zero."""
        if self._strict and len(at) and at[-1] >= self.size:
            raise IndexError(f"byte {at[-1]} is looked for where there are {self.size}")
        return self._raw.take(at, mode="clip")

    def after_numbers(self, at: Places, count: int | Places = 1) -> Places:
        """The offsets behind `count` consecutive numbers."""
        if isinstance(count, int) and self.bytes_at(at).max(initial=0) < 0x80:
            return at + 1
        last = np.searchsorted(self._stops, at) + (count - 1)
        after = self._stops.take(last, mode="clip") + 1
        after[at >= self.size] = self.size + 1
        return self.checked(after, (after > self.size) | (after - at > _NUMBER_BYTES * count), "a number has no end")

    def number_items(self, at: Places, counts: Places, per: int) -> Places:
        """Where items of `per` numbers each begin, `counts` of them at each offset."""
        # The last byte of a number precedes each item: that of the item before it, or of the list's count.
        before = np.repeat(np.searchsorted(self._stops, at) - 1 - per * (np.cumsum(counts) - counts), counts)
        before += np.arange(0, per * len(before), per)
        return self._stops.take(before, mode="clip") + 1

    def one_by_one(self, skip: Callable[[bytes, int], int], at: int, count: int) -> list[int]:
        """Where `count` consecutive values begin, and where the last ends."""
        places = [at]
        try:
            for _ in range(count):
                at = skip(self.data, at)
                places.append(at)
        except (IndexError, Malformed):
            if self._strict:
                raise
            places += [self.size + 1] * (count + 1 - len(places))
        return places

    def further_blocks(self, skip: Callable[[bytes, int], int], at: int) -> list[int]:
        """Where the items of the further blocks of a list begin, and where the list ends."""
        places: list[int] = []
        try:
            while True:
                count, at, end = counted(self.data, at)
                if not count:
                    return [*places, at]
                for _ in range(count):
                    places.append(at)
                    at = skip(self.data, at)
                if end is not None and end != at:
                    raise Malformed(OTHER_SIZE)
        except (IndexError, Malformed):
            if self._strict:
                raise
            return [self.size + 1]

    def numbers(self, at: Places) -> tuple[Places, Places]:
        """The numbers at some offsets, and the offsets behind them."""
        bytes_ = self.bytes_at(at)
        going = np.flatnonzero(bytes_ >= 0x80)
        values = (bytes_ & 0x7F).astype(np.uint64)
        after = at + 1
        wrong = np.zeros(len(at), np.bool_)
        for step in range(1, _NUMBER_BYTES):
            if not len(going):
                break
            bytes_ = self.bytes_at(at[going] + step)
            if step == _NUMBER_BYTES - 1:
                wrong[going] = bytes_ > 1
            values[going] |= (bytes_ & 0x7F).astype(np.uint64) << np.uint64(7 * step)
            after[going] += 1
            going = going[bytes_ >= 0x80]
        signed = (values >> np.uint64(1)).astype(np.int64) ^ -(values & np.uint64(1)).astype(np.int64)
        return signed, self.checked(after, wrong, "a number is no signed 64-bit number")

    def blobs(self, at: Places) -> tuple[Places, Places]:
        """Where the strings or bytes values at some offsets begin and end, without their lengths."""
        lengths, starts = self.numbers(at)
        wrong = (lengths < 0) | (lengths > self.size)
        return starts, self.checked(starts + lengths, wrong, "a length is below zero, or goes beyond its block")

    def slices(self, starts: Places, ends: Places, type_: pa.DataType) -> pa.Array:
        """Ranges of the bytes as Arrow values."""
        bounds = np.empty(2 * len(starts), np.int32)
        bounds[0::2], bounds[1::2] = starts, ends
        if len(bounds) and (ends[-1] > self.size or starts[0] < 0 or (bounds[1:] < bounds[:-1]).any()):
            raise Malformed("a value goes on beyond its block")
        # Every other value of the array is a gap between two values.
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self.data)]
        both = pa.Array.from_buffers(type_, max(len(bounds) - 1, 0), buffers)
        values = both.take(pa.array(np.arange(0, len(bounds), 2)))
        if pa.types.is_string(type_):
            values.validate(full=True)  # checks UTF-8
        return values

    def rows_of_bytes(self, at: Places, width: int) -> NDArray[np.uint8]:
        """`width` bytes from each offset, as rows of a matrix."""
        if len(at) and at[-1] > self.size - width:
            raise IndexError(f"a value of {width} bytes goes on beyond its block")
        rows: NDArray[np.uint8] = self._raw[at[:, None] + np.arange(width)]
        return rows
