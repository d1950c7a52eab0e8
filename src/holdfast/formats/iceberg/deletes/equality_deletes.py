"""Equality deletes as the shared model has them: rows to compare with, and the files they stand in.

1. A compared column is found by its id in data files and delete files alike; one that the table dropped since is known
   from the newest schema that had it.
2. Compared columns go by names of their own, so that they never meet a user's column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from holdfast.errors import Damaged, Unsupported
from holdfast.formats.iceberg.metadata.paths import Paths
from holdfast.model.files import FILES, PARTITION, PLACED, FileTable, NoStats, Slab
from holdfast.model.snapshot import GoneByValue, Placement, Snapshot
from holdfast.schema.types import Array, Field, Map, Struct

_NO_TUPLE = pa.struct([])


def equality_delete_set(
    snapshot: Snapshot, schemas: Sequence[Struct], ids: Sequence[int], everywhere: bool, entries: pa.Table, paths: Paths
) -> GoneByValue:
    """Equality deletes over the same columns; `schemas` are those a column may be of, the one to prefer first."""
    where = snapshot.location.url
    fields = tuple(_compared(number, schemas, where) for number in ids)
    deletes = replace(
        snapshot,
        schema=Struct(fields),
        files=FileTable((Slab(_files(entries, paths), NoStats(entries.num_rows)),)),
        identity=None,
        placement=Placement(Struct(())),
    )
    return GoneByValue(deletes, everywhere)


def _compared(number: int, schemas: Sequence[Struct], where: str) -> Field:
    for schema in schemas:
        for f in schema.fields:
            if f.field_id != number:
                continue
            if isinstance(f.type, Struct | Array | Map):
                raise Damaged(f"equality deletes of {where} compare {f.name}, which is nested", path=where)
            return replace(f, name=f"__hf_equal_{number}", nullable=True)
    if any(_is_inside(number, schema) for schema in schemas):
        raise Unsupported(f"{where} has equality deletes by a field inside a struct, which Holdfast does not read")
    raise Damaged(f"equality deletes of {where} compare the field {number}, which no schema of it has", path=where)


def _is_inside(number: int, schema: Struct) -> bool:
    inner = [f.type for f in schema.fields if isinstance(f.type, Struct)]
    return any(number == f.field_id for type_ in inner for f in type_.fields) or any(
        _is_inside(number, type_) for type_ in inner
    )


def _files(entries: pa.Table, paths: Paths) -> pa.Table:
    spelled = entries["file_path"].combine_chunks()
    made = {
        "path": spelled,
        "key": paths.keys(spelled),
        "size": entries["file_size_in_bytes"].combine_chunks(),
        "spec_id": entries["spec_id"].combine_chunks(),
        "sequence": entries["sequence_number"].combine_chunks(),
        "format": entries["file_format"].combine_chunks(),
        "group": entries["group"].combine_chunks(),
    }
    count = entries.num_rows
    columns = [made[f.name] if f.name in made else pa.nulls(count, f.type) for f in (*FILES, *PLACED)]
    tuples = pa.Array.from_buffers(_NO_TUPLE, count, [None])
    schema = pa.schema([*FILES, *PLACED, pa.field(PARTITION, _NO_TUPLE)])
    return pa.Table.from_arrays([*columns, tuples], schema=schema)
