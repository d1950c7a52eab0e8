"""The row ids of one file, in row order: segments one after another.

1. Position p of the file is position p of the concatenated segments; hidden rows keep their positions.
2. No segment is empty.
3. Segments may overlap in ids (a file may hold moved rows in any order); an id is looked for in row order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.rows import segment_bytes
from holdfast.rows.once import once
from holdfast.rows.segments import NOT_FOUND, RANGE_BYTES, IdRange, Ids, Positions, Segment, choose

# A new segment must save more than its header: a gap this wide costs more as bitmap bits than as a second range.
_GAP = 8 * RANGE_BYTES
_SHORT = 8  # rows of a piece that is worth no header of its own
_ROWS_PER_PIECE = 64  # below this many rows per piece, cutting saves little and costs a Python object each


@dataclass(frozen=True, eq=False)
class RowIdSequence:
    """The id of every physical row of a file."""

    segments: tuple[Segment, ...] = ()

    @classmethod
    def of(cls, segments: Iterable[Segment]) -> RowIdSequence:
        """These segments, without the empty ones."""
        return cls(tuple(segment for segment in segments if len(segment)))

    @classmethod
    def from_range(cls, base: int, count: int) -> RowIdSequence:
        """The ids of `count` fresh rows above a base."""
        return cls.of([IdRange(base, base + count)])

    @classmethod
    def from_ids(cls, ids: NDArray[np.int64] | NDArray[np.uint64]) -> RowIdSequence:
        """These ids in few bytes: in one piece, or cut where the order breaks and where wide gaps are.

        Stretches of scattered ids stay together: a header for each would take more than the ids do.
        """
        whole = choose(ids)
        step = np.diff(np.asarray(ids, np.int64))
        cuts = np.flatnonzero((step <= 0) | (step > _GAP)) + 1
        is_short = np.diff(cuts, prepend=0, append=len(ids)) < _SHORT
        cuts = cuts[~(is_short[1:] & is_short[:-1])]
        if len(cuts) == 0 or (len(cuts) + 1) * _ROWS_PER_PIECE > len(ids):
            return cls.of([whole])
        pieces = [choose(piece) for piece in np.split(np.asarray(ids, np.int64), cuts)]
        saves = sum(piece.encoded_bytes for piece in pieces) < whole.encoded_bytes
        return cls.of(pieces if saves else [whole])

    @classmethod
    def decode(cls, data: bytes, *, where: str) -> RowIdSequence:
        """The sequence behind stored bytes; `where` names them in errors."""
        return cls.of(segment_bytes.decode(data, where=where))

    def encode(self) -> bytes:
        return segment_bytes.encode(self.segments)

    @once
    def starts(self) -> Positions:
        """The position of each segment's first row, and at the end the number of rows."""
        return np.cumsum([0, *map(len, self.segments)], dtype=np.int64)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __add__(self, other: RowIdSequence) -> RowIdSequence:
        return RowIdSequence(self.segments + other.segments)

    def to_numpy(self) -> Ids:
        """All ids in row order."""
        return np.concatenate([np.zeros(0, np.int64), *(segment.to_numpy() for segment in self.segments)])

    def get(self, position: int) -> int:
        """The id of the row at a position."""
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} in a file of {len(self)} rows")
        index = int(np.searchsorted(self.starts, position, side="right")) - 1
        return self.segments[index].get(position - int(self.starts[index]))

    def position(self, row_id: int) -> int | None:
        """Where the row with an id is, if it is in this file."""
        found = int(self.find(np.array([row_id]))[0])
        return None if found == NOT_FOUND else found

    def find(self, ids: Ids) -> Positions:
        """The position of each id, NOT_FOUND where the file does not have it."""
        found = np.full(len(ids), NOT_FOUND, np.int64)
        for segment, start in zip(self.segments, self.starts.tolist(), strict=False):
            here = segment.find(ids)
            found = np.where((found == NOT_FOUND) & (here != NOT_FOUND), here + start, found)
        return found

    def slice(self, start: int, stop: int) -> RowIdSequence:
        """The ids at positions from `start` up to `stop`."""
        first, after, _ = slice(start, stop).indices(len(self))
        bounds = np.clip(self.starts, first, max(first, after))
        lows = (bounds[:-1] - self.starts[:-1]).tolist()
        highs = (bounds[1:] - self.starts[:-1]).tolist()
        return RowIdSequence.of(
            segment if high - low == len(segment) else segment.slice(low, high)
            for segment, low, high in zip(self.segments, lows, highs, strict=True)
            if high > low
        )

    def delete(self, positions: Positions) -> RowIdSequence:
        """The ids that are left when these positions go."""
        gone = np.unique(positions)
        if len(gone) and not 0 <= gone[0] <= gone[-1] < len(self):
            raise IndexError(f"positions {gone[0]} to {gone[-1]} in a file of {len(self)} rows")
        parts = np.split(gone, np.searchsorted(gone, self.starts[1:-1])) if self.segments else []
        return RowIdSequence.of(
            segment.delete(part - start) if len(part) else segment
            for segment, part, start in zip(self.segments, parts, self.starts[:-1].tolist(), strict=True)
        )
