"""The history of a table: its snapshots, newest first."""

from __future__ import annotations

import pyarrow as pa

from holdfast.formats.iceberg.metadata.table_metadata import TableMetadata
from holdfast.storage.arrays import maps

HISTORY = pa.schema(
    [
        ("version", pa.int64()),  # snapshot id
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("operation", pa.string()),
        ("parent", pa.int64()),
        ("sequenceNumber", pa.int64()),
        ("refs", pa.list_(pa.string())),  # branches and tags that point to it
        ("isCurrentAncestor", pa.bool_()),
        ("summary", pa.map_(pa.string(), pa.string())),
    ]
)


def history(metadata: TableMetadata, *, limit: int | None = None) -> pa.Table:
    """The snapshots in the metadata, as a table."""
    ancestors: set[int] = set()
    at = metadata.current_snapshot_id
    while at is not None and at not in ancestors and (entry := metadata.snapshot(at)) is not None:
        ancestors.add(at)
        at = entry.parent_snapshot_id
    refs: dict[int, list[str]] = {}
    for name, ref in sorted(metadata.refs.items()):
        refs.setdefault(ref.snapshot_id, []).append(name)
    ordered = sorted(metadata.snapshots, key=lambda s: (s.sequence_number, s.timestamp_ms), reverse=True)[:limit]
    columns = [
        pa.array([s.snapshot_id for s in ordered], pa.int64()),
        pa.array([s.timestamp_ms for s in ordered], pa.int64()).cast(pa.timestamp("ms", tz="UTC")),
        pa.array([s.operation for s in ordered], pa.string()),
        pa.array([s.parent_snapshot_id for s in ordered], pa.int64()),
        pa.array([s.sequence_number for s in ordered], pa.int64()),
        pa.array([refs.get(s.snapshot_id, []) for s in ordered], pa.list_(pa.string())),
        pa.array([s.snapshot_id in ancestors for s in ordered], pa.bool_()),
        maps([dict(s.summary) for s in ordered]),
    ]
    return pa.Table.from_arrays(columns, schema=HISTORY)
