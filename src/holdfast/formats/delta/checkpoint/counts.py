"""What a checkpoint counts of itself, against what is in it.

1. Every row of a checkpoint holds one action, so a file of which a column of actions was lost, or that is no part of
   the checkpoint at all, has rows that hold none.
2. A writer that states nothing is not doubted, and neither is a footer that counts no nulls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.formats.delta.log.actions import CheckpointMetadata
from holdfast.formats.delta.log.columns import logical_ids
from holdfast.model.files import FileTable, Slab


def idle_rows(file: pq.ParquetFile, required: Mapping[str, str]) -> int:
    """How many rows hold no action, by the footer: `required` names a field that every action of a kind has."""
    metadata = file.metadata
    paths = [file.schema.column(n).path for n in range(metadata.num_columns)]
    telling: dict[str, list[int]] = defaultdict(list)  # columns of which one is filled where an action is, by kind
    for n, path in enumerate(paths):
        kind, _, field = path.partition(".")
        if field == required.get(kind) or f"{kind}.{required.get(kind)}" not in paths:
            telling[kind].append(n)
    filled = 0
    for row_group in map(metadata.row_group, range(metadata.num_row_groups)):
        for columns in telling.values():
            chunks = [row_group.column(n) for n in columns]
            if any(chunk.statistics is None or not chunk.statistics.has_null_count for chunk in chunks):
                return 0
            filled += max(chunk.num_values - chunk.statistics.null_count for chunk in chunks)
    return max(int(metadata.num_rows) - filled, 0)


def misstated(
    marks: Sequence[CheckpointMetadata], version: int, *, adds: int, actions: int, size_bytes: int
) -> str | None:
    """What a V2 checkpoint states otherwise than it is; `actions` and `size_bytes` are those of its sidecars."""
    counted = {"numOfAddFiles": adds, "sidecarNumActions": actions, "sidecarSizeInBytes": size_bytes}
    for mark in marks:
        if mark.version not in (None, version):
            return f"says that it is of version {mark.version}"
        for name, count in counted.items():
            stated = (mark.tags or {}).get(name)
            if stated is not None and stated.isdecimal() and int(stated) != count:
                return f"says {name} {stated} where it has {count}"
    return None


def repeated(slabs: Sequence[Slab]) -> str | None:
    """A live file that is in several parts of one checkpoint, or in one of them twice."""
    files = FileTable(tuple(slabs)).table
    keys = files.column("key")
    if pc.count_distinct(keys).as_py() == len(keys):
        return None
    ids = logical_ids(_one(keys), pc.struct_field(_one(files.column("dv")), "id"))
    counts = pc.value_counts(ids)
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    return f"has the file {str(twice.field('values')[0]).partition(chr(0))[0]} more than once" if len(twice) else None


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
