"""Searches for rows in files of any version, by their ids or by a condition."""

from __future__ import annotations

from dataclasses import dataclass

from pyroaring import BitMap64

from holdfast.plan.scan.request import ScanPlan

FILE_COLUMN, ID_COLUMN, INDEX_COLUMN = "__hf_file", "__hf_row_id", "__hf_row_index"  # of a search's metadata columns


@dataclass(frozen=True, slots=True)
class RowSearch:
    """One scan of a search: the rows that its plan gives, or only those of them that have one of the ids."""

    plan: ScanPlan  # with FILE_COLUMN and INDEX_COLUMN, and ID_COLUMN where there are ids
    ids: BitMap64 | None = None
