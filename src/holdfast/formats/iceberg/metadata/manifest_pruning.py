"""Leaves out manifests in which no file can have a row that satisfies a condition.

The manifest list has bounds of the partition values of each manifest. They are converted to bounds of the source
columns, as the partition values of single files are.

1. A manifest that may list a matching file is kept, and with it every delete file that may apply to it: deletes have
   the partition of their data files, or apply to all partitions.
2. A manifest without bounds is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.formats.iceberg.deletes.reader import DeleteReader
from holdfast.formats.iceberg.metadata.contents import LazyFiles
from holdfast.formats.iceberg.metadata.file_table import ManifestTypes
from holdfast.formats.iceberg.metadata.manifests import FieldSummary, ManifestFile
from holdfast.formats.iceberg.metadata.partition_bounds import source_bounds
from holdfast.formats.iceberg.metadata.partition_spec import UnifiedField
from holdfast.formats.iceberg.metadata.single_values import decode_bounds
from holdfast.formats.iceberg.state import IcebergState
from holdfast.predicate.bounds import ColumnBounds, Range, may_match
from holdfast.predicate.records import Column, Predicate, tested_columns
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import DataType, Field, Struct

_NO_ORDER = ("bucket", "void")


def prune_manifests(state: IcebergState, where: Predicate) -> IcebergState:
    """The same table without manifests in which no row can satisfy a condition."""
    contents = state.contents
    if contents.is_read or not contents.types.unified:
        return state
    manifests = contents.manifests
    bounds: dict[Column, ColumnBounds] = {}
    for column in tested_columns(where):
        f = _field(state.snapshot.schema, column)
        if f is not None and (column_range := _range(manifests, contents.types, f)) is not None:
            bounds[column] = column_range
    if not bounds or not manifests:
        return state
    rows = pa.array([m.rows for m in manifests], pa.int64())
    kept = tuple(m for m, may in zip(manifests, may_match(where, bounds, rows).to_pylist(), strict=True) if may)
    if len(kept) == len(manifests):
        return state
    fewer = replace(contents, chosen=kept)
    snapshot = replace(state.snapshot, files=LazyFiles(fewer))
    return replace(state, snapshot=snapshot, contents=fewer, hidden=DeleteReader(fewer, snapshot, state.hidden.schemas))


def _field(schema: Struct, column: Column) -> Field | None:
    type_: DataType = schema
    f: Field | None = None
    for name in column:
        f = type_.find(name) if isinstance(type_, Struct) else None
        if f is None:
            return None
        type_ = f.type
    return f


def _range(manifests: Sequence[ManifestFile], types: ManifestTypes, column: Field) -> Range | None:
    """Bounds of a column in each manifest; None where no partition field has it as its source."""
    target = arrow_type(column.type)
    low = high = pa.nulls(len(manifests), target)
    nulls = pa.nulls(len(manifests), pa.int64())
    fields = [f for f in types.unified if f.source_id == column.field_id and f.transform.kind not in _NO_ORDER]
    for f in fields:
        summaries = _summaries(manifests, types, f)
        lows, highs = (_source_bound(summaries.values(), f, column.type, end=end) for end in (0, 1))
        if lows is None or highs is None:
            continue
        indices = pc.index_in(pa.array(range(len(manifests))), value_set=pa.array(list(summaries), pa.int64()))
        counts = pa.array([_null_count(one, manifests[at], target) for at, one in summaries.items()], pa.int64())
        low, high = pc.coalesce(lows.take(indices), low), pc.coalesce(highs.take(indices), high)
        nulls = pc.coalesce(counts.take(indices), nulls)
    return Range(low, high, nulls) if fields else None


def _summaries(manifests: Sequence[ManifestFile], types: ManifestTypes, f: UnifiedField) -> dict[int, FieldSummary]:
    """The summaries of a partition field, by the index of the manifest."""
    positions = {
        spec_id: position
        for spec_id, spec in types.specs.items()
        for position, one in enumerate(spec.fields)
        if one.field_id == f.field_id and one.transform.kind != "void"
    }
    summaries = {}
    for at, manifest in enumerate(manifests):
        position = None if manifest.spec_id is None else positions.get(manifest.spec_id)
        if position is not None and manifest.partitions is not None and position < len(manifest.partitions):
            summaries[at] = manifest.partitions[position]
    return summaries


def _source_bound(summaries: Iterable[FieldSummary], f: UnifiedField, type_: DataType, *, end: int) -> pa.Array | None:
    """The lower (0) or upper (1) bound of the source column that the bounds of a partition field imply."""
    blobs = pa.array([(one.low, one.high)[end] for one in summaries], pa.binary())
    bounds = source_bounds(decode_bounds(blobs, f.spelled, f.type), f.transform, type_)
    return None if bounds is None else bounds[end]


def _null_count(summary: FieldSummary, manifest: ManifestFile, target: pa.DataType) -> int | None:
    """How many rows are null where the summary implies it: none, or all."""
    if not summary.contains_null:
        return 0
    only_nulls = summary.low is None and (summary.contains_nan is False or not pa.types.is_floating(target))
    return manifest.rows if only_nulls else None
