"""A small table whose rows change, and what its changes tell."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa

from holdfast import DeltaTable

fresh = itertools.count()

PLAIN = {"holdfast.plain": "true", "delta.enableRowTracking": "false", "delta.enableDeletionVectors": "false"}

VECTORS = {"holdfast.plain": "false", "delta.enableRowTracking": "false", "delta.enableDeletionVectors": "true"}


def table(rows: int = 3, *, path: str | None = None, partition: str | None = None, **properties: str) -> DeltaTable:
    """Rows with `id` from 0 and `v` 'a', at version 1."""
    where = path or f"memory://change-traps/{next(fresh)}"
    builder = DeltaTable.create(None).location(where).addColumn("id", "integer").addColumn("v", "string")
    for name, value in properties.items():
        builder = builder.property(name, value)
    made = (builder.partitionedBy(partition) if partition else builder).execute()
    made.append(values(*((i, "a") for i in range(rows))))
    return made


def values(*rows: tuple[int, str | None]) -> pa.Table:
    return pa.table(
        {"id": pa.array([i for i, _ in rows], pa.int32()), "v": pa.array([v for _, v in rows], pa.string())}
    )


def told(
    found: DeltaTable, start: Any, end: Any = None, kind: str = "full-delta", **options: Any
) -> list[tuple[Any, ...]]:
    """Values, change type, version and id of every change."""
    changes = found.changes(start, end, kind=kind, **options).toArrow().drop_columns(["_commit_timestamp"])
    return [tuple(row.values()) for row in changes.to_pylist()]
