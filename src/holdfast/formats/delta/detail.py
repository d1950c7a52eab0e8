"""Details of a table as one row or as text: location, size, settings, and which readers can open it.

1. The first columns are those of DESCRIBE DETAIL. Two more have the readers that can open the table, and its settings
   with their defaults.
2. The text has the same content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.formats.delta.protocol.features import readers_of, table_features
from holdfast.formats.delta.state import DeltaState
from holdfast.model.files import STRINGS
from holdfast.schema.properties import DEFAULTS
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
        ("settings", STRINGS),
        ("readers", STRINGS),
    ]
)


def detail(state: DeltaState) -> pa.Table:
    """The details of a table as one row."""
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
        "settings": list(settings_of(snapshot.properties).items()),
        "readers": list(readers_of(protocol).items()),
    }
    return pa.Table.from_pylist([row], schema=DETAIL)


@dataclass(frozen=True, slots=True)
class Description:
    """The details of a table, which print as text."""

    table: str
    version: int
    num_files: int
    size_bytes: int
    layout: str
    features: tuple[str, ...]
    settings: Mapping[str, str]
    asked: frozenset[str]  # names of the settings that are properties of the table
    readers: Mapping[str, str]

    def __str__(self) -> str:
        width = max(map(len, (*self.settings, *self.readers)))
        lines = [
            f"table     {self.table}, version {self.version}",
            f"files     {self.num_files}, {self.size_bytes} bytes, {self.layout}",
            f"features  {', '.join(self.features) or 'none'}",
            "works by",
            *(f"  {k:<{width}}  {v}{'' if k in self.asked else ' (default)'}" for k, v in self.settings.items()),
            "opened by",
            *(f"  {reader:<{width}}  {answer}" for reader, answer in self.readers.items()),
        ]
        return "\n".join(lines)

    __repr__ = __str__


def describe(state: DeltaState) -> Description:
    """The details of a table for people."""
    row = detail(state).to_pylist()[0]
    properties = state.snapshot.properties
    if row["partitionColumns"]:
        layout = f"partitioned by {', '.join(row['partitionColumns'])}"
    elif row["clusteringColumns"]:
        layout = f"clustered by {', '.join(row['clusteringColumns'])}"
    else:
        layout = "neither partitioned nor clustered"
    return Description(
        table=state.snapshot.location.url,
        version=state.version,
        num_files=row["numFiles"],
        size_bytes=row["sizeInBytes"],
        layout=layout,
        features=tuple(row["tableFeatures"]),
        settings=settings_of(properties),
        asked=frozenset(properties),
        readers=dict(row["readers"]),
    )


def settings_of(properties: Mapping[str, str]) -> Mapping[str, str]:
    """The settings of a table, with defaults where it has no property."""
    return {name: properties.get(name, default) for name, default in DEFAULTS.items()}


def _logical(schema: Struct, path: tuple[str, ...]) -> str:
    """The logical name of a physical path; a column that does not exist keeps its physical name."""
    names = []
    level: object = schema
    for part in path:
        field = next((f for f in level if f.physical_name == part), None) if isinstance(level, Struct) else None
        names.append(part if field is None else field.name)
        level = None if field is None else field.type
    return ".".join(names)
