"""Parts of segments and sequences of row ids, put together from their `take`, `find` and `choose`."""

from __future__ import annotations

import numpy as np

from holdfast.rows.segments import NOT_FOUND, Positions, Segment, choose
from holdfast.rows.sequence import RowIdSequence


def id_at(ids: Segment | RowIdSequence, position: int) -> int:
    """The id of the row at a position."""
    if not 0 <= position < len(ids):
        raise IndexError(f"position {position} among {len(ids)} rows")
    if not isinstance(ids, RowIdSequence):
        return int(ids.take(np.array([position]))[0])
    number = int(np.searchsorted(ids.starts, position, side="right")) - 1
    return id_at(ids.segments[number], position - int(ids.starts[number]))


def position_of(ids: Segment | RowIdSequence, row_id: int) -> int | None:
    """Where the row with an id is, if it is there."""
    position = int(ids.find(np.array([row_id]))[0])
    return None if position == NOT_FOUND else position


def sliced(segment: Segment, start: int, stop: int) -> Segment:
    """The ids at positions from `start` up to `stop`."""
    return choose(segment.take(np.arange(*slice(start, stop).indices(len(segment)))))


def without_positions(segment: Segment, positions: Positions) -> Segment:
    """The ids at all other positions."""
    return choose(np.delete(segment.to_numpy(), positions))


def sliced_sequence(sequence: RowIdSequence, start: int, stop: int) -> RowIdSequence:
    """The ids at positions from `start` up to `stop`."""
    first, after, _ = slice(start, stop).indices(len(sequence))
    bounds = np.clip(sequence.starts, first, max(first, after))
    ends = (bounds[:-1] - sequence.starts[:-1]).tolist(), (bounds[1:] - sequence.starts[:-1]).tolist()
    parts = zip(sequence.segments, *ends, strict=True)
    return RowIdSequence.of(sliced(segment, low, high) for segment, low, high in parts)


def sequence_without(sequence: RowIdSequence, positions: Positions) -> RowIdSequence:
    """The ids at all other positions."""
    removed = np.unique(positions)
    if len(removed) and not 0 <= removed[0] <= removed[-1] < len(sequence):
        raise IndexError(f"positions {removed[0]} to {removed[-1]} among {len(sequence)} rows")
    parts = np.split(removed, np.searchsorted(removed, sequence.starts[1:-1])) if sequence.segments else []
    starts = sequence.starts[:-1].tolist()
    return RowIdSequence.of(
        without_positions(segment, part - start)
        for segment, part, start in zip(sequence.segments, parts, starts, strict=True)
    )
