"""The row ids of one file, in row order, as a list of segments.

1. Position p of the file is position p of the concatenated segments; hidden rows keep their positions.
2. No segment is empty.
3. Segments may overlap in ids, because a file may hold moved rows in any order; `find` returns the first position.
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
        """These ids in few bytes: as one segment, or cut where they descend and at wide gaps.

        Runs of scattered ids stay together, because a header for each would be larger than the ids.
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
        """Decodes stored bytes; `where` names them in errors."""
        return cls.of(segment_bytes.decode(data, where=where))

    def encode(self) -> bytes:
        return segment_bytes.encode(self.segments)

    @once
    def starts(self) -> Positions:
        """The position of each segment's first row, and at the end the number of rows."""
        return np.cumsum([0, *map(len, self.segments)], dtype=np.int64)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def to_numpy(self) -> Ids:
        """All ids in row order."""
        return np.concatenate([np.zeros(0, np.int64), *(segment.to_numpy() for segment in self.segments)])

    def find(self, ids: Ids) -> Positions:
        """The position of each id, NOT_FOUND where the file does not have it."""
        positions = np.full(len(ids), NOT_FOUND, np.int64)
        for segment, start in zip(self.segments, self.starts.tolist(), strict=False):
            here = segment.find(ids)
            positions = np.where((positions == NOT_FOUND) & (here != NOT_FOUND), here + start, positions)
        return positions
