"""Commits equality deletes to a table of a catalog, as engines that stream upserts do."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast import IcebergTable
from holdfast.env import system
from holdfast.formats.iceberg.catalog.commit import attempt
from holdfast.formats.iceberg.commit.attempt import SnapshotAttempt
from holdfast.formats.iceberg.commit.avro_schemas import tuple_schema
from holdfast.formats.iceberg.commit.manifest_writer import ManifestWriter, manifest_list_rows
from holdfast.formats.iceberg.metadata.manifests import DELETES, EQUALITY_DELETES
from holdfast.formats.iceberg.metadata.types import type_names
from holdfast.model.mutation import Committed
from holdfast.parquet.fit import stored_field


def commit_equality_delete(table: IcebergTable, rows: pa.Table) -> None:
    """One commit with an equality delete of these rows, everywhere: the spec it is of must not partition."""
    source, state = table.handle.source, table.handle.newest()
    assert source is not None
    schema, metadata = state.snapshot.schema, state.metadata
    ids = [f.field_id for name in rows.column_names if (f := schema.find(name)) is not None and f.field_id is not None]
    spec_id = next(number for number, spec in state.contents.types.specs.items() if spec.is_unpartitioned)
    name = system().new_uuid()
    raw = metadata.schema_of(None, "here")
    writer = ManifestWriter(state, name.int >> 65, metadata.last_sequence_number + 1, str(name), raw)
    fields = [stored_field(f.name, f.type, number) for f, number in zip(rows.schema, ids, strict=True)]
    sink = pa.BufferOutputStream()
    pq.write_table(rows.cast(pa.schema(fields)), sink, store_schema=False)
    path = f"{metadata.location}/data/{name}-equal.parquet"
    writer.put(path, bytes(sink.getvalue()))
    entry = {
        "content": EQUALITY_DELETES,
        "file_path": path,
        "file_format": "PARQUET",
        "partition": {},
        "record_count": rows.num_rows,
        "file_size_in_bytes": len(sink.getvalue()),
        "equality_ids": ids,
    }
    tuples = tuple_schema(state.contents.types.specs[spec_id], type_names(raw))
    row = writer.write_manifest(DELETES, spec_id, tuples, [writer.added_entry(entry)])
    listing, first, count = writer.write_manifest_list([row, *manifest_list_rows(state)])
    new = SnapshotAttempt(
        snapshot_id=writer.snapshot_id,
        parent=None if state.entry is None else state.entry.snapshot_id,
        sequence=writer.sequence,
        timestamp_ms=max(system().now_ms(), metadata.last_updated_ms),
        manifest_list=listing,
        summary={"operation": "delete", "added-equality-deletes": str(rows.num_rows)},
        schema_id=metadata.current_schema_id,
        first_row_id=first,
        added_rows=count,
    )
    assert attempt(source, state, new, system()) == Committed(writer.snapshot_id)
