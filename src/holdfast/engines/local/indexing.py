"""Reads rows that are to be indexed, or are not indexed yet, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.engines.local.scan import scan_batches, scan_table
from holdfast.model.files import FileTable
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.plan.scan.metadata_columns import MetadataColumns
from holdfast.plan.scan.request import Condition, ScanPlan
from holdfast.predicate.records import Predicate
from holdfast.predicate.render import render
from holdfast.rows.columns import FILE_NUMBER, ROW_COMMIT_VERSION, ROW_ID, ROW_INDEX
from holdfast.schema.types import Field

Numbers = NDArray[np.int64]
ID, VERSION, FILE, POSITION = "__hf_row_id", "__hf_row_version", "__hf_file", "__hf_position"


def indexed_rows(
    snapshot: Snapshot, files: FileTable, hidden: HiddenRows, fields: Sequence[Field], newer_than: int | None
) -> Iterator[pa.Table]:
    """The columns of live rows, then ID and VERSION, batch by batch; only rows changed after a version, if told."""
    metadata = MetadataColumns.of_outputs({ROW_ID: ID, ROW_COMMIT_VERSION: VERSION})
    plan = ScanPlan(snapshot, files, (), tuple(fields), metadata, None)
    for batch in scan_batches(plan, hidden):
        rows = pa.Table.from_batches([batch])
        yield rows if newer_than is None else rows.filter(pc.greater(rows.column(VERSION), pa.scalar(newer_than)))


def rows_with_places(
    snapshot: Snapshot, files: FileTable, hidden: HiddenRows, fields: Sequence[Field], newer_than: int | None
) -> tuple[pa.Table, Numbers, Numbers]:
    """The columns of live rows, the number of the file of each among these, and the position in it."""
    metadata = MetadataColumns.of_outputs({FILE_NUMBER: FILE, ROW_INDEX: POSITION, ROW_COMMIT_VERSION: VERSION})
    rows = scan_table(ScanPlan(snapshot, files, (), tuple(fields), metadata, None), hidden)
    if newer_than is not None:
        rows = rows.filter(pc.greater(rows.column(VERSION), pa.scalar(newer_than)))
    return rows.select([f.name for f in fields]), rows.column(FILE).to_numpy(), rows.column(POSITION).to_numpy()


def matching_places(
    snapshot: Snapshot, files: FileTable, hidden: HiddenRows, where: Predicate, newer_than: int | None
) -> tuple[pa.Array, pa.Array]:
    """Where rows are that satisfy a condition: the number of the file among these, and the position in it."""
    metadata = MetadataColumns.of_outputs({FILE_NUMBER: FILE, ROW_INDEX: POSITION, ROW_COMMIT_VERSION: VERSION})
    plan = ScanPlan(snapshot, files, (), (), metadata, Condition(None, render(where), where))
    rows = scan_table(plan, hidden)
    if newer_than is not None:
        rows = rows.filter(pc.greater(rows.column(VERSION), pa.scalar(newer_than)))
    return rows.column(FILE).combine_chunks(), rows.column(POSITION).combine_chunks()
