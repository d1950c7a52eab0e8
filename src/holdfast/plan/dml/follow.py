"""Finds rows again that were moved to other files after a transaction read them.

A row is identified by its id and its row commit version together: the id alone would accept a row that another writer
changed since.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyroaring import BitMap64

from holdfast.model.files import FileTable, hiding
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.plan.dml.change import Positions
from holdfast.plan.scan.request import Request, ScanPlan, plan_scan
from holdfast.rows.columns import ROW_COMMIT_VERSION, ROW_ID


@dataclass(frozen=True)
class LocatedRows:
    """Rows of a table version: the rows of the plan's files that are not hidden."""

    plan: ScanPlan
    hidden: HiddenRows


@dataclass(frozen=True)
class Followed:
    """Where rows of an older version are in a newer one."""

    moved: Positions = field(default_factory=dict)  # old positions of rows that are elsewhere now, unchanged
    to: Positions = field(default_factory=dict)  # the new positions of these rows
    altered: Positions = field(default_factory=dict)  # old positions of rows that have another version now


def located_rows(snapshot: Snapshot, files: FileTable, hidden: HiddenRows) -> LocatedRows:
    """The live rows of files, with id and version."""
    return LocatedRows(
        replace(plan_scan(snapshot, Request(columns=(), metadata=[ROW_ID, ROW_COMMIT_VERSION])), files=files), hidden
    )


def rows_at(snapshot: Snapshot, files: FileTable, rows: Positions) -> LocatedRows:
    """The rows of files at some positions, with id and version."""
    return located_rows(snapshot, hiding(files), hidden_except(files, rows))


def hidden_except(files: FileTable, rows: Positions) -> HiddenRows:
    """Hides all rows of files except some; every file has a row count in the log."""
    return HiddenRows(
        {
            key: rows.get(key, BitMap64()).flip(0, physical)
            for key, physical in zip(files.column("key").to_pylist(), files.num_records.to_pylist(), strict=True)
        }
    )


def union(*parts: Positions) -> dict[str, BitMap64]:
    merged: dict[str, BitMap64] = {}
    for part in parts:
        for key, rows in part.items():
            merged[key] = merged[key] | rows if key in merged else rows
    return {key: rows for key, rows in merged.items() if rows}


def difference(rows: Positions, *others: Positions) -> dict[str, BitMap64]:
    """The positions that are in none of the others."""
    excluded = union(*others)
    remaining = {key: positions - excluded[key] if key in excluded else positions for key, positions in rows.items()}
    return {key: positions for key, positions in remaining.items() if positions}


def intersection(rows: Positions, other: Positions) -> dict[str, BitMap64]:
    """The positions that are in both."""
    shared = {key: positions & other[key] for key, positions in rows.items() if key in other}
    return {key: positions for key, positions in shared.items() if positions}
