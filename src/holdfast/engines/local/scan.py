"""Scans a table in this process with Arrow.

1. Every planned file is read, or the scan raises; files follow one another in the plan's order, rows in stored order.
2. Hidden rows are left out before the condition is evaluated; a limit counts rows that satisfy it.
3. The output has the requested columns in the requested order, then metadata columns, with the types of `schema.arrow`.
4. At most `threads` files are open at a time, each a few batches ahead of what was consumed; a scan that is given up
   stops reading.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace

import pyarrow as pa

from holdfast.engines.local.equality_deletes import gone_rows
from holdfast.engines.local.side_by_side import side_by_side
from holdfast.model.snapshot import HiddenRows
from holdfast.parquet.read import BATCH_ROWS, ReadSpec, output_schema
from holdfast.plan.scan.file_formats import files_text, refuse_formats
from holdfast.plan.scan.request import ScanPlan
from holdfast.plan.scan.tasks import PlannedFile, planned_files, read_spec
from holdfast.predicate.evaluate import matches
from holdfast.predicate.records import Predicate, columns_of, has_opaque
from holdfast.schema.types import Field

THREADS = 4  # files that are read at the same time


def scan_table(plan: ScanPlan, hidden: HiddenRows, *, limit: int | None = None) -> pa.Table:
    """The rows of a plan as one table."""
    return scan_batches(plan, hidden, limit=limit).read_all()


def scan_batches(
    plan: ScanPlan,
    hidden: HiddenRows,
    *,
    limit: int | None = None,
    threads: int = THREADS,
    batch_rows: int = BATCH_ROWS,
) -> pa.RecordBatchReader:
    """The rows of a plan, batch by batch."""
    refuse_formats(plan)
    spec = read_spec(plan, batch_rows=batch_rows, gone=gone_rows(hidden))
    predicate = None if plan.where is None else plan.where.predicate
    full = replace(spec, fields=(*spec.fields, *_for_condition(plan, predicate)))
    if predicate is not None:
        matches(output_schema(full).empty_table(), predicate)  # refuses what it cannot evaluate before any reading
    schema = output_schema(spec)
    batches = _batches(plan, full, planned_files(plan, hidden), threads)
    return pa.RecordBatchReader.from_batches(schema, _filtered(batches, predicate, schema, limit))


def describe(plan: ScanPlan) -> tuple[str, ...]:
    """How the plan would be read, in sentences for people."""
    refuse_formats(plan)
    if plan.where is not None and has_opaque(plan.where.predicate):
        return ("not at all: a part of the condition only Spark understands",)
    return (f"by Arrow in this process: {files_text(len(plan.files))}, at most {THREADS} at a time",)


def _batches(
    plan: ScanPlan, spec: ReadSpec, tasks: Iterator[PlannedFile], threads: int
) -> Generator[pa.RecordBatch, None, None]:
    with closing(side_by_side(plan.snapshot.location, spec, tasks, threads)) as files:
        for _, batches in files:
            yield from batches


def _filtered(
    batches: Generator[pa.RecordBatch, None, None], predicate: Predicate | None, schema: pa.Schema, limit: int | None
) -> Iterator[pa.RecordBatch]:
    """Rows that satisfy the condition, up to the limit, without the columns only the condition needed."""
    remaining = limit
    with closing(batches):
        while remaining is None or remaining > 0:
            batch = next(batches, None)
            if batch is None:
                return
            if predicate is not None:
                batch = batch.filter(matches(batch, predicate))
            if remaining is not None:
                batch = batch.slice(0, remaining)
                remaining -= batch.num_rows
            if batch.num_rows:
                yield batch.select(schema.names)


def _for_condition(plan: ScanPlan, predicate: Predicate | None) -> tuple[Field, ...]:
    """The columns that the condition needs and the output does not have."""
    needed = set() if predicate is None else {column[0] for column in columns_of(predicate)}
    output = {field.name for field in plan.columns}
    return tuple(f for f in plan.snapshot.schema.fields if f.name in needed - output)
