"""Builds the equality deletes of the shared model: the columns to compare, and the delete files.

1. A compared column is found by its field id in data files and delete files alike; for a column that was dropped since,
   the newest schema that had it counts.
2. Compared columns get names of their own, so that they never clash with a user's column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from holdfast.errors import Damaged, Unsupported
from holdfast.formats.iceberg.metadata.file_table import with_all_columns
from holdfast.formats.iceberg.metadata.paths import Paths
from holdfast.model.files import FileTable, NoStats, Slab
from holdfast.model.snapshot import GoneByValue, Placement, Snapshot
from holdfast.schema.types import Array, Field, Map, Struct


def equality_delete_set(
    snapshot: Snapshot, schemas: Sequence[Struct], ids: Sequence[int], everywhere: bool, entries: pa.Table, paths: Paths
) -> GoneByValue:
    """Equality deletes that compare the same columns; a column is that of the first of `schemas` that has it."""
    where = snapshot.location.url
    fields = tuple(_compared(field_id, schemas, where) for field_id in ids)
    deletes = replace(
        snapshot,
        schema=Struct(fields),
        files=FileTable((Slab(_files(entries, paths), NoStats(entries.num_rows)),)),
        identity=None,
        placement=Placement(Struct(())),
    )
    return GoneByValue(deletes, everywhere)


def _compared(field_id: int, schemas: Sequence[Struct], where: str) -> Field:
    for schema in schemas:
        for f in schema.fields:
            if f.field_id != field_id:
                continue
            if isinstance(f.type, Struct | Array | Map):
                raise Damaged(f"equality deletes of {where} compare {f.name}, which is nested", path=where)
            return replace(f, name=f"__hf_equal_{field_id}", nullable=True)
    if any(_is_inside(field_id, schema) for schema in schemas):
        raise Unsupported(f"{where} has equality deletes by a field inside a struct, which Holdfast does not read")
    raise Damaged(f"equality deletes of {where} compare the field {field_id}, which no schema of it has", path=where)


def _is_inside(field_id: int, schema: Struct) -> bool:
    inner = [f.type for f in schema.fields if isinstance(f.type, Struct)]
    return any(field_id == f.field_id for type_ in inner for f in type_.fields) or any(
        _is_inside(field_id, type_) for type_ in inner
    )


def _files(entries: pa.Table, paths: Paths) -> pa.Table:
    names = {"size": "file_size_in_bytes", "sequence": "sequence_number", "format": "file_format"}
    spelled = entries["file_path"].combine_chunks()
    columns = {"path": spelled, "key": paths.keys(spelled)}
    for name in ("size", "spec_id", "sequence", "format", "group"):
        columns[name] = entries[names.get(name, name)].combine_chunks()
    tuples = pa.Array.from_buffers(pa.struct([]), entries.num_rows, [None])
    return with_all_columns(columns, tuples, entries.num_rows)
