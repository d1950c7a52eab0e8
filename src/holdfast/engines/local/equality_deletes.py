"""Reads equality delete files into memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from holdfast.model.snapshot import GoneByValue, HiddenRows
from holdfast.parquet.equality_deletes import GROUP, SEQUENCE, EqualityDeleteRows
from holdfast.parquet.read import output_schema, read_batches
from holdfast.parquet.source import open_source
from holdfast.plan.scan.request import Request, plan_scan
from holdfast.plan.scan.tasks import planned_files, read_spec
from holdfast.storage.open import place


def gone_rows(hidden: HiddenRows) -> tuple[EqualityDeleteRows, ...]:
    """The rows to delete by value; they grow with the deletes, which compaction folds away."""
    return tuple(map(_rows, hidden.by_value))


def _rows(gone: GoneByValue) -> EqualityDeleteRows:
    plan = plan_scan(gone.deletes, Request())
    spec = read_spec(plan)
    schema = output_schema(spec)
    tables = [_with_place(schema.empty_table(), 0, None)]
    for planned in planned_files(plan, HiddenRows()):
        store, key = place(gone.deletes.location, planned.key)
        batches = list(read_batches(open_source(store, key, planned.task.size), spec, planned.task))
        tables.append(_with_place(pa.Table.from_batches(batches, schema), planned.task.sequence, planned.task.group))
    return EqualityDeleteRows(plan.columns, pa.concat_tables(tables), gone.everywhere)


def _with_place(rows: pa.Table, sequence: int, group: int | None) -> pa.Table:
    count = rows.num_rows
    groups = pa.nulls(count, pa.int64()) if group is None else pa.array(np.full(count, group, np.int64))
    return rows.append_column(SEQUENCE, pa.array(np.full(count, sequence, np.int64))).append_column(GROUP, groups)
