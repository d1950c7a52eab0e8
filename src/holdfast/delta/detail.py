"""A table in one row: where it is, how large, which settings and features; the columns of DESCRIBE DETAIL."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.delta.features import table_features
from holdfast.delta.state import DeltaState
from holdfast.model.files import STRINGS
from holdfast.schema.types import Struct

_TIME = pa.timestamp("us", tz="UTC")
DETAIL = pa.schema(
    [
        ("format", pa.string()),
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("location", pa.string()),
        ("createdAt", _TIME),
        ("lastModified", _TIME),
        ("partitionColumns", pa.list_(pa.string())),
        ("clusteringColumns", pa.list_(pa.string())),
        ("numFiles", pa.int64()),
        ("sizeInBytes", pa.int64()),
        ("properties", STRINGS),
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("tableFeatures", pa.list_(pa.string())),
    ]
)


def detail(state: DeltaState) -> pa.Table:
    """The one row that describes a table."""
    snapshot, metadata, protocol = state.snapshot, state.metadata, state.protocol
    sizes = snapshot.files.column("size")
    row = {
        "format": "delta",
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "location": snapshot.location.spark_uri("").rstrip("/"),
        "createdAt": None if metadata.created_time is None else metadata.created_time * 1000,
        "lastModified": snapshot.timestamp_ms * 1000,
        "partitionColumns": list(snapshot.partition_columns),
        "clusteringColumns": [_logical(snapshot.schema, path) for path in snapshot.clustering_columns],
        "numFiles": len(sizes),
        "sizeInBytes": pc.sum(sizes).as_py() or 0,
        "properties": sorted(snapshot.properties.items()),
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "tableFeatures": list(table_features(protocol)),
    }
    return pa.Table.from_pylist([row], schema=DETAIL)


def _logical(schema: Struct, path: tuple[str, ...]) -> str:
    """The name a user knows a physical path by; a column that is gone keeps its physical name."""
    names = []
    level: object = schema
    for part in path:
        found = next((f for f in level if f.physical_name == part), None) if isinstance(level, Struct) else None
        names.append(part if found is None else found.name)
        level = None if found is None else found.type
    return ".".join(names)
