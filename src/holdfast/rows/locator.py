"""Where the row with an id is: the row-id index over one snapshot, from id to file and position.

It is made of ranges and segments, never of one entry per fresh row. A range may still count rows that have moved away:
they are hidden in its file and live in another, whose segments lie over that range. Where rewritten files lie many
deep over each other, the ids that are stored row by row anyway (the arrays) are gathered into one sorted run, so that a
lookup does not visit every file.

1. An id is located iff a file holds it at a position that is not hidden.
2. An id live at two places is Damaged, found when it is asked for.
3. A lookup costs a binary search per layer, and layers are few: see `rows.layers`.
4. Files are numbers of the caller's choosing, for instance the row of a file table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.errors import Damaged
from holdfast.rows.layers import IntervalLayer, Numbers, arrange
from holdfast.rows.segments import NOT_FOUND, IdArray, IdRange, Segment, SortedArray
from holdfast.rows.sequence import RowIdSequence
from holdfast.rows.stamp import LARGEST_ID

Entry: TypeAlias = tuple[int, RowIdSequence | tuple[int, int], BitMap64 | None]

_PLAIN = -1  # an interval whose ids follow from its first one
_DEEPEST = 8  # layers beyond which arrays are gathered into a run


@dataclass(frozen=True, slots=True, eq=False)
class _Intervals:
    """Columns over the intervals: the first id, the file, the position of the first row, the segment or _PLAIN."""

    lows: Numbers
    highs: Numbers
    files: Numbers
    firsts: Numbers
    segments: Numbers

    def filter(self, kept: NDArray[np.bool_]) -> _Intervals:
        return _Intervals(self.lows[kept], self.highs[kept], self.files[kept], self.firsts[kept], self.segments[kept])


@dataclass(frozen=True, slots=True, eq=False)
class _IdRun:
    """Ids that are stored row by row, ascending, each with its file and position."""

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
    _hidden: Mapping[int, BitMap64]
    _where: str

    @classmethod
    def build(cls, entries: Iterable[Entry], *, where: str = "the snapshot") -> RowLocator:
        """From (file number, its ids as a sequence or as base and count, its hidden positions)."""
        plain: list[tuple[int, int, int]] = []
        sequences: list[tuple[int, RowIdSequence]] = []
        hidden: dict[int, BitMap64] = {}
        for file, ids, gone in entries:
            if isinstance(ids, RowIdSequence):
                sequences.append((file, ids))
            else:
                plain.append((file, *ids))
            if gone:
                hidden[file] = gone
        files, bases, counts = np.array(plain, np.int64).reshape(-1, 3).T
        return cls.from_ranges(bases, counts, files=files, sequences=sequences, hidden=hidden, where=where)

    @classmethod
    def from_ranges(
        cls,
        bases: Numbers,
        counts: Numbers,
        *,
        files: Numbers | None = None,
        sequences: Iterable[tuple[int, RowIdSequence]] = (),
        hidden: Mapping[int, BitMap64] | None = None,
        where: str = "the snapshot",
    ) -> RowLocator:
        """From columns: base and count of each file whose ids are one range, numbered as listed unless `files` says
        otherwise, and the sequences of the others."""
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
            run, intervals = _gather(intervals, segments)
            layers = arrange(intervals.lows, intervals.highs)
        return cls(intervals, layers, segments, run, dict(hidden or {}), where)

    def locate(self, ids: NDArray[np.int64] | NDArray[np.uint64]) -> tuple[Numbers, Numbers]:
        """The file number and the position of each id, both -1 where no live row has it."""
        wanted = np.asarray(ids).astype(np.int64)  # an id beyond the largest turns negative, and is nowhere
        files = np.full(len(wanted), NOT_FOUND, np.int64)
        positions = np.full(len(wanted), NOT_FOUND, np.int64)
        for which, file, position in self.candidates(wanted):
            live = ~self._is_hidden(file, position)
            which, file, position = which[live], file[live], position[live]
            twice = np.flatnonzero(files[which] != NOT_FOUND)
            if len(twice):
                at = which[twice[0]]
                here = f"position {position[twice[0]]} of file {file[twice[0]]}"
                there = f"position {positions[at]} of file {files[at]}"
                raise Damaged(
                    f"row ids of {self._where}: row id {wanted[at]} is live at {there} and at {here}; "
                    "one of the two was written without keeping row ids apart",
                    path=self._where,
                    expected=there,
                    found=here,
                )
            files[which] = file
            positions[which] = position
        return files, positions

    def candidates(self, ids: Numbers) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """Rows that have the ids, hidden or not: index into `ids`, file, position; an index at most once per answer."""
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
        """Where in its file each id is, given the interval it lies in; NOT_FOUND where the interval lacks it."""
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

    def _is_hidden(self, files: Numbers, positions: Numbers) -> NDArray[np.bool_]:
        answer = np.zeros(len(files), np.bool_)
        if self._hidden:
            for file, rows in _groups(files):
                if (gone := self._hidden.get(file)) is not None:
                    asked = positions[rows].tolist()
                    answer[rows] = np.fromiter(map(gone.__contains__, asked), np.bool_, len(asked))
        return answer


def _pieces(sequences: Iterable[tuple[int, RowIdSequence]]) -> tuple[_Intervals, tuple[Segment, ...]]:
    """An interval for each segment; those that are more than a range are listed beside."""
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


def _gather(intervals: _Intervals, segments: tuple[Segment, ...]) -> tuple[_IdRun, _Intervals]:
    """The rows of all array segments as one run, and the intervals that are left."""
    is_array = np.array([isinstance(segment, IdArray | SortedArray) for segment in segments], np.bool_)
    taken = np.append(is_array, False)[intervals.segments]  # the last one stands for _PLAIN
    arrays = [segments[number] for number in intervals.segments[taken].tolist()]
    lengths = np.array([len(segment) for segment in arrays], np.int64)
    ids = np.concatenate([np.zeros(0, np.int64), *(segment.to_numpy() for segment in arrays)])
    order = np.argsort(ids, kind="stable")
    starts = np.cumsum(lengths) - lengths
    positions = np.arange(len(ids)) + np.repeat(intervals.firsts[taken] - starts, lengths)
    files = np.repeat(intervals.files[taken], lengths)
    return _IdRun(ids[order], files[order], positions[order]), intervals.filter(~taken)


def _groups(numbers: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Each distinct number, and the indices where it stands."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))) if len(ordered) else order
    stops = [*starts[1:].tolist(), len(ordered)]
    for start, stop in zip(starts.tolist(), stops, strict=False):
        yield int(ordered[start]), order[start:stop]
