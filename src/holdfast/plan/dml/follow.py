"""Rows that are no longer where a transaction read them: where they were, and where they are now.

A row is known again by its id and its version together: an id alone would take a row that another writer has changed
for the one that was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pyroaring import BitMap64

from holdfast.model.files import FileTable, hiding
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.plan.dml.change import Changer, Positions
from holdfast.plan.scan.request import Request, ScanPlan, plan_scan
from holdfast.rows.columns import ROW_COMMIT_VERSION, ROW_ID


@dataclass(frozen=True)
class LocatedRows:
    """Rows of a version of a table: those of the plan's files that are not hidden."""

    plan: ScanPlan
    hidden: HiddenRows


@dataclass(frozen=True)
class Followed:
    """What became of rows."""

    moved: Positions = field(default_factory=dict)  # where rows were that are elsewhere now, unchanged
    to: Positions = field(default_factory=dict)  # where these are now
    altered: Positions = field(default_factory=dict)  # where rows were that have another version now


class RowFollower(Protocol):
    """What a runner does for a transaction that lost a race."""

    def follow(self, old: LocatedRows, new: LocatedRows) -> Followed:
        """Look for the rows of one place in another."""

    def ids(self, place: LocatedRows, limit: int) -> Sequence[int]:
        """Some ids of rows, for people to read."""


class DmlEngine(Changer[Any], RowFollower, Protocol):
    """Who changes rows, and finds them again."""


def place_of(snapshot: Snapshot, files: FileTable, hidden: HiddenRows) -> LocatedRows:
    """The live rows of files, to be told by id and version."""
    return LocatedRows(
        replace(plan_scan(snapshot, Request(columns=(), metadata=[ROW_ID, ROW_COMMIT_VERSION])), files=files), hidden
    )


def only(snapshot: Snapshot, files: FileTable, rows: Positions) -> LocatedRows:
    """Some rows of files, by their positions, to be told by id and version."""
    return place_of(snapshot, hiding(files), all_but(files, rows))


def all_but(files: FileTable, rows: Positions) -> HiddenRows:
    """What to hide so that only some rows of files are left; the log says how many rows each of these files has."""
    return HiddenRows(
        {
            key: rows.get(key, BitMap64()).flip(0, physical)
            for key, physical in zip(files.column("key").to_pylist(), files.num_records.to_pylist(), strict=True)
        }
    )


def united(*parts: Positions) -> dict[str, BitMap64]:
    """Rows that are in any of these."""
    union: dict[str, BitMap64] = {}
    for part in parts:
        for key, rows in part.items():
            union[key] = union[key] | rows if key in union else rows
    return {key: rows for key, rows in union.items() if rows}


def without(rows: Positions, *others: Positions) -> dict[str, BitMap64]:
    """Rows that are in none of the others."""
    excluded = united(*others)
    remaining = {key: positions - excluded[key] if key in excluded else positions for key, positions in rows.items()}
    return {key: positions for key, positions in remaining.items() if positions}


def common(rows: Positions, other: Positions) -> dict[str, BitMap64]:
    """Rows that are in both."""
    shared = {key: positions & other[key] for key, positions in rows.items() if key in other}
    return {key: positions for key, positions in shared.items() if positions}
