"""The files of a snapshot: one Arrow table, a row per file, never an object per file.

A format hands files over in slabs (one from a checkpoint, one per stretch of commits), each with its own source of
statistics, because statistics come in different shapes and are read only when something asks for them.

1. Every slab has the columns of FILES, in that order, and a statistics source of the same length. Where the format
   places files by specs (`snapshot.Placement`), the columns of PLACED follow, and last the typed tuple `partition`.
2. `key` is unique together with `dv.id`; without a vector it is unique by itself.
3. `dv` is null for a file with no hidden rows; `num_records` counts physical rows, hidden ones included.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import DataType
from holdfast.storage.arrays import strings

DV = pa.struct(
    [
        ("id", pa.string()),  # unique per vector; part of the file's identity in the log
        ("storage", pa.string()),  # how the format stores it
        ("path", pa.string()),  # where, in the format's own spelling, or the inline bytes
        ("offset", pa.int64()),
        ("size", pa.int64()),
        ("cardinality", pa.int64()),
    ]
)
STRINGS = pa.map_(pa.string(), pa.string())
FILES = pa.schema(
    [
        ("path", pa.string()),  # as the log spells it
        ("key", pa.string()),  # the file key: see storage.location
        ("size", pa.int64()),
        ("modified_ms", pa.int64()),
        ("partition_values", STRINGS),  # by physical name, as text
        ("dv", DV),
        ("base_row_id", pa.int64()),
        ("default_row_commit_version", pa.int64()),
        ("clustering_provider", pa.string()),
        ("tags", STRINGS),
    ]
)
PLACED = pa.schema(
    [
        ("spec_id", pa.int32()),
        ("sequence", pa.int64()),  # grows with commits; deletes by value apply to files with smaller ones
        ("format", pa.string()),  # of the data file: parquet, orc
        ("group", pa.int64()),  # equal for files with the same spec and tuple; null where nothing asks for it
        ("lost_by", pa.int64()),  # the version whose deletes by value may concern rows of it; null where none do
    ]
)
PARTITION = "partition"

LeafPath: TypeAlias = tuple[str, ...]  # physical names from the top column down to a leaf


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known of one leaf column in each file; null where nothing is."""

    low: pa.Array
    high: pa.Array
    null_count: pa.Array


@dataclass(frozen=True, slots=True)
class FileStats:
    """Statistics aligned with a file table, values widened so that every live row lies within its bounds.

    `tight` is false where hidden rows may have loosened the bounds; a null count is then exact only at 0 and at the
    physical row count.
    """

    num_records: pa.Array
    tight: pa.Array
    bounds: Mapping[LeafPath, Bounds]


class StatsSource(Protocol):
    """Statistics of a slab, in the shape its format stored them."""

    def __len__(self) -> int: ...

    def read(self, leaves: Mapping[LeafPath, DataType]) -> FileStats:
        """Statistics of these leaves, as values of their types."""

    def filter(self, mask: pa.Array) -> StatsSource: ...

    def take(self, indices: pa.Array) -> StatsSource: ...


@dataclass(frozen=True, slots=True)
class NoStats:
    """Statistics of files of which nothing is known."""

    count: int

    def __len__(self) -> int:
        return self.count

    def read(self, leaves: Mapping[LeafPath, DataType]) -> FileStats:
        unknown = pa.nulls(self.count, pa.int64())
        tight = pa.nulls(self.count, pa.bool_())
        bounds = {
            leaf: Bounds(pa.nulls(self.count, arrow_type(t)), pa.nulls(self.count, arrow_type(t)), unknown)
            for leaf, t in leaves.items()
        }
        return FileStats(unknown, tight, bounds)

    def filter(self, mask: pa.Array) -> NoStats:
        return NoStats(mask.true_count)

    def take(self, indices: pa.Array) -> NoStats:
        return NoStats(len(indices))


@dataclass(frozen=True, slots=True)
class Slab:
    """Files that came together, and their statistics."""

    files: pa.Table
    stats: StatsSource

    def filter(self, mask: pa.Array) -> Slab:
        return Slab(self.files.filter(mask), self.stats.filter(mask))


@dataclass(frozen=True)
class FileTable:
    """The files of a snapshot, or some of them."""

    slabs: tuple[Slab, ...] = ()

    def __len__(self) -> int:
        return sum(s.files.num_rows for s in self.slabs)

    @cached_property
    def table(self) -> pa.Table:
        """All files as one Arrow table with the columns of FILES."""
        if not self.slabs:
            return FILES.empty_table()
        return pa.concat_tables([s.files for s in self.slabs])

    def column(self, name: str) -> pa.ChunkedArray:
        return self.table.column(name)

    @cached_property
    def num_records(self) -> pa.Array:
        """Physical rows per file; null where the log does not say."""
        return self.stats({}).num_records

    def stats(self, leaves: Mapping[LeafPath, DataType]) -> FileStats:
        """Statistics of these leaves over all files."""
        parts = [s.stats.read(leaves) for s in self.slabs]
        if not parts:
            return _no_stats(leaves)
        return FileStats(
            _join([p.num_records for p in parts]),
            _join([p.tight for p in parts]),
            {
                leaf: Bounds(
                    _join([p.bounds[leaf].low for p in parts]),
                    _join([p.bounds[leaf].high for p in parts]),
                    _join([p.bounds[leaf].null_count for p in parts]),
                )
                for leaf in leaves
            },
        )

    def filter(self, mask: pa.Array) -> FileTable:
        """The files where the mask is true."""
        kept = []
        start = 0
        for slab in self.slabs:
            part = mask.slice(start, slab.files.num_rows)
            start += slab.files.num_rows
            if (count := part.true_count) == 0:
                continue
            kept.append(slab if count == slab.files.num_rows else slab.filter(part))
        return FileTable(tuple(kept))

    def among(self, keys: Collection[str] | pa.Array) -> FileTable:
        """The files with these keys."""
        return self.filter(self._has_key(keys)) if len(self) and len(keys) else FileTable()

    def outside(self, keys: Collection[str] | pa.Array) -> FileTable:
        """The files with none of these keys."""
        return self.filter(pc.invert(self._has_key(keys))) if len(self) and len(keys) else self

    def _has_key(self, keys: Collection[str] | pa.Array) -> pa.BooleanArray:
        wanted = keys if isinstance(keys, pa.Array) else strings(list(keys))
        return pc.is_in(self.column("key").combine_chunks(), value_set=wanted)


def may_lose(files: FileTable) -> pa.BooleanArray:
    """Which files hold rows that may be gone by value."""
    if "lost_by" not in files.table.column_names:  # the format has no such deletes
        return pa.repeat(pa.scalar(False), len(files))
    return pc.is_valid(files.column("lost_by")).combine_chunks()


def hiding(files: FileTable) -> FileTable:
    """The same files, each marked as one that hides rows: for a reader that is told which."""
    slabs = []
    for slab in files.slabs:
        at = slab.files.column_names.index("dv")
        slabs.append(Slab(slab.files.set_column(at, "dv", _signs(slab.files.column("key"))), slab.stats))
    return FileTable(tuple(slabs))


def _signs(keys: pa.ChunkedArray) -> pa.StructArray:
    known = {"id": keys.combine_chunks(), "cardinality": pa.repeat(pa.scalar(1, pa.int64()), len(keys))}
    fields = [known.get(field.name, pa.nulls(len(keys), field.type)) for field in DV]
    return pa.StructArray.from_arrays(fields, fields=list(DV))


def _no_stats(leaves: Mapping[LeafPath, DataType]) -> FileStats:
    nothing = pa.array([], pa.int64())
    return FileStats(
        nothing,
        pa.array([], pa.bool_()),
        {leaf: Bounds(nothing, nothing, nothing) for leaf in leaves},
    )


def _join(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
