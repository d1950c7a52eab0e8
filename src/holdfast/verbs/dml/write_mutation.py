"""Append and overwrite: staged files become a mutation.

Pure: which files go, what the transaction read, and what the commit says of itself follow from the snapshot and from
what was staged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid, OutsideReplaced
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
from holdfast.schema.partition import column
from holdfast.verbs.dml.strategy import Effect


@dataclass(frozen=True, slots=True)
class CommitOptions:
    """What a user says of a write beside its rows."""

    app: AppVersion | None = None
    user_metadata: str | None = None


def made(shape: TableDefinition, replaced: Snapshot | None) -> Mutation:
    """A table without rows, new or in the place of another."""
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
    snapshot: Snapshot, staged: pa.Table, said: CommitOptions, *, shape: TableDefinition | None = None
) -> Mutation:
    """Add the staged files."""
    return Mutation(
        "WRITE",
        {"mode": "Append", "partitionBy": json.dumps(list(snapshot.partition_columns))},
        _metrics(staged),
        added=staged,
        shape=shape,
        app=said.app,
        user_metadata=said.user_metadata,
    )


def overwritten(
    snapshot: Snapshot,
    staged: pa.Table,
    said: CommitOptions,
    *,
    shape: TableDefinition | None = None,
    where: Predicate | None = None,
    where_text: str | None = None,
    beside: pa.BooleanArray | None = None,
) -> Mutation:
    """Put the staged files in the place of all others, of those in partitions `where` names, or of those `beside`."""
    parameters = {"mode": "Overwrite", "partitionBy": json.dumps(list(snapshot.partition_columns))}
    reads: Reads = AllRows()
    files = snapshot.files
    if where is not None:
        assert is_about_partitions(snapshot, where), "rows that are no whole partitions are found and replaced"
        files = files.filter(by_partition(snapshot.files, Want(snapshot, where)))
        reads = RowsWhere(where)
        parameters["predicate"] = where_text or ""
    elif beside is not None:
        files = files.filter(beside)
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
        app=said.app,
        user_metadata=said.user_metadata,
    )


def replaced(
    snapshot: Snapshot,
    staged: pa.Table,
    taking: Effect,
    told: Mapping[str, str],
    said: CommitOptions,
    *,
    reads: Reads,
    shape: TableDefinition | None,
) -> Mutation:
    """Put the staged files in the place of rows that were found; `told` says by what."""
    return Mutation(
        "WRITE",
        {"mode": "Overwrite", "partitionBy": json.dumps(list(snapshot.partition_columns)), **told},
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
        app=said.app,
        user_metadata=said.user_metadata,
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
        found = dict(staged.column("partition_values")[at].as_py())
        raise OutsideReplaced(
            f"replaceWhere is {text}, but the rows to write include the partition {found}; filter them first"
        )


def same_partitions(snapshot: Snapshot, staged: pa.Table) -> pa.BooleanArray:
    """The files of those partitions that staged files are of."""
    if not snapshot.partition_columns:
        raise Invalid("dynamic partition overwrite needs a partitioned table")
    fields = [snapshot.schema.find(name) for name in snapshot.partition_columns]
    names = [f.physical_name for f in fields if f is not None]
    theirs = _joined(staged.column("partition_values"), names)
    return pc.is_in(_joined(snapshot.files.column("partition_values"), names), value_set=theirs)


def _joined(values: pa.ChunkedArray, names: list[str]) -> pa.Array:
    """One text per file that tells partitions apart; null and empty are the same partition."""
    parts = [pc.fill_null(column(values, name), "") for name in names]
    escaped = [pc.replace_substring(part, "\x1f", "\x1f\x1f") for part in parts]
    return pc.binary_join_element_wise(*escaped, "\x1f|") if len(escaped) > 1 else escaped[0]


def _metrics(staged: pa.Table) -> dict[str, int]:
    return {
        "numFiles": staged.num_rows,
        "numOutputRows": pc.sum(staged.column("num_records")).as_py() or 0,
        "numOutputBytes": pc.sum(staged.column("size")).as_py() or 0,
    }
