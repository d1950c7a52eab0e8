"""What a version checksum counts of the live files.

All of it are sums over files. So a commit that only adds files changes them by what it adds, and the checksum after a
small append costs what the append costs, however many files there are.

1. The sum of two tallies is the tally of both their files.
2. Only a blind append is counted on top of what was known: its files are ones the table has not had. After any other
   commit all files are counted.
3. Nothing is counted before somebody asks, and at most one older state is kept for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.formats.delta.log.actions import Line, commit_info
from holdfast.model.files import FileTable

Numbers: TypeAlias = NDArray[np.int64]

_KB, _MB, _GB = 1 << 10, 1 << 20, 1 << 30
SIZE_BINS = (
    0,
    *(_KB << n for n in range(3, 10)),
    *(
        _MB * n
        for n in chain(
            (1, 2, 4, 8),
            range(12, 41, 4),
            range(48, 121, 8),
            range(124, 145, 4),
            range(160, 577, 16),
            range(640, 1409, 64),
            range(1536, 2049, 128),
            range(2304, 4097, 256),
        )
    ),
    *(_GB << n for n in range(3, 9)),
)
DELETED_BINS = (0, 1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 2**31 - 1)


@dataclass(frozen=True, slots=True)
class FileTally:
    """Counts of files; the lists are by bin."""

    files: int
    size_bytes: int
    vectors: int
    hidden_rows: int
    size_counts: tuple[int, ...]
    size_totals: tuple[int, ...]
    hidden_counts: tuple[int, ...]

    def __add__(self, more: FileTally) -> FileTally:
        return FileTally(
            self.files + more.files,
            self.size_bytes + more.size_bytes,
            self.vectors + more.vectors,
            self.hidden_rows + more.hidden_rows,
            _sums(self.size_counts, more.size_counts),
            _sums(self.size_totals, more.size_totals),
            _sums(self.hidden_counts, more.hidden_counts),
        )


class RunningTally:
    """The tally of a version: of all its files, or that of the version before and what a blind append added."""

    def __init__(self, files: FileTable, counted: FileTally | None = None) -> None:
        self._files = files
        self._counted = counted
        self._before: tuple[RunningTally, FileTally] | None = None  # and what was added to it

    @property
    def value(self) -> FileTally:
        if self._counted is None:
            if self._before is None:
                self._counted = tally_of(self._files.table)
            else:
                before, added = self._before
                self._counted = before.value + added
                self._before = None
        return self._counted

    def next(self, files: FileTable, commit: Sequence[Line]) -> RunningTally:
        """That of the version which one commit made, and which has these files."""
        if not _is_blind_append(commit):
            return RunningTally(files)
        if self._is_at_hand:
            return RunningTally(files, self.value + _tally_of_adds(commit))
        following = RunningTally(files)
        if self._before is None:  # else two commits went by and nobody asked
            following._before = self, _tally_of_adds(commit)
        return following

    @property
    def _is_at_hand(self) -> bool:
        return self._counted is not None or (self._before is not None and self._before[0]._counted is not None)


def tally_of(files: pa.Table) -> FileTally:
    """The tally of files with the columns of FILES."""
    hidden = pc.struct_field(files.column("dv"), "cardinality")
    return _counted(_numbers(files.column("size")), _numbers(hidden), len(hidden) - hidden.null_count)


def _tally_of_adds(commit: Sequence[Line]) -> FileTally:
    adds = [line.add for line in commit if line.add is not None]
    vectors = [add.deletion_vector for add in adds]
    sizes = np.array([add.size or 0 for add in adds], np.int64)
    hidden = np.array([0 if dv is None else dv.cardinality for dv in vectors], np.int64)
    return _counted(sizes, hidden, len(vectors) - vectors.count(None))


def _is_blind_append(commit: Sequence[Line]) -> bool:
    if commit_info(commit).get("isBlindAppend") is not True:
        return False
    return all(line.remove is None and (line.add is None or line.add.data_change) for line in commit)


def _counted(sizes: Numbers, hidden: Numbers, vectors: int) -> FileTally:
    totals = np.zeros(len(SIZE_BINS), np.int64)
    bins = _bins(sizes, SIZE_BINS)
    np.add.at(totals, bins, sizes)
    return FileTally(
        len(sizes),
        int(sizes.sum()),
        vectors,
        int(hidden.sum()),
        tuple(np.bincount(bins, minlength=len(SIZE_BINS)).tolist()),
        tuple(totals.tolist()),
        tuple(np.bincount(_bins(hidden, DELETED_BINS), minlength=len(DELETED_BINS)).tolist()),
    )


def _numbers(values: pa.ChunkedArray) -> Numbers:
    return np.asarray(pc.fill_null(values, 0).to_numpy(), np.int64)


def _bins(values: Numbers, edges: tuple[int, ...]) -> Numbers:
    return np.searchsorted(np.array(edges, np.int64), values, side="right") - 1


def _sums(ours: tuple[int, ...], theirs: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(ours, theirs, strict=True))
