"""A row locator together with the hidden rows of its files, which finds the one live row of each id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.errors import Damaged
from holdfast.rows.locator import RowLocator
from holdfast.rows.segments import NOT_FOUND
from holdfast.rows.sequence import RowIdSequence

Numbers: TypeAlias = NDArray[np.int64]
Entry: TypeAlias = tuple[int, RowIdSequence | tuple[int, int], BitMap64 | None]


@dataclass(frozen=True)
class LiveRows:
    """Finds live rows by id."""

    locator: RowLocator
    hidden: Mapping[int, BitMap64]
    where: str

    @classmethod
    def build(cls, entries: Iterable[Entry], *, where: str = "the snapshot") -> LiveRows:
        """From (file number, its ids as a sequence or as base and count, its hidden positions)."""
        listed = list(entries)
        sequences = [(file, ids) for file, ids, _ in listed if isinstance(ids, RowIdSequence)]
        ranges = [(file, *ids) for file, ids, _ in listed if not isinstance(ids, RowIdSequence)]
        files, bases, counts = np.array(ranges, np.int64).reshape(-1, 3).T
        locator = RowLocator.from_ranges(bases, counts, files=files, sequences=sequences, where=where)
        return cls(locator, {file: hidden for file, _, hidden in listed if hidden}, where)

    def locate(self, ids: NDArray[np.int64] | NDArray[np.uint64]) -> tuple[Numbers, Numbers]:
        """The file number and the position of each id, both -1 where no live row has it."""
        wanted = np.asarray(ids).astype(np.int64)  # an id beyond the largest turns negative, and is nowhere
        files = np.full(len(wanted), NOT_FOUND, np.int64)
        positions = np.full(len(wanted), NOT_FOUND, np.int64)
        for which, file, position in self.locator.candidates(wanted):
            live = ~self._is_hidden(file, position)
            which, file, position = which[live], file[live], position[live]
            twice = np.flatnonzero(files[which] != NOT_FOUND)
            if len(twice):
                at = which[twice[0]]
                here = f"position {position[twice[0]]} of file {file[twice[0]]}"
                there = f"position {positions[at]} of file {files[at]}"
                raise Damaged(f"row id {wanted[at]} is live at {there} and at {here}", path=self.where)
            files[which] = file
            positions[which] = position
        return files, positions

    def _is_hidden(self, files: Numbers, positions: Numbers) -> NDArray[np.bool_]:
        answer = np.zeros(len(files), np.bool_)
        if self.hidden:
            for file, rows in _groups(files):
                if (hidden := self.hidden.get(file)) is not None:
                    answer[rows] = np.fromiter(map(hidden.__contains__, positions[rows].tolist()), np.bool_, len(rows))
        return answer


def _groups(numbers: Numbers) -> Iterator[tuple[int, Numbers]]:
    order = np.argsort(numbers, kind="stable")
    distinct, starts = np.unique(numbers[order], return_index=True)
    yield from zip(distinct.tolist(), np.split(order, starts[1:]), strict=True) if len(numbers) else ()
