"""Splits a scan plan into one read task per file.

For engines that open files one by one with Arrow: the local engine, and Spark tasks if Spark itself cannot reach the
store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.model.files import PARTITION
from holdfast.model.snapshot import HiddenRows, Resolve
from holdfast.parquet.equality_deletes import EqualityDeleteRows
from holdfast.parquet.read import BATCH_ROWS, FileTask, ReadSpec
from holdfast.plan.scan.request import ScanPlan
from holdfast.schema.partition import column, typed


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file's key, and the task that reads it."""

    key: str
    task: FileTask


def read_spec(plan: ScanPlan, *, batch_rows: int = BATCH_ROWS, gone: tuple[EqualityDeleteRows, ...] = ()) -> ReadSpec:
    """The read settings of a plan, the same for every file; `gone` are the equality deletes."""
    identity, placement = plan.snapshot.identity, plan.snapshot.placement
    return ReadSpec(
        fields=plan.columns,
        partition_fields=plan.partition_fields,
        by_id=plan.snapshot.resolve is Resolve.BY_ID,
        to_name=plan.snapshot.to_name,
        id_column=None if identity is None else identity.id_column,
        version_column=None if identity is None else identity.version_column,
        id_field=None if identity is None else identity.id_field,
        version_field=None if identity is None else identity.version_field,
        has_gaps=identity is not None and identity.has_gaps,
        tuple_type=None if placement is None else placement.tuple_type,
        identities={} if placement is None else dict(placement.identities),
        equality_deletes=gone,
        metadata=plan.metadata.outputs,
        batch_rows=batch_rows,
    )


def planned_files(plan: ScanPlan, hidden: HiddenRows) -> Iterator[PlannedFile]:
    """One task per planned file, in the plan's order."""
    location = plan.snapshot.location
    number = 0
    counts = plan.files.num_records
    for chunk in plan.files.table.to_batches():
        partitions = _partitions(plan, chunk)
        placed = plan.snapshot.placement is not None
        cardinality = pc.fill_null(pc.struct_field(chunk.column("dv"), "cardinality"), 0)
        for row in range(chunk.num_rows):
            key = chunk.column("key")[row].as_py()
            positions = hidden.positions.get(key)
            assert positions is not None or not cardinality[row].as_py(), f"the hidden rows of {key} were not loaded"
            task = FileTask(
                uri=location.spark_uri(key),
                partition={name: values[row] for name, values in partitions.items()},
                hidden=positions,
                base_row_id=chunk.column("base_row_id")[row].as_py(),
                default_row_commit_version=chunk.column("default_row_commit_version")[row].as_py(),
                size=chunk.column("size")[row].as_py(),
                modified_ms=chunk.column("modified_ms")[row].as_py(),
                number=number,
                rows=counts[number].as_py(),
                format=chunk.column("format")[row].as_py() if "format" in chunk.schema.names else "parquet",
                **(_place(chunk, row) if placed else {}),
            )
            number += 1
            yield PlannedFile(key, task)


def _partitions(plan: ScanPlan, chunk: pa.RecordBatch) -> dict[str, pa.Array]:
    """The partition values of files, by column or partition field."""
    placement, location = plan.snapshot.placement, plan.snapshot.location
    if placement is not None:
        tuples = chunk.column(PARTITION)
        return {f.name: tuples.field(i) for i, f in enumerate(placement.tuple_type.fields)}
    texts = chunk.column("partition_values")
    return {
        f.physical_name: typed(column(texts, f.physical_name), f.type, where=f"{f.name} in {location.url}")
        for f in plan.partition_fields
    }


def _place(chunk: pa.RecordBatch, row: int) -> dict[str, Any]:
    names = {"shown": "path", "spec_id": "spec_id", "sequence": "sequence", "group": "group"}
    return {name: chunk.column(source)[row].as_py() for name, source in names.items()}
