"""Removes from the plan of a change query the rows that only moved between files. Pure.

    ids, versions and positions of both sides  ->  paired by id  ->  same version: the row only moved, and is not read
        ->  the other rows become moves with a known change type, and need no pairing

1. The smaller plan gives the same changes as the plan.
2. It pays only if many rows may have moved: files that lost most of their rows, and new files.
3. Every file of which some rows are read has a row count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from holdfast.model.files import FILES
from holdfast.plan.changefeed.moves import LogicalFiles, Move, Reading, readings
from holdfast.plan.changefeed.query import AFTER, BEFORE, DELETE, INSERT, ChangesPlan

ChangedPositions: TypeAlias = Mapping[tuple[int, bool], BitMap64]
"""Positions of rows that did not only move, by the number of their label and whether the other side has the row.

Labels are numbered by reading, then by file, then by move.
"""


def pays_off(plan: ChangesPlan, many: int) -> bool:
    """Whether it pays to read ids and versions first: if at least `many` rows may have moved."""
    sides = (plan.left, plan.arrived)
    if plan.keys or plan.snapshot.identity is None or not plan.fields:
        return False
    countable = all(reading.has_ids and not reading.files.num_records.null_count for side in sides for reading in side)
    return countable and all(_bulk(side) >= many for side in sides)


def without_moved(plan: ChangesPlan, left: ChangedPositions, arrived: ChangedPositions) -> ChangesPlan:
    """The plan without rows that only moved; rows of both sides are paired only if values decide."""
    table = pa.concat_tables([_entries(reading) for side in (plan.left, plan.arrived) for reading in side])
    entries = LogicalFiles(table, 0)
    first = sum(len(reading.files) for reading in plan.left)
    moves = [
        *_moves(plan.left, left, 0, {False: DELETE, True: BEFORE}),
        *_moves(plan.arrived, arrived, first, {False: INSERT, True: AFTER}),
    ]
    shown = [m for m in moves if m.change in plan.shows]
    if not plan.drop_unchanged:
        return replace(plan, left=(), arrived=(), certain=(*plan.certain, *readings(shown, entries, tracked=True)))
    sure, before, after = (
        readings((m for m in shown if m.change in several), entries, tracked=True)
        for several in ({DELETE, INSERT}, {BEFORE}, {AFTER})
    )
    return replace(plan, left=before, arrived=after, certain=(*plan.certain, *sure))


def _bulk(side: Sequence[Reading]) -> int:
    """The rows to read from files of which most rows are read: whole files, but not a few newly hidden rows."""
    rows = 0
    for reading in side:
        hidden = [len(reading.hidden.positions.get(key, ())) for key in reading.files.column("key").to_pylist()]
        written = reading.files.num_records.to_numpy()
        changed = written - np.array(hidden, np.int64)
        rows += int(changed[2 * changed > written].sum())
    return rows


def _entries(reading: Reading) -> pa.Table:
    return reading.files.table.select(FILES.names).append_column("num_records", reading.files.num_records)


def _moves(
    side: Sequence[Reading], rows_by_label: ChangedPositions, first: int, changes: Mapping[bool, str]
) -> Iterator[Move]:
    """The rows of a side as moves with a change type; `first` is the number of the side's first file."""
    number = count()
    entry = count(first)
    for reading in side:
        for key, several in zip(reading.files.column("key").to_pylist(), reading.labels, strict=True):
            at = next(entry)
            for label in several:
                label_number = next(number)
                for paired, change in changes.items():
                    if rows := rows_by_label.get((label_number, paired)):
                        yield Move(at, key, label.version, rows, change=change)
