"""Checks row ids, the high-water mark and row counts of a table against each other. Pure; an engine reads the files.

1. Ids are compared as ranges and compressed bitmaps. Files with fresh ids, no hidden rows and no overlapping range are
   handled together in one step; any other file is a step of its own.
2. A row that was moved leaves its id hidden in its old file, so only live rows count.
3. The row count of the file itself is used if known, and the log's count is compared with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.model.files import FileTable
from holdfast.model.finding import Finding, FindingKind
from holdfast.model.snapshot import HiddenRows
from holdfast.parquet.inspect import FooterRequest
from holdfast.rows.layers import overlaps
from holdfast.storage.base import ObjectStore

_MOST_NAMED = 20  # duplicates for which the other file is searched


@dataclass(frozen=True, slots=True)
class Asks:
    """Files to inspect, each with its store; `store` is the table's own."""

    store: ObjectStore
    files: Sequence[tuple[ObjectStore, FooterRequest]]
    id_column: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Ids:
    """The row ids of files: a range each, or the ids they carry, and the hidden rows."""

    keys: Sequence[str]
    bases: NDArray[np.int64]  # -1: none
    counts: NDArray[np.int64]  # -1: unknown
    carried: Mapping[int, BitMap64]  # by file number, live rows only
    hidden: HiddenRows

    @classmethod
    def of(
        cls, files: FileTable, counts: NDArray[np.int64], carried: Mapping[int, BitMap64], hidden: HiddenRows
    ) -> Ids:
        bases = pc.fill_null(files.column("base_row_id"), -1).to_numpy()
        return cls(files.column("key").to_pylist(), bases, counts, carried, hidden)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Files whose range is known."""
        return np.asarray((self.bases >= 0) & (self.counts > 0))

    def live(self, number: int) -> BitMap64:
        """The ids of a file's live rows."""
        if number in self.carried:
            return self.carried[number]
        base, count = int(self.bases[number]), int(self.counts[number])
        ids = BitMap64()
        if base < 0 or count <= 0:
            return ids
        ids.add_range(base, base + count)
        hidden_positions = self.hidden.positions.get(self.keys[number])
        return ids - hidden_positions.shift(base) if hidden_positions else ids

    @property
    def highest(self) -> int:
        """The highest id in use; -1 without any."""
        known = self.known
        ranges = int((self.bases + self.counts - 1)[known].max()) if known.any() else -1
        return max([ranges, *(int(ids.max()) for ids in self.carried.values() if ids)])


def logged_counts(files: FileTable) -> NDArray[np.int64]:
    """The physical row count of each file in the log; -1 if missing."""
    return np.array(pc.fill_null(files.num_records, -1), np.int64)


def double_adds(files: FileTable) -> Iterator[Finding]:
    """Files that are in the table more than once, with different deletion vectors."""
    counted = pc.value_counts(files.column("key"))
    twice = counted.filter(pc.greater(counted.field("counts"), 1))
    for entry in twice.to_pylist():
        yield Finding(
            FindingKind.DOUBLE_ADD,
            f"{entry['values']} is in the table {entry['counts']} times, with different deletion vectors: its rows "
            "are read more than once, or the table is refused",
            file=entry["values"],
        )


def without_ids(files: FileTable) -> Iterator[Finding]:
    """Files without row ids in a table that tracks rows."""
    bare = files.table.filter(pc.is_null(files.column("base_row_id")))
    for key in bare.column("key").to_pylist():
        yield Finding(
            FindingKind.NO_ROW_IDS,
            f"the table tracks rows, and {key} has no base row id: its rows have no ids",
            file=key,
            repair="gives the file ids of its own",
        )


def mark_below(ids: Ids, high_water: int) -> Iterator[Finding]:
    """A high-water mark below ids in use: the next rows would get these ids again."""
    highest = ids.highest
    if highest > high_water:
        yield Finding(
            FindingKind.MARK_BELOW_DATA,
            f"the high-water mark of row ids is {high_water}, and row ids up to {highest} are in use: rows to come "
            "would get ids that others have",
            repair=f"raises the mark to {highest}",
        )


def duplicates(ids: Ids, unclear: Collection[str | None] = ()) -> Iterator[Finding]:
    """Row ids that several live rows have, by file; `unclear` files are left out."""
    seen_ids, slow = _disjoint(ids, unclear)
    reported = 0
    for number in slow:
        here = ids.live(number)
        both = seen_ids & here
        seen_ids |= here
        if not both:
            continue
        other = _other(ids, number, int(both.min())) if reported < _MOST_NAMED else None
        reported += 1
        with_ = f", such as {both.min()}" + ("" if other is None else f", which is in {other} too")
        yield Finding(
            FindingKind.DUPLICATE_IDS,
            f"{ids.keys[number]} has {len(both)} row ids that other live rows have{with_}",
            file=ids.keys[number],
            count=len(both),
        )


def repeated(ids: Ids, live: Mapping[int, int]) -> Iterator[Finding]:
    """Files that hold a row id more than once; `live` has the live rows of files that carry ids."""
    for number, rows in live.items():
        short = rows - len(ids.carried[number])
        if short:
            yield Finding(
                FindingKind.DUPLICATE_IDS,
                f"{ids.keys[number]} has {rows} live rows and {rows - short} row ids: some of its rows share one",
                file=ids.keys[number],
                count=short,
            )


def _disjoint(ids: Ids, unclear: Collection[str | None]) -> tuple[BitMap64, list[int]]:
    """The ids of files that cannot share an id, and the numbers of the other files, in order."""
    hides = np.array([key in ids.hidden.positions for key in ids.keys], np.bool_)
    left_out = np.array([key in unclear for key in ids.keys], np.bool_)
    plain = ids.known & ~hides & ~left_out
    plain[list(ids.carried)] = False
    numbers = np.flatnonzero(plain)
    numbers = numbers[np.argsort(ids.bases[numbers], kind="stable")]
    lows, highs = ids.bases[numbers], ids.bases[numbers] + ids.counts[numbers]
    alone = overlaps(lows, highs) < 0
    seen = BitMap64()
    starts, ends = lows[alone], highs[alone]
    # Consecutive ranges are one.
    first = np.concatenate(([True], starts[1:] != ends[:-1])) if len(starts) else np.zeros(0, np.bool_)
    last = np.concatenate((first[1:], [True])) if len(starts) else first
    for start, end in zip(starts[first].tolist(), ends[last].tolist(), strict=True):
        seen.add_range(start, end)
    rest = ids.known | np.isin(np.arange(len(ids.keys)), list(ids.carried))
    rest[numbers[alone]] = False
    rest &= ~left_out
    return seen, np.flatnonzero(rest).tolist()


def _other(ids: Ids, number: int, row_id: int) -> str | None:
    """Another file that has a live row with this id."""
    for candidate, key in enumerate(ids.keys):
        inside = candidate in ids.carried or 0 <= row_id - ids.bases[candidate] < ids.counts[candidate]
        if candidate != number and inside and row_id in ids.live(candidate):
            return key
    return None
