"""Statistics of data files for pruning, from the metrics in manifests and from partition values.

A partition value bounds every value of its source column. Both bounds are combined, so that a condition on a column
prunes by metrics and by partition in one pass.

1. Every live value of a column lies within its bounds; an unknown bound is null.
2. An identity partition value is the one value of the column: both bounds, and all or none of the rows null.
3. A truncated or calendar partition value bounds its source values; a bucket has no order and gives no bounds.
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
    """The field ids of leaf columns by physical names, and their types as Iceberg spells them."""

    ids: Mapping[LeafPath, int]
    spelled: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class ManifestStats:
    """Statistics of the files of one manifest."""

    entries: pa.Table  # record_count, null_value_counts, nan_value_counts, lower_bounds, upper_bounds
    partition: pa.StructArray  # in the unified partition type
    partition_fields: frozenset[int]  # ids of the partition fields that these files have
    unified: tuple[UnifiedField, ...]
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
        field_id = self.leaves.ids.get(leaf)
        target = arrow_type(type_)
        if field_id is None:
            unknown = pa.nulls(len(self), target)
            return Bounds(unknown, unknown, pa.nulls(len(self), pa.int64()))
        spelled = self.leaves.spelled[field_id]
        low, high = (
            decode_bounds(metric_of(self.entries[name], field_id), spelled, type_)
            for name in ("lower_bounds", "upper_bounds")
        )
        if pa.types.is_floating(target):
            # Metrics leave out NaN, which sorts above all numbers: where there may be one, there is no upper bound.
            no_nan = pc.equal(metric_of(self.entries["nan_value_counts"], field_id), 0)
            high = pc.if_else(pc.fill_null(no_nan, False), high, pa.scalar(None, target))
        bounds = Bounds(low, high, metric_of(self.entries["null_value_counts"], field_id))
        for f in self.unified:
            if f.source_id == field_id and f.field_id in self.partition_fields:
                values = self.partition.field(f.name)
                bounds = _narrow(bounds, source_bounds(values, f.transform, type_), values, f, counts)
        return bounds


def _narrow(
    bounds: Bounds, within: tuple[pa.Array, pa.Array] | None, values: pa.Array, f: UnifiedField, counts: pa.Array
) -> Bounds:
    """Bounds from metrics, narrowed by those from partition values."""
    nulls = bounds.null_count
    if f.transform.kind != "void":
        # Every transform but void gives null exactly for null.
        nulls = pc.if_else(pc.is_null(values), counts, pa.scalar(0, pa.int64()))
    if within is None:
        return Bounds(bounds.low, bounds.high, nulls)
    low, high = within
    if pa.types.is_floating(low.type) or not _is_ordered(low.type):
        return Bounds(pc.coalesce(low, bounds.low), pc.coalesce(high, bounds.high), nulls)
    return Bounds(_pick(pc.max_element_wise, low, bounds.low), _pick(pc.min_element_wise, high, bounds.high), nulls)


def _pick(pick: Callable[[pa.Array, pa.Array], pa.Array], a: pa.Array, b: pa.Array) -> pa.Array:
    """Picks one of two values, file by file; Arrow does not compare timestamps with a time zone."""
    if not pa.types.is_timestamp(a.type):
        return pick(a, b)
    return pick(a.view(pa.int64()), b.view(pa.int64())).view(a.type)


def _is_ordered(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(type_) or types.is_date(type_) or types.is_timestamp(type_) or types.is_decimal(type_))


def metric_of(pairs: pa.ChunkedArray, field_id: int) -> pa.Array:
    """The metric of one field id in each file's key-value pairs; null where it has none."""
    lists = pairs.combine_chunks()
    flat = lists.flatten()
    chosen = pc.equal(pc.struct_field(flat, "key"), field_id).to_numpy(zero_copy_only=False)
    matches = np.flatnonzero(chosen)
    indices = np.full(len(lists), -1, np.int64)
    indices[pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)[matches]] = matches
    return pc.struct_field(flat, "value").take(pa.array(indices, mask=indices < 0))
