"""Builds the mutations of appends and overwrites from staged files.

Pure: which files go, what the transaction read, and what the commit says of itself follow from the snapshot and from
what was staged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import OutsideReplaced
from holdfast.model.files import FILES, FileTable, NoStats, Slab
from holdfast.model.mutation import (
    KEEPS_ROW_IDS,
    AllRows,
    AppVersion,
    Mutation,
    NoRows,
    Reads,
    RowsWhere,
    TableDefinition,
)
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.prune import Want, by_partition, is_partition
from holdfast.predicate.records import Constant, Predicate, columns_of, has_opaque, pushed
from holdfast.verbs.dml.strategy import Effect


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """What a user says of a write beside its rows."""

    app: AppVersion | None = None
    user_metadata: str | None = None


def created_table(shape: TableDefinition, replaced: Snapshot | None) -> Mutation:
    """Create a table without rows, or replace one."""
    removed = FILES.empty_table() if replaced is None else replaced.files.table
    return Mutation(
        "CREATE TABLE" if replaced is None else "REPLACE TABLE",
        {
            "isManaged": "false",
            "description": shape.description,
            "partitionBy": json.dumps(list(shape.partition_columns)),
            "clusterBy": json.dumps([".".join(path) for path in shape.clustering_columns or ()]),
            "properties": json.dumps(dict(shape.properties)),
        },
        removed=removed,
        reads=AllRows(),
        shape=shape,
    )


def appended(
    snapshot: Snapshot, staged: pa.Table, options: CommitOptions, *, shape: TableDefinition | None = None
) -> Mutation:
    """Add the staged files."""
    return Mutation(
        "WRITE",
        {"mode": "Append", "partitionBy": json.dumps(list(snapshot.partition_columns))},
        _metrics(staged),
        added=staged,
        shape=shape,
        app=options.app,
        user_metadata=options.user_metadata,
    )


def overwritten(
    snapshot: Snapshot,
    staged: pa.Table,
    options: CommitOptions,
    *,
    shape: TableDefinition | None = None,
    where: Predicate | None = None,
    where_text: str | None = None,
    same_partitions: pa.BooleanArray | None = None,
) -> Mutation:
    """Replace all files by the staged ones, or those in partitions that `where` names, or `same_partitions`."""
    parameters = {"mode": "Overwrite", "partitionBy": json.dumps(list(snapshot.partition_columns))}
    reads: Reads = AllRows()
    files = snapshot.files
    if where is not None:
        assert is_about_partitions(snapshot, where), "rows that are no whole partitions are found and replaced"
        files = files.filter(by_partition(snapshot.files, Want(snapshot, where)))
        reads = RowsWhere(where)
        parameters["predicate"] = where_text or ""
    elif same_partitions is not None:
        files = files.filter(same_partitions)
        parameters["isDynamicPartitionOverwrite"] = "true"
    removed = files.table
    return Mutation(
        "WRITE",
        parameters,
        {
            **_metrics(staged),
            "numRemovedFiles": removed.num_rows,
            "numRemovedBytes": pc.sum(removed.column("size")).as_py() or 0,
        },
        added=staged,
        removed=removed,
        reads=reads if removed.num_rows or not isinstance(reads, AllRows) else NoRows(),
        shape=shape,
        app=options.app,
        user_metadata=options.user_metadata,
    )


def replaced(
    snapshot: Snapshot,
    staged: pa.Table,
    taking: Effect,
    parameters: Mapping[str, str],
    options: CommitOptions,
    *,
    reads: Reads,
    shape: TableDefinition | None,
) -> Mutation:
    """Put the staged files in the place of rows that were found; `parameters` say by what."""
    return Mutation(
        "WRITE",
        {"mode": "Overwrite", "partitionBy": json.dumps(list(snapshot.partition_columns)), **parameters},
        {
            **_metrics(staged),
            "numDeletedRows": taking.deleted,
            "numCopiedRows": taking.copied,
            "numRemovedFiles": len(taking.removed),
            "numRemovedBytes": pc.sum(taking.removed.column("size")).as_py() or 0,
            "numDeletionVectorsAdded": len(taking.hidden),
        },
        added=pa.concat_tables([staged, taking.staged]),
        removed=taking.removed.table,
        hidden=taking.hidden,
        reads=reads,
        shape=shape,
        app=options.app,
        user_metadata=options.user_metadata,
        tags={KEEPS_ROW_IDS: "true"} if snapshot.identity is not None else {},
    )


def is_about_partitions(snapshot: Snapshot, where: Predicate) -> bool:
    """Whether a condition compares partition columns with literals and does nothing else."""
    wrong = [c for c in columns_of(where) if not is_partition(snapshot, c)]
    return not (has_opaque(where) or wrong or isinstance(pushed(where), Constant))


def refuse_outside(snapshot: Snapshot, staged: pa.Table, where: Predicate, text: str) -> None:
    """Refuse rows that do not belong to what is being replaced."""
    columns = [
        staged.column(f.name) if f.name in staged.column_names else pa.nulls(staged.num_rows, f.type) for f in FILES
    ]
    files = FileTable((Slab(pa.Table.from_arrays(columns, schema=FILES), NoStats(staged.num_rows)),))
    mask = by_partition(files, Want(snapshot, where))
    if not pc.all(mask, min_count=0).as_py():
        at = pc.index(mask, False).as_py()
        values = dict(staged.column("partition_values")[at].as_py())
        raise OutsideReplaced(
            f"replaceWhere is {text}, but the rows to write include the partition {values}; filter them first"
        )


def _metrics(staged: pa.Table) -> dict[str, int]:
    return {
        "numFiles": staged.num_rows,
        "numOutputRows": pc.sum(staged.column("num_records")).as_py() or 0,
        "numOutputBytes": pc.sum(staged.column("size")).as_py() or 0,
    }
