"""What manifests know of the values in each file, in the shape pruning asks for.

Bounds come from two places: the metrics of the file, and its partition tuple, which encloses every value of the column
it was made from. What both say is taken together, so a condition on a column prunes by metrics and by partition in one
pass.

1. Every live value of a column lies within its bounds; what is not known is null.
2. An identity value is the one value of the column: both bounds, and all or none of the rows null.
3. A truncated or rounded partition value encloses what it was made of; a bucket says nothing about order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.formats.iceberg.metadata.partition_bounds import source_bounds
from holdfast.formats.iceberg.metadata.partition_spec import UnifiedField
from holdfast.formats.iceberg.metadata.single_values import decode_bounds
from holdfast.model.files import Bounds, FileStats, LeafPath, StatsSource
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import DataType


@dataclass(frozen=True, slots=True)
class LeafIds:
    """The field id of every leaf a statistic can be about, by physical names, and its type in Iceberg's word."""

    ids: Mapping[LeafPath, int]
    spelled: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class ManifestStats:
    """Statistics of the files of one manifest."""

    entries: pa.Table  # record_count, null_value_counts, nan_value_counts, lower_bounds, upper_bounds
    partition: pa.StructArray  # with the fields of the union
    placed: frozenset[int]  # ids of the partition fields these files have
    union: tuple[UnifiedField, ...]
    leaves: LeafIds

    def __len__(self) -> int:
        return int(self.entries.num_rows)

    def read(self, leaves: Mapping[LeafPath, DataType]) -> FileStats:
        counts = self.entries["record_count"].combine_chunks()
        tight = pa.nulls(len(self), pa.bool_())
        return FileStats(counts, tight, {leaf: self._bounds(leaf, type_, counts) for leaf, type_ in leaves.items()})

    def filter(self, mask: pa.Array) -> StatsSource:
        return replace(self, entries=self.entries.filter(mask), partition=self.partition.filter(mask))

    def take(self, indices: pa.Array) -> StatsSource:
        return replace(self, entries=self.entries.take(indices), partition=self.partition.take(indices))

    def _bounds(self, leaf: LeafPath, type_: DataType, counts: pa.Array) -> Bounds:
        number = self.leaves.ids.get(leaf)
        target = arrow_type(type_)
        if number is None:
            nothing = pa.nulls(len(self), target)
            return Bounds(nothing, nothing, pa.nulls(len(self), pa.int64()))
        spelled = self.leaves.spelled[number]
        low = decode_bounds(metric_of(self.entries["lower_bounds"], number), spelled, type_)
        high = decode_bounds(metric_of(self.entries["upper_bounds"], number), spelled, type_)
        if pa.types.is_floating(target):
            # Bounds leave NaN out, which sorts above all numbers: where there may be one, nothing is above it.
            certain = pc.equal(metric_of(self.entries["nan_value_counts"], number), 0)
            high = pc.if_else(pc.fill_null(certain, False), high, pa.scalar(None, target))
        known = Bounds(low, high, metric_of(self.entries["null_value_counts"], number))
        for f in self.union:
            if f.source_id == number and f.field_id in self.placed:
                values = self.partition.field(f.name)
                known = _narrowed(known, source_bounds(values, f.transform, type_), values, f, counts)
        return known


def _narrowed(
    known: Bounds, within: tuple[pa.Array, pa.Array] | None, values: pa.Array, f: UnifiedField, counts: pa.Array
) -> Bounds:
    """What is known, together with what a partition value says."""
    nulls = known.null_count
    if f.transform.kind != "void":
        # Every transform but void is null exactly for null.
        nulls = pc.if_else(pc.is_null(values), counts, pa.scalar(0, pa.int64()))
    if within is None:
        return Bounds(known.low, known.high, nulls)
    low, high = within
    if pa.types.is_floating(low.type) or not _is_ordered(low.type):
        return Bounds(pc.coalesce(low, known.low), pc.coalesce(high, known.high), nulls)
    return Bounds(_outer(pc.max_element_wise, low, known.low), _outer(pc.min_element_wise, high, known.high), nulls)


def _outer(pick: Callable[[pa.Array, pa.Array], pa.Array], a: pa.Array, b: pa.Array) -> pa.Array:
    """One of two values, file by file; null where both are. Arrow does not compare moments with a zone."""
    if not pa.types.is_timestamp(a.type):
        return pick(a, b)
    return pick(a.view(pa.int64()), b.view(pa.int64())).view(a.type)


def _is_ordered(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(type_) or types.is_date(type_) or types.is_timestamp(type_) or types.is_decimal(type_))


def metric_of(pairs: pa.ChunkedArray, number: int) -> pa.Array:
    """The value under one key in each file's pairs; null where it has none."""
    lists = pairs.combine_chunks()
    flat = lists.flatten()
    chosen = pc.equal(pc.struct_field(flat, "key"), number).to_numpy(zero_copy_only=False)
    values = pc.struct_field(flat, "value")
    found = np.flatnonzero(chosen)
    places = np.full(len(lists), -1, np.int64)
    places[pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)[found]] = found
    return values.take(pa.array(places, mask=places < 0))
