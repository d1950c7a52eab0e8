"""Columns of single values and of lists, for the types that Avro has.

A walk over the bytes notes where each value begins; the values are made from that afterwards, all at once.

1. A step takes the place where a value begins and gives the place where it ends, which is never before it. One that
   would need bytes beyond the data raises IndexError, or ends beyond it.
2. A list claims no more items than there are bytes left, and no item has no bytes, so that a walk takes time in
   proportion to the bytes, whatever stands in them.
3. A number keeps within its type's bits, a boolean is 0 or 1, a text UTF-8, or making them raises.
4. Values of one byte, and lists of one run, are the usual ones: steps go for them first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.iceberg.avro_window import (
    Malformed,
    Run,
    after_blob,
    after_number,
    blobs,
    counted,
    numbers_at,
    run_of,
    slices,
)

Step: TypeAlias = Callable[[int], int]
_ODD = 0x81  # bits of a byte that is a number of several bytes, or below zero


@dataclass(frozen=True, slots=True)
class Choice:
    """The bytes that say whether a value is there or null."""

    there: int
    absent: int


class Column(Protocol):
    """Where the values of one field go."""

    read: Step

    def null(self) -> None:
        """Take a null."""

    def made(self, count: int) -> pa.Array:
        """The values, of which there are `count`."""


def maybe(data: bytes, choice: Choice | None, take: Step, null: Callable[[], None]) -> Step:
    """A step over a value that says first whether it is there, if there is a choice."""
    if choice is None:
        return take
    there, absent = choice.there, choice.absent

    def read(at: int) -> int:
        branch = data[at]
        if branch == there:
            return take(at + 1)
        if branch != absent:
            raise Malformed("a value is of none of its types")
        null()
        return at + 1

    return read


class _Values:
    """Single values, known by where they begin; below zero: null."""

    def __init__(self, data: bytes, choice: Choice | None, take: Callable[[list[int]], Step]) -> None:
        self._raw = np.frombuffer(data, np.uint8)
        self._places: list[int] = []
        self.read: Step = maybe(data, choice, take(self._places), self.null)

    def null(self) -> None:
        self._places.append(-1)

    def _starts(self) -> NDArray[np.int64]:
        return np.array(self._places, np.int64)


class Numbers(_Values):
    """Whole numbers."""

    def __init__(self, data: bytes, choice: Choice | None, *, bits: int) -> None:
        self._bits = bits

        def take(places: list[int]) -> Step:
            add = places.append

            def read(at: int) -> int:
                add(at)
                return at + 1 if data[at] < 0x80 else after_number(data, at)

            return read

        super().__init__(data, choice, take)

    def made(self, count: int) -> pa.Array:
        places = self._starts()
        absent = places < 0
        values = np.zeros(count, np.int64)
        values[~absent] = _within(numbers_at(self._raw, places[~absent])[0], self._bits)
        return pa.array(values, mask=absent) if absent.any() else pa.array(values)


class Blobs(_Values):
    """Texts, or bytes."""

    def __init__(self, data: bytes, choice: Choice | None, type_: pa.DataType) -> None:
        self._type = type_

        def take(places: list[int]) -> Step:
            add = places.append

            def read(at: int) -> int:
                add(at)
                length = data[at]
                return after_blob(data, at) if length & _ODD else at + 1 + (length >> 1)

            return read

        super().__init__(data, choice, take)

    def made(self, count: int) -> pa.Array:
        return blobs(self._raw, self._starts(), self._type)


class Fixed(_Values):
    """Values of one width, given as bytes, or as what a function makes of a row of bytes per value."""

    def __init__(
        self,
        data: bytes,
        choice: Choice | None,
        width: int,
        make: Callable[[NDArray[np.uint8]], pa.Array] | None = None,
    ) -> None:
        self._width, self._make = width, make

        def take(places: list[int]) -> Step:
            add = places.append

            def read(at: int) -> int:
                add(at)
                return at + width

            return read

        super().__init__(data, choice, take)

    def made(self, count: int) -> pa.Array:
        places = self._starts()
        there = places >= 0
        if self._make is None:
            return slices(self._raw, places, np.where(there, self._width, 0), there, pa.binary())
        values = self._make(self._raw[places[there][:, None] + np.arange(self._width)[None, :]])
        return values if there.all() else values.take(pa.array(np.cumsum(there) - 1, mask=~there))


def booleans(raw: NDArray[np.uint8]) -> pa.Array:
    """Booleans, of a byte each."""
    if (raw > 1).any():
        raise Malformed("a boolean is neither 0 nor 1")
    return pa.array(raw.ravel().astype(np.bool_))


def floats(width: int) -> Callable[[NDArray[np.uint8]], pa.Array]:
    """Makes fractional numbers of so many bytes."""
    return lambda raw: pa.array(raw.view(np.dtype(f"<f{width}")).ravel())


def _within(values: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    if bits == 32 and len(values) and (values.min() < -(1 << 31) or values.max() >= 1 << 31):
        raise Malformed("an int has more than 32 bits")
    return values


class _Lists:
    """Lists: where each of them ends among the items of all."""

    def __init__(self, data: bytes, choice: Choice | None, items: Callable[[int, int], int]) -> None:
        self._ends: list[int] = [0]
        self._absent: list[int] = []
        ends = self._ends
        there, absent = (-1, -1) if choice is None else (choice.there, choice.absent)

        def read(at: int) -> int:
            if there >= 0:
                branch = data[at]
                at += 1
                if branch == absent:
                    self.null()
                    return at
                if branch != there:
                    raise Malformed("a value is of none of its types")
            count = data[at]
            if not count & _ODD:
                if not count:
                    ends.append(ends[-1])
                    return at + 1
                after = items(at + 1, count >> 1)
                if not data[after]:
                    ends.append(ends[-1] + (count >> 1))
                    return after + 1
                ends.append(ends[-1] + (count >> 1))
                at = after
            else:
                ends.append(ends[-1])
            while True:
                some, at, told = counted(data, at)
                if not some:
                    return at
                at = items(at, some)
                if told is not None and told != at:
                    raise Malformed("a list has another size than it says")
                ends[-1] += some

        self.read: Step = read

    def null(self) -> None:
        self._absent.append(len(self._ends) - 1)
        self._ends.append(self._ends[-1])

    def _listed(self, inside: pa.Array, count: int) -> pa.ListArray:
        gone = None
        if self._absent:
            gone = np.zeros(count, np.bool_)
            gone[self._absent] = True
        ends = pa.array(np.array(self._ends, np.int32))
        return pa.ListArray.from_arrays(ends, inside, mask=None if gone is None else pa.array(gone))


class NumberLists(_Lists):
    """Lists of whole numbers, or of pairs of an int and a long; those that are not kept are stepped over."""

    def __init__(self, data: bytes, choice: Choice | None, per: int, *, bits: int = 64, kept: bool = True) -> None:
        self._per, self._bits = per, bits
        self._runs: list[bytes] = []
        add = self._runs.append

        runs: dict[int, Run] = {}

        def items(first: int, count: int) -> int:
            match = runs.get(count)
            if match is None:
                match = runs[count] = run_of(count * per)
            run = match(data, first)
            if run is None:
                raise IndexError(f"no {count * per} numbers stand behind each other at byte {first}")
            if kept:
                add(run.group())
            return run.end()

        super().__init__(data, choice, items)

    def made(self, count: int) -> pa.Array:
        raw = np.frombuffer(b"".join(self._runs), np.uint8)
        stops = np.flatnonzero(raw < 0x80)
        numbers = numbers_at(raw, np.concatenate((np.zeros(1, np.int64), stops[:-1] + 1)))[0] if len(stops) else stops
        if self._per == 1:
            return self._listed(pa.array(_within(numbers, self._bits)), count)
        keys = pa.array(_within(numbers[0::2], 32))
        return self._listed(pa.StructArray.from_arrays([keys, pa.array(numbers[1::2])], ["key", "value"]), count)


class PairLists(_Lists):
    """Lists of pairs of an int and some bytes."""

    def __init__(self, data: bytes, choice: Choice | None) -> None:
        self._raw = np.frombuffer(data, np.uint8)
        self._places: list[int] = []
        add = self._places.append

        def items(at: int, count: int) -> int:
            for _ in range(count):
                add(at)
                at = at + 1 if data[at] < 0x80 else after_number(data, at)
                length = data[at]
                at = after_blob(data, at) if length & _ODD else at + 1 + (length >> 1)
            return at

        super().__init__(data, choice, items)

    def made(self, count: int) -> pa.Array:
        keys, places = numbers_at(self._raw, np.array(self._places, np.int64))
        values = blobs(self._raw, places, pa.binary())
        return self._listed(pa.StructArray.from_arrays([pa.array(_within(keys, 32)), values], ["key", "value"]), count)


class AnyLists(_Lists):
    """Lists of anything else."""

    def __init__(self, data: bytes, choice: Choice | None, inner: Column) -> None:
        self._inner = inner
        take = inner.read

        def items(at: int, count: int) -> int:
            for _ in range(count):
                at = take(at)
            return at

        super().__init__(data, choice, items)

    def made(self, count: int) -> pa.Array:
        return self._listed(self._inner.made(self._ends[-1]), count)
