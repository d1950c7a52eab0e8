"""A table in one row, or as text: where it is, how large, what it works by, who can open it.

1. The first columns are those of DESCRIBE DETAIL; two more say who can open the table as it is, and which settings it
   works by, its own and those that hold because it does not say.
2. The text says the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.formats.delta.protocol.features import table_features
from holdfast.formats.delta.protocol.reader_compatibility import readers_of
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
        "settings": list(settings_of(snapshot.properties).items()),
        "readers": list(readers_of(protocol).items()),
    }
    return pa.Table.from_pylist([row], schema=DETAIL)


@dataclass(frozen=True, slots=True)
class Description:
    """A table, described; printing it shows it."""

    table: str
    version: int
    num_files: int
    size_bytes: int
    layout: str
    features: tuple[str, ...]
    settings: Mapping[str, str]
    asked: frozenset[str]  # settings that are the table's own
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
    """What a table is, how it works and who can open it."""
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
    """What a table works by: what it says, and what holds where it does not."""
    return {name: properties.get(name, default) for name, default in DEFAULTS.items()}


def _logical(schema: Struct, path: tuple[str, ...]) -> str:
    """The name a user knows a physical path by; a column that is gone keeps its physical name."""
    names = []
    level: object = schema
    for part in path:
        found = next((f for f in level if f.physical_name == part), None) if isinstance(level, Struct) else None
        names.append(part if found is None else found.name)
        level = None if found is None else found.type
    return ".".join(names)
