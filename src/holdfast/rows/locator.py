"""The row-id index over the files of a snapshot: finds the files and positions that may hold a row id.

It consists of ranges and segments, with no entry per new row. A range may include rows that have moved away: they are
hidden in its file and live in another, whose segments overlap that range. Where segments of many rewritten files
overlap, their arrays of ids are merged into one sorted run, so that a lookup does not visit every file.

1. Every position at which a file has an id is a candidate, hidden or not; the caller drops hidden ones.
2. A file that holds an id twice is Damaged, when that id is looked up.
3. A lookup costs a binary search per layer, and layers are few: see `rows.layers`.
4. Files have numbers of the caller's choosing, for instance the row of a file table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import Damaged
from holdfast.rows.layers import IntervalLayer, Numbers, arrange
from holdfast.rows.segments import NOT_FOUND, IdArray, IdRange, Segment, SortedArray
from holdfast.rows.sequence import RowIdSequence
from holdfast.rows.stamp import LARGEST_ID

_PLAIN = -1  # an interval of consecutive ids
_DEEPEST = 8  # layers beyond which arrays are merged into a run


@dataclass(frozen=True, slots=True, eq=False)
class _Intervals:
    """The intervals by column: first and last id, file, position of the first row, number of the segment or _PLAIN."""

    lows: Numbers
    highs: Numbers
    files: Numbers
    firsts: Numbers
    segments: Numbers

    def filter(self, kept: NDArray[np.bool_]) -> _Intervals:
        return _Intervals(self.lows[kept], self.highs[kept], self.files[kept], self.firsts[kept], self.segments[kept])


@dataclass(frozen=True, slots=True, eq=False)
class _IdRun:
    """Ascending ids, each with its file and position."""

    ids: Numbers
    files: Numbers
    positions: Numbers


@dataclass(frozen=True, slots=True, eq=False)
class RowLocator:
    """The row-id index of a snapshot."""

    _intervals: _Intervals
    _layers: tuple[IntervalLayer, ...]
    _segments: tuple[Segment, ...]
    _run: _IdRun
    _where: str

    @classmethod
    def from_ranges(
        cls,
        bases: Numbers,
        counts: Numbers,
        *,
        files: Numbers | None = None,
        sequences: Iterable[tuple[int, RowIdSequence]] = (),
        where: str = "the snapshot",
    ) -> RowLocator:
        """From the base and count of each file whose ids are one range, and the sequences of the others.

        `files` are the numbers of the former; without it they are numbered in order.
        """
        numbers = np.arange(len(bases), dtype=np.int64) if files is None else files
        wrong = np.flatnonzero((bases < 0) | (counts < 0) | (counts - 1 > LARGEST_ID - bases))
        if len(wrong):
            file = wrong[0]
            raise Damaged(
                f"row ids of {where}: file {numbers[file]} has {counts[file]} rows from row id {bases[file]} on",
                path=where,
                expected=f"row ids between 0 and {LARGEST_ID}",
                found=str(bases[file]),
            )
        nothing = np.zeros(len(bases), np.int64)
        plain = _Intervals(bases, bases + (counts - 1), numbers, nothing, nothing + _PLAIN).filter(counts > 0)
        pieces, segments = _pieces(sequences)
        intervals = _concat(plain, pieces)
        layers = arrange(intervals.lows, intervals.highs)
        run = _IdRun(*np.zeros((3, 0), np.int64))
        if len(layers) > _DEEPEST:
            run, intervals = _merge_arrays(intervals, segments)
            layers = arrange(intervals.lows, intervals.highs)
        return cls(intervals, layers, segments, run, where)

    def candidates(self, ids: Numbers) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """Rows that have the ids, hidden or not: index into `ids`, file, position; no index twice in one yield."""
        for layer in self._layers:
            which, interval = layer.holding(ids)
            if not len(which):
                continue
            positions = self._positions(interval, ids[which])
            here = positions != NOT_FOUND
            yield which[here], self._intervals.files[interval[here]], positions[here]
        if not len(self._run.ids):
            return
        at = np.searchsorted(self._run.ids, ids)
        which = np.arange(len(ids))
        while True:
            inside = at < len(self._run.ids)
            which, at = which[inside], at[inside]
            same = self._run.ids[at] == ids[which]
            which, at = which[same], at[same]
            if not len(which):
                return
            yield which, self._run.files[at], self._run.positions[at]
            at = at + 1

    def _positions(self, interval: Numbers, ids: Numbers) -> Numbers:
        """The position of each id in its file, given the interval around it; NOT_FOUND where the interval lacks it."""
        within = ids - self._intervals.lows[interval]
        segment = self._intervals.segments[interval]
        for number, rows in _groups(segment):
            if number != _PLAIN:
                within[rows] = self._segment(number).find(ids[rows])
        return np.where(within == NOT_FOUND, NOT_FOUND, within + self._intervals.firsts[interval])

    def _segment(self, number: int) -> Segment:
        segment = self._segments[number]
        if isinstance(segment, IdArray) and segment.repeated is not None:
            file = self._intervals.files[self._intervals.segments == number][0]
            raise Damaged(
                f"row ids of {self._where}: file {file} holds row id {segment.repeated} twice; "
                "it was written without keeping row ids apart",
                path=self._where,
                found=str(segment.repeated),
            )
        return segment


def _pieces(sequences: Iterable[tuple[int, RowIdSequence]]) -> tuple[_Intervals, tuple[Segment, ...]]:
    """An interval for each segment, and the segments that are not plain ranges."""
    rows: list[tuple[int, int, int, int, int]] = []
    segments: list[Segment] = []
    for file, sequence in sequences:
        for segment, first in zip(sequence.segments, sequence.starts.tolist(), strict=False):
            number = _PLAIN
            if not isinstance(segment, IdRange):
                number = len(segments)
                segments.append(segment)
            rows.append((segment.low, segment.high, file, first, number))
    return _Intervals(*np.array(rows, np.int64).reshape(-1, 5).T), tuple(segments)


def _concat(one: _Intervals, two: _Intervals) -> _Intervals:
    return _Intervals(
        np.concatenate((one.lows, two.lows)),
        np.concatenate((one.highs, two.highs)),
        np.concatenate((one.files, two.files)),
        np.concatenate((one.firsts, two.firsts)),
        np.concatenate((one.segments, two.segments)),
    )


def _merge_arrays(intervals: _Intervals, segments: tuple[Segment, ...]) -> tuple[_IdRun, _Intervals]:
    """The rows of all array segments as one run, and the other intervals."""
    is_array = np.array([isinstance(segment, IdArray | SortedArray) for segment in segments], np.bool_)
    merged = np.append(is_array, False)[intervals.segments]  # the last one stands for _PLAIN
    arrays = [segments[number] for number in intervals.segments[merged].tolist()]
    lengths = np.array([len(segment) for segment in arrays], np.int64)
    ids = np.concatenate([np.zeros(0, np.int64), *(segment.to_numpy() for segment in arrays)])
    order = np.argsort(ids, kind="stable")
    starts = np.cumsum(lengths) - lengths
    positions = np.arange(len(ids)) + np.repeat(intervals.firsts[merged] - starts, lengths)
    files = np.repeat(intervals.files[merged], lengths)
    return _IdRun(ids[order], files[order], positions[order]), intervals.filter(~merged)


def _groups(numbers: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Each distinct number, with its indices."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))) if len(ordered) else order
    stops = [*starts[1:].tolist(), len(ordered)]
    for start, stop in zip(starts.tolist(), stops, strict=False):
        yield int(ordered[start]), order[start:stop]
