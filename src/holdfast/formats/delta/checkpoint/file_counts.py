"""Counts and histograms of live files for the `.crc` file, kept up to date over blind appends.

All of them are sums over files. So after a small append the counts cost what the append costs, however many files the
table has.

1. The sum of two counts is the count of both their files.
2. Only a blind append adds to the counts of the version before: its files are new to the table. After any other commit
   all files are counted.
3. Files are counted on first use, and at most one older version is kept for it.
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
class FileCounts:
    """Counts of files; the tuples are histograms."""

    files: int
    size_bytes: int
    vectors: int
    hidden_rows: int
    size_counts: tuple[int, ...]
    size_totals: tuple[int, ...]
    hidden_counts: tuple[int, ...]

    def __add__(self, more: FileCounts) -> FileCounts:
        return FileCounts(
            self.files + more.files,
            self.size_bytes + more.size_bytes,
            self.vectors + more.vectors,
            self.hidden_rows + more.hidden_rows,
            _sums(self.size_counts, more.size_counts),
            _sums(self.size_totals, more.size_totals),
            _sums(self.hidden_counts, more.hidden_counts),
        )


class RunningFileCounts:
    """The counts of a version: of all its files, or those of the version before and of a blind append."""

    def __init__(self, files: FileTable, counts: FileCounts | None = None) -> None:
        self._files = files
        self._counts = counts
        self._before: tuple[RunningFileCounts, FileCounts] | None = None  # and what was added to it

    @property
    def value(self) -> FileCounts:
        if self._counts is None:
            if self._before is None:
                self._counts = count_files(self._files.table)
            else:
                before, added = self._before
                self._counts = before.value + added
                self._before = None
        return self._counts

    def next(self, files: FileTable, commit: Sequence[Line]) -> RunningFileCounts:
        """The counts of the next version, which one commit made and which has these files."""
        if not _is_blind_append(commit):
            return RunningFileCounts(files)
        if self._is_cheap:
            return RunningFileCounts(files, self.value + _count_adds(commit))
        following = RunningFileCounts(files)
        if self._before is None:  # else the counts of two versions were not used
            following._before = self, _count_adds(commit)
        return following

    @property
    def _is_cheap(self) -> bool:
        return self._counts is not None or (self._before is not None and self._before[0]._counts is not None)


def count_files(files: pa.Table) -> FileCounts:
    """The counts of files with the columns of FILES."""
    hidden = pc.struct_field(files.column("dv"), "cardinality")
    return _counts_of(_numbers(files.column("size")), _numbers(hidden), len(hidden) - hidden.null_count)


def _count_adds(commit: Sequence[Line]) -> FileCounts:
    adds = [line.add for line in commit if line.add is not None]
    vectors = [add.deletion_vector for add in adds]
    sizes = np.array([add.size or 0 for add in adds], np.int64)
    hidden = np.array([0 if dv is None else dv.cardinality for dv in vectors], np.int64)
    return _counts_of(sizes, hidden, len(vectors) - vectors.count(None))


def _is_blind_append(commit: Sequence[Line]) -> bool:
    if commit_info(commit).get("isBlindAppend") is not True:
        return False
    return all(line.remove is None and (line.add is None or line.add.data_change) for line in commit)


def _counts_of(sizes: Numbers, hidden: Numbers, vectors: int) -> FileCounts:
    totals = np.zeros(len(SIZE_BINS), np.int64)
    bins = _bins(sizes, SIZE_BINS)
    np.add.at(totals, bins, sizes)
    return FileCounts(
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
