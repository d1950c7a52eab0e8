"""Checks a checkpoint against the counts in its own footer and `checkpointMetadata`.

1. Every row of a checkpoint holds one action. So a file that lost a column of actions, or that is not part of the
   checkpoint, has empty rows.
2. A checkpoint that states no counts passes, and so does a footer without null counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.formats.delta.log.actions import CheckpointMetadata
from holdfast.formats.delta.log.columns import table_ids
from holdfast.model.files import FileTable, Slab


def count_empty_rows(file: pq.ParquetFile, required: Mapping[str, str]) -> int:
    """How many rows hold no action, by the footer: `required` names a field that every action of a kind has."""
    metadata = file.metadata
    paths = [file.schema.column(n).path for n in range(metadata.num_columns)]
    indicators: dict[str, list[int]] = defaultdict(list)  # by kind: columns one of which is not null in every action
    for n, path in enumerate(paths):
        kind, _, field = path.partition(".")
        if field == required.get(kind) or f"{kind}.{required.get(kind)}" not in paths:
            indicators[kind].append(n)
    filled = 0
    for row_group in map(metadata.row_group, range(metadata.num_row_groups)):
        for columns in indicators.values():
            chunks = [row_group.column(n) for n in columns]
            if any(chunk.statistics is None or not chunk.statistics.has_null_count for chunk in chunks):
                return 0
            filled += max(chunk.num_values - chunk.statistics.null_count for chunk in chunks)
    return max(int(metadata.num_rows) - filled, 0)


def wrong_counts(
    marks: Sequence[CheckpointMetadata], version: int, *, adds: int, actions: int, size_bytes: int
) -> str | None:
    """A wrong version or count in `checkpointMetadata`; `actions` and `size_bytes` are those of the sidecars."""
    counts = {"numOfAddFiles": adds, "sidecarNumActions": actions, "sidecarSizeInBytes": size_bytes}
    for mark in marks:
        if mark.version not in (None, version):
            return f"says that it is of version {mark.version}"
        for name, count in counts.items():
            stated = (mark.tags or {}).get(name)
            if stated is not None and stated.isdecimal() and int(stated) != count:
                return f"says {name} {stated} where it has {count}"
    return None


def repeated_file(slabs: Sequence[Slab]) -> str | None:
    """A live file that the parts of a checkpoint have more than once."""
    files = FileTable(tuple(slabs)).table
    if pc.count_distinct(files.column("key")).as_py() == files.num_rows:
        return None
    counts = pc.value_counts(table_ids(files))
    twice = counts.filter(pc.greater(counts.field("counts"), 1))
    return f"has the file {str(twice.field('values')[0]).partition(chr(0))[0]} more than once" if len(twice) else None
