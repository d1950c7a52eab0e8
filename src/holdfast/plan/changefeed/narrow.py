"""Rows that merely moved, told by their ids and versions before a value is read. Pure.

    both sides as ids, versions and places  ->  paired by id  ->  the same version: the row moved, and is not read
        ->  the others become moves of their own, each told what happened to it: nothing is left to be paired

1. What is told of a plan that was narrowed is what is told of the plan.
2. A plan is narrowed only where many rows may have moved: files most of whose rows went, and files that came.
3. Every file that is asked for some of its rows has a row count.
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

Rest: TypeAlias = Mapping[tuple[int, bool], BitMap64]
"""Positions of rows that did not merely move, by the number of their label and whether the other side has the row.

Labels are numbered through: by reading, then by file, then by move.
"""


def is_wide(plan: ChangesPlan, many: int) -> bool:
    """Whether it pays to look at ids and versions first: where as many rows as that may have moved."""
    sides = (plan.left, plan.arrived)
    if plan.keys or plan.snapshot.identity is None or not plan.fields:
        return False
    known = all(reading.has_ids and not reading.files.num_records.null_count for side in sides for reading in side)
    return known and all(_bulk(side) >= many for side in sides)


def labels(side: Sequence[Reading]) -> int:
    """How many labels the readings of a side have."""
    return sum(len(several) for reading in side for several in reading.labels)


def narrowed(plan: ChangesPlan, left: Rest, arrived: Rest) -> ChangesPlan:
    """The plan without rows that merely moved; those that both sides have are paired only where values decide."""
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
    """Rows that are wanted of files most of whose rows are: a vector that grew hides few, a file that went has all."""
    rows = 0
    for reading in side:
        hidden = [len(reading.hidden.positions.get(key, ())) for key in reading.files.column("key").to_pylist()]
        written = reading.files.num_records.to_numpy()
        wanted = written - np.array(hidden, np.int64)
        rows += int(wanted[2 * wanted > written].sum())
    return rows


def _entries(reading: Reading) -> pa.Table:
    return reading.files.table.select(FILES.names).append_column("num_records", reading.files.num_records)


def _moves(side: Sequence[Reading], rest: Rest, first: int, changes: Mapping[bool, str]) -> Iterator[Move]:
    """The rows of a side by what happened to them; `first` is the number of the side's first file."""
    number = count()
    entry = count(first)
    for reading in side:
        for key, several in zip(reading.files.column("key").to_pylist(), reading.labels, strict=True):
            at = next(entry)
            for label in several:
                mine = next(number)
                for paired, change in changes.items():
                    if rows := rest.get((mine, paired)):
                        yield Move(at, key, label.version, rows, change=change)
