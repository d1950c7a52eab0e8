"""The binary layout of each Avro type: where its values end, and how they become Arrow arrays.

1. `skip` takes the offset of one value and gives the offset behind it, which is never smaller. It raises IndexError, or
   gives an offset beyond the data, if there are too few bytes.
2. `after` does so for many values at once; `read` also makes an Arrow array of them. Both refuse malformed values.
3. A list claims no more items than there are bytes left, and every item has a byte, so that time and memory are in
   proportion to the bytes, whatever they contain.
4. A number has at most its type's bits, a boolean is 0 or 1, a string is UTF-8; reading anything else raises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.formats.iceberg.avro.window import (
    OTHER_SIZE,
    AvroWindow,
    Malformed,
    Places,
    after_blob,
    after_number,
    counted,
    run_of,
)

Step: TypeAlias = Callable[[bytes, int], int]
FIELD_ID = b"field-id"
_FEW = 32  # so many unfinished lists, or fewer, are walked one by one


class Layout(Protocol):
    """The layout of the values of one type."""

    skip: Step

    @property
    def least(self) -> int:
        """The smallest number of bytes of a value."""

    @property
    def cells(self) -> int:
        """The number of Arrow values per value."""

    def after(self, window: AvroWindow, at: Places) -> Places:
        """The offsets behind the values at some offsets."""

    def read(self, window: AvroWindow, at: Places) -> tuple[pa.Array, Places]:
        """The values at some offsets, and the offsets behind them."""


class WholeNumbers:
    """int and long."""

    least = cells = 1
    skip: Step = staticmethod(after_number)

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def after(self, window: AvroWindow, at: Places) -> Places:
        return window.after_numbers(at)

    def read(self, window: AvroWindow, at: Places) -> tuple[pa.Array, Places]:
        values, after = window.numbers(at)
        if self._bits == 32 and len(values) and (values.min() < -(1 << 31) or values.max() >= 1 << 31):
            raise Malformed("an int has more than 32 bits")
        return pa.array(values), after


class Blobs:
    """string and bytes."""

    least = cells = 1
    skip: Step = staticmethod(after_blob)

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_

    def after(self, window: AvroWindow, at: Places) -> Places:
        return window.blobs(at)[1]

    def read(self, window: AvroWindow, at: Places) -> tuple[pa.Array, Places]:
        starts, after = window.blobs(at)
        return window.slices(starts, after, self._type), after


class FixedWidth:
    """fixed."""

    cells = 1

    def __init__(self, width: int) -> None:
        self.least = width
        self.skip: Step = lambda _, at: at + width

    def after(self, window: AvroWindow, at: Places) -> Places:
        return at + self.least

    def read(self, window: AvroWindow, at: Places) -> tuple[pa.Array, Places]:
        after = at + self.least
        return window.slices(at, after, pa.binary()), after


class Floats(FixedWidth):
    """float and double."""

    def read(self, window: AvroWindow, at: Places) -> tuple[pa.Array, Places]:
        raw = window.rows_of_bytes(at, self.least)
        return pa.array(raw.view(np.dtype(f"<f{self.least}")).ravel()), at + self.least


class Booleans(FixedWidth):
    """boolean."""

    def __init__(self) -> None:
        super().__init__(1)

    def read(self, window: AvroWindow, at: Places) -> tuple[pa.Array, Places]:
        raw = window.bytes_at(at)
        if raw.max(initial=0) > 1:
            raise Malformed("a boolean is neither 0 nor 1")
        return pa.array(raw.astype(np.bool_)), at + 1


class Nulls:
    """null, which has no bytes."""

    least, cells = 0, 1
    skip: Step = staticmethod(lambda _, at: at)

    def after(self, window: AvroWindow, at: Places) -> Places:
        return at

    def read(self, window: AvroWindow, at: Places) -> tuple[pa.Array, Places]:
        return pa.nulls(len(at)), at


class Nullable:
    """A union with null: the first byte is the branch, which says whether a value follows."""

    least = 1

    def __init__(self, inner: Layout, *, value_branch: int, null_branch: int) -> None:
        self.inner, self.value_branch, self.null_branch = inner, value_branch, null_branch
        self.cells = inner.cells
        skip_value = inner.skip

        def skip(data: bytes, at: int) -> int:
            branch = data[at]
            if branch == value_branch:
                return skip_value(data, at + 1)
            if branch != null_branch:
                raise Malformed("a value is of none of its types")
            return at + 1

        self.skip: Step = skip

    def _start(self, window: AvroWindow, at: Places) -> tuple[NDArray[np.bool_], Places]:
        """Which values are not null, and the offsets behind the branch bytes."""
        branch = window.bytes_at(at)
        valid = branch == self.value_branch
        return valid, window.checked(at + 1, ~valid & (branch != self.null_branch), "a value is of none of its types")

    def after(self, window: AvroWindow, at: Places) -> Places:
        valid, after = self._start(window, at)
        if valid.all():
            return self.inner.after(window, after)
        if valid.any():
            after[valid] = self.inner.after(window, after[valid])
        return after

    def read(self, window: AvroWindow, at: Places) -> tuple[pa.Array, Places]:
        valid, after = self._start(window, at)
        if valid.all():
            return self.inner.read(window, after)
        window.spend((len(at) - int(valid.sum())) * (self.cells - 1))
        values, after[valid] = self.inner.read(window, after[valid])
        if not len(values):
            return pa.nulls(len(at), values.type), after
        return values.take(pa.array(np.cumsum(valid) - 1, mask=~valid)), after


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a record, and whether its values are kept."""

    name: str
    field_id: bytes | None
    layout: Layout
    kept: bool

    def field(self, type_: pa.DataType) -> pa.Field:
        return pa.field(self.name, type_, metadata=None if self.field_id is None else {FIELD_ID: self.field_id})


class Record:
    """record, as a struct with a column per field that is kept."""

    def __init__(self, members: list[Member]) -> None:
        self.members = members
        self.least = sum(member.layout.least for member in members)
        self.cells = 1 + sum(member.layout.cells for member in members)
        steps = [member.layout.skip for member in members]

        def skip(data: bytes, at: int) -> int:
            for step in steps:
                at = step(data, at)
            return at

        self.skip: Step = skip

    def after(self, window: AvroWindow, at: Places) -> Places:
        for member in self.members:
            at = member.layout.after(window, at)
        return at

    def read(self, window: AvroWindow, at: Places) -> tuple[pa.Array, Places]:
        count, arrays, fields = len(at), [], []
        for member in self.members:
            if member.kept:
                array, at = member.layout.read(window, at)
                arrays.append(array)
                fields.append(member.field(array.type))
            else:
                at = member.layout.after(window, at)
        if not arrays:
            return pa.Array.from_buffers(pa.struct([]), count, [None]), at
        return pa.StructArray.from_arrays(arrays, fields=fields), at


class Lists:
    """array, in blocks that each begin with a count of items; nearly all arrays are one block."""

    least = cells = 1

    def __init__(self, inner: Layout) -> None:
        self.inner = inner
        self._numbers = _numbers_in(inner)
        items = _run_step(self._numbers) if self._numbers else _item_step(inner.skip)

        def skip(data: bytes, at: int) -> int:
            while True:
                count, at, end = counted(data, at)
                if not count:
                    return at
                at = items(data, at, count)
                if end is not None and end != at:
                    raise Malformed(OTHER_SIZE)

        self.skip: Step = skip

    def after(self, window: AvroWindow, at: Places) -> Places:
        return self._walk(window, at, with_starts=False)[2]

    def read(self, window: AvroWindow, at: Places) -> tuple[pa.Array, Places]:
        starts, counts, after = self._walk(window, at, with_starts=True)
        offsets = np.zeros(len(at) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        return pa.ListArray.from_arrays(pa.array(offsets), self.inner.read(window, starts)[0]), after

    def _walk(self, window: AvroWindow, at: Places, *, with_starts: bool) -> tuple[Places, Places, Places]:
        """Where the items of all lists begin (if `with_starts`), how many items each list has, and where it ends."""
        counts, after = window.numbers(at)
        ends = np.full(len(at), -1)
        if len(sized := np.flatnonzero(counts < 0)):
            sizes, after[sized] = window.numbers(after[sized])
            if (sizes < 0).any():
                raise Malformed(OTHER_SIZE)
            ends[sized], counts[sized] = after[sized] + sizes, -counts[sized]
        wrong = (counts < 0) | (counts > window.size - after)
        after = window.checked(after, wrong, "a list claims more items than there are bytes left")
        counts[wrong] = 0
        window.claim(int(counts.sum()) * self.inner.least)
        filled = np.flatnonzero(counts)
        starts, stops = self._items(window, after[filled], counts[filled], with_starts=with_starts)
        stops = window.checked(stops, (ends[filled] >= 0) & (ends[filled] != stops), OTHER_SIZE)
        ended = window.bytes_at(stops) == 0
        after[filled] = stops + 1
        if ended.all():
            return starts, counts, after
        later: list[int] = []
        for one, start in zip(filled[~ended].tolist(), stops[~ended].tolist(), strict=True):
            places = window.further_blocks(self.inner.skip, start)
            window.claim(len(places) * self.inner.least)
            counts[one] += len(places) - 1
            after[one] = places.pop()
            later += places
        return np.sort(np.append(starts, np.array(later, np.int64))), counts, after

    def _items(self, window: AvroWindow, first: Places, counts: Places, *, with_starts: bool) -> tuple[Places, Places]:
        """Where items begin and where the last of each list ends; walks the first items of all lists, then the next."""
        if self._numbers:
            after = window.after_numbers(first, counts * self._numbers)
            return window.number_items(first, counts, self._numbers) if with_starts else first, after
        after, base = np.array(first), np.cumsum(counts) - counts
        starts = np.empty(int(counts.sum()), np.int64)
        going = np.arange(len(first))
        nth, least = 0, int(counts.min(initial=window.size))
        while len(going) >= _FEW:
            if nth < least:
                starts[base + nth] = after
                after = self.inner.after(window, after)
            else:
                at = after[going]
                starts[base[going] + nth] = at
                after[going] = self.inner.after(window, at)
            nth += 1
            if nth >= least:
                going = going[counts[going] > nth]
        for one in going.tolist():
            places = window.one_by_one(self.inner.skip, int(after[one]), int(counts[one]) - nth)
            starts[base[one] + nth : base[one] + counts[one]], after[one] = places[:-1], places[-1]
        return starts, after


def _numbers_in(layout: Layout) -> int:
    """How many whole numbers a value consists of; 0 if it has anything else."""
    parts = [member.layout for member in layout.members] if isinstance(layout, Record) else [layout]
    return len(parts) if all(isinstance(part, WholeNumbers) for part in parts) else 0


def _run_step(per: int) -> Callable[[bytes, int, int], int]:
    def after(data: bytes, at: int, count: int) -> int:
        run = run_of(count * per)(data, at)
        if run is None:
            raise IndexError(f"no {count * per} numbers stand behind each other at byte {at}")
        return run.end()

    return after


def _item_step(step: Step) -> Callable[[bytes, int, int], int]:
    def after(data: bytes, at: int, count: int) -> int:
        for _ in range(count):
            at = step(data, at)
        return at

    return after
