"""Makes the mutation that restores an earlier version; does no I/O.

1. Files come back with their ids, versions and deletion vectors; ids given out since are never given out again.
2. What the table learnt since stays: its row tracking, the protected part of its history, and the ids and numbers that
   its columns have used, whatever a column was called then.
3. The rest of the definition is as it was: columns, properties, constraints, partitions, clustering. A table that was
   not clustered then is clustered by nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.model.files import FileTable
from holdfast.model.mutation import KEEPS_ROW_IDS, AllRows, Mutation, TableDefinition
from holdfast.model.snapshot import Snapshot
from holdfast.schema.identity import HIGH_WATER, advanced
from holdfast.schema.properties import (
    COLUMN_MAPPING_MAX_ID,
    ENABLE_ROW_TRACKING,
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    PROTECTED_BEFORE,
    ROW_TRACKING_SUSPENDED,
)
from holdfast.storage.arrays import mask

_LEARNT = (
    ENABLE_ROW_TRACKING,
    ROW_TRACKING_SUSPENDED,
    MATERIALIZED_ROW_ID,
    MATERIALIZED_ROW_COMMIT_VERSION,
    PROTECTED_BEFORE,
)


def differing(now: Snapshot, then: Snapshot) -> tuple[FileTable, FileTable]:
    """Files that go, and files that come back; a file with another vector is another file."""
    old, new = _identities(then.files), _identities(now.files)
    return (
        now.files.filter(mask(~pc.is_in(new, value_set=old).to_numpy(zero_copy_only=False))),
        then.files.filter(mask(~pc.is_in(old, value_set=new).to_numpy(zero_copy_only=False))),
    )


def restored_shape(now: TableDefinition, then: TableDefinition) -> TableDefinition | None:
    """What the table becomes; None where it stays as it is."""
    properties = {k: v for k, v in then.properties.items() if k not in _LEARNT}
    properties |= {name: now.properties[name] for name in _LEARNT if name in now.properties}
    largest = max(int(shape.properties.get(COLUMN_MAPPING_MAX_ID, 0)) for shape in (now, then))
    if largest:
        properties[COLUMN_MAPPING_MAX_ID] = str(largest)
    used = {f.physical_name: int(f.metadata[HIGH_WATER]) for f in now.schema.fields if HIGH_WATER in f.metadata}
    marks = {f.name: used[f.physical_name] for f in then.schema.fields if f.physical_name in used}
    clustering = then.clustering_columns
    if clustering is None and now.clustering_columns is not None:
        clustering = ()
    shape = TableDefinition(
        schema=advanced(then.schema, marks),
        partition_columns=then.partition_columns,
        properties=properties,
        clustering_columns=clustering,
        name=then.name,
        description=then.description,
        features=then.features,
    )
    return None if shape == now else shape


def restored(
    now: Snapshot,
    then: Snapshot,
    removed: FileTable,
    readded: pa.Table,
    shape: TableDefinition | None,
    parameters: Mapping[str, Any],
) -> Mutation:
    """Put the files of an earlier version in the place of those that are there now."""
    size = pc.sum(then.files.column("size")).as_py() or 0
    has_ids = not readded.column("base_row_id").null_count  # a file from before the table tracked rows gets new ones
    return Mutation(
        "RESTORE",
        {name: json.dumps(value) if value is not None else None for name, value in parameters.items()},
        {
            "tableSizeAfterRestore": size,
            "numOfFilesAfterRestore": len(then.files),
            "numRemovedFiles": len(removed),
            "numRestoredFiles": readded.num_rows,
            "removedFilesSize": pc.sum(removed.column("size")).as_py() or 0,
            "restoredFilesSize": pc.sum(readded.column("size")).as_py() or 0,
        },
        removed=removed.table,
        readded=readded,
        reads=AllRows(),
        shape=shape,
        tags={KEEPS_ROW_IDS: "true"} if now.identity is not None and has_ids else {},
    )


def _identities(files: FileTable) -> pa.Array:
    """One text per file and vector."""
    if not len(files):
        return pa.array([], pa.string())
    keys = files.column("key").combine_chunks()
    vectors = pc.fill_null(pc.struct_field(files.column("dv").combine_chunks(), "id"), "")
    return pc.binary_join_element_wise(keys, vectors, "\x1f")
