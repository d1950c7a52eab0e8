"""Segments: the row ids of consecutive rows, in the smallest of five encodings.

New rows are a range, deletes leave holes in it, and rewritten files hold rows of many ranges, down to plain arrays.

1. A segment maps positions 0..len-1 to ids 0..LARGEST_ID, in row order; all but IdArray are strictly ascending.
2. The first and the last id of a range, with holes or with a bitmap, are present, so `low` and `high` are ids of rows.
3. `find` inverts `take`; where an IdArray repeats an id, it returns the first position.
4. The empty segment is IdRange(0, 0).
5. `choose` returns the segment with the fewest encoded bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import Invalid
from holdfast.rows.once import once
from holdfast.rows.stamp import LARGEST_ID

Ids: TypeAlias = NDArray[np.int64]
Positions: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]

NOT_FOUND = -1

# Encoded bytes besides the ids: kind, start, span; and width and count where numbers follow.
RANGE_BYTES = 1 + 8 + 8
NUMBERS_BYTES = 1 + 8
ARRAY_BYTES = 1 + 8 + NUMBERS_BYTES


class SegmentShape(ABC):
    """The methods of every segment; the set of subclasses is closed: see Segment."""

    __slots__ = ()

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def low(self) -> int:
        """The smallest id; of an empty segment, one above `high`."""

    @property
    @abstractmethod
    def high(self) -> int:
        """The largest id."""

    @property
    @abstractmethod
    def encoded_bytes(self) -> int:
        """The size of the segment when stored."""

    @abstractmethod
    def take(self, positions: Positions) -> Ids:
        """The ids at these positions, all of them within the segment."""

    @abstractmethod
    def find(self, ids: Ids) -> Positions:
        """The position of each id, NOT_FOUND where the segment does not have it."""

    def to_numpy(self) -> Ids:
        """All ids in row order."""
        return self.take(np.arange(len(self)))


class _Spanned(SegmentShape):
    """A segment whose ids lie from `start` up to, not including, `end`."""

    __slots__ = ()
    start: int
    end: int

    @property
    def low(self) -> int:
        return self.start

    @property
    def high(self) -> int:
        return self.end - 1


@dataclass(frozen=True, slots=True)
class IdRange(_Spanned):
    """All ids from `start` up to, not including, `end`."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def encoded_bytes(self) -> int:
        return RANGE_BYTES

    def take(self, positions: Positions) -> Ids:
        return positions + self.start

    def find(self, ids: Ids) -> Positions:
        return np.where((ids >= self.start) & (ids <= self.high), ids - self.start, NOT_FOUND)


@dataclass(frozen=True, eq=False)
class RangeWithHoles(_Spanned):
    """A range without a few ids, which are listed in ascending order."""

    start: int
    end: int
    holes: Ids

    def __len__(self) -> int:
        return self.end - self.start - len(self.holes)

    @property
    def encoded_bytes(self) -> int:
        return RANGE_BYTES + NUMBERS_BYTES + width(self.end - self.start) * len(self.holes)

    @once
    def _rows_before_hole(self) -> Positions:
        return self.holes - self.start - np.arange(len(self.holes))

    def take(self, positions: Positions) -> Ids:
        return positions + self.start + np.searchsorted(self._rows_before_hole, positions, side="right")

    def find(self, ids: Ids) -> Positions:
        holes_before = np.searchsorted(self.holes, ids)
        is_hole = self.holes[np.minimum(holes_before, len(self.holes) - 1)] == ids
        inside = (ids >= self.start) & (ids <= self.high)
        return np.where(inside & ~is_hole, ids - self.start - holes_before, NOT_FOUND)


@dataclass(frozen=True, eq=False)
class RangeWithBitmap(_Spanned):
    """A range whose present ids are the set bits: bit b of word w is id start + 64 * w + b."""

    start: int
    end: int
    words: Words

    def __len__(self) -> int:
        return int(self._rows_before_word[-1])

    @property
    def encoded_bytes(self) -> int:
        return RANGE_BYTES + (self.end - self.start + 7) // 8

    @once
    def _rows_before_word(self) -> Positions:
        return np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bitwise_count(self.words), dtype=np.int64)))

    def take(self, positions: Positions) -> Ids:
        word = np.searchsorted(self._rows_before_word, positions, side="right") - 1
        bits = np.unpackbits(self.words[word].astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
        rank = positions - self._rows_before_word[word]
        bit = np.argmax(np.cumsum(bits, axis=1) == rank[:, None] + 1, axis=1)
        ids: Ids = self.start + word * 64 + bit
        return ids

    def find(self, ids: Ids) -> Positions:
        inside = (ids >= self.start) & (ids <= self.high)
        offset = np.where(inside, ids - self.start, 0)
        word = self.words[offset >> 6]
        bit = np.uint64(1) << (offset & 63).astype(np.uint64)
        rank = self._rows_before_word[offset >> 6] + np.bitwise_count(word & (bit - np.uint64(1)))
        return np.where(inside & (word & bit != 0), rank, NOT_FOUND)

    def to_numpy(self) -> Ids:
        return self.start + np.flatnonzero(np.unpackbits(self.words.astype("<u8").view(np.uint8), bitorder="little"))


@dataclass(frozen=True, eq=False)
class _Listed(SegmentShape):
    """A segment that lists its ids."""

    ids: Ids

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def encoded_bytes(self) -> int:
        return ARRAY_BYTES + width(self.high - self.low) * len(self.ids)

    def take(self, positions: Positions) -> Ids:
        return self.ids[positions]


@dataclass(frozen=True, eq=False)
class SortedArray(_Listed):
    """Ascending ids, too scattered for a range."""

    @property
    def low(self) -> int:
        return int(self.ids[0])

    @property
    def high(self) -> int:
        return int(self.ids[-1])

    def find(self, ids: Ids) -> Positions:
        return _search(self.ids, ids)


@dataclass(frozen=True, eq=False)
class IdArray(_Listed):
    """Ids in any order."""

    @once
    def low(self) -> int:
        return int(self.ids.min())

    @once
    def high(self) -> int:
        return int(self.ids.max())

    @once
    def _ascending(self) -> tuple[Ids, Positions]:
        order = np.argsort(self.ids, kind="stable")
        return self.ids[order], order

    @once
    def repeated(self) -> int | None:
        """An id that occurs twice, if there is one."""
        ascending, _ = self._ascending
        twice = np.flatnonzero(ascending[1:] == ascending[:-1])
        return int(ascending[twice[0]]) if len(twice) else None

    def find(self, ids: Ids) -> Positions:
        ascending, order = self._ascending
        rank = _search(ascending, ids)
        return np.where(rank == NOT_FOUND, NOT_FOUND, order[rank])


Segment: TypeAlias = IdRange | RangeWithHoles | RangeWithBitmap | SortedArray | IdArray


def choose(ids: NDArray[np.int64] | NDArray[np.uint64]) -> Segment:
    """The smallest segment of these ids, which are in row order."""
    if len(ids) == 0:
        return IdRange(0, 0)
    if ids.min() < 0 or ids.max() > LARGEST_ID:
        raise Invalid(f"row ids lie between 0 and {LARGEST_ID}, found {ids.min()} to {ids.max()}")
    signed = np.ascontiguousarray(ids, np.int64)
    if not (signed[1:] > signed[:-1]).all():
        return IdArray(signed)
    start, end = int(signed[0]), int(signed[-1]) + 1
    span = end - start
    missing = span - len(signed)
    if missing == 0:
        return IdRange(start, end)
    sizes = {
        RangeWithHoles: RANGE_BYTES + NUMBERS_BYTES + width(span) * missing,
        RangeWithBitmap: RANGE_BYTES + (span + 7) // 8,
        SortedArray: ARRAY_BYTES + width(span - 1) * len(signed),
    }
    smallest = min(sizes, key=lambda shape: sizes[shape])
    if smallest is SortedArray:
        return SortedArray(signed)
    # Either way the span is at most 64 times the ids, so a byte per id of the span is affordable.
    present = np.zeros((span + 63) // 64 * 64, np.uint8)
    present[signed - start] = 1
    if smallest is RangeWithHoles:
        return RangeWithHoles(start, end, start + np.flatnonzero(present[:span] == 0))
    return RangeWithBitmap(start, end, np.packbits(present, bitorder="little").view("<u8").astype(np.uint64))


def width(largest: int) -> int:
    """Bytes of the smallest unsigned integer type that holds this number."""
    return next(w for w in (1, 2, 4, 8) if largest < 1 << 8 * w)


def _search(ascending: Ids, ids: Ids) -> Positions:
    rank = np.searchsorted(ascending, ids)
    is_present = ascending[np.minimum(rank, len(ascending) - 1)] == ids
    return np.where(is_present, rank, NOT_FOUND)
