"""A table with fewer manifests to read: those left out hold no file that a condition lets through.

A list says of each manifest which partition values its files have. What they stand for encloses every value of their
columns, as a single file's partition value does.

1. A manifest with a file that may hold a wanted row is kept, and so are all deletes that may concern it: deletes are
   placed as their files are, or everywhere.
2. What a list does not say keeps the manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """The same table without manifests in which no row can satisfy a condition; as it is where nothing is gained."""
    contents = state.contents
    if contents.is_listed or not contents.types.union:
        return state
    manifests = contents.manifests
    columns = [(column, f) for column in tested_columns(where) if (f := _field(state.snapshot.schema, column))]
    known: dict[Column, ColumnBounds] = {}
    for column, f in columns:
        if (told := _range(manifests, contents.types, f)) is not None:
            known[column] = told
    if not known or not manifests:
        return state
    rows = pa.array([m.rows for m in manifests], pa.int64())
    kept = tuple(m for m, may in zip(manifests, may_match(where, known, rows).to_pylist(), strict=True) if may)
    if len(kept) == len(manifests):
        return state
    fewer = replace(contents, chosen=kept)
    snapshot = replace(state.snapshot, files=LazyFiles(fewer))
    return replace(state, snapshot=snapshot, contents=fewer, hidden=DeleteReader(fewer, snapshot, state.hidden.schemas))


def _field(schema: Struct, column: Column) -> Field | None:
    within: DataType = schema
    found: Field | None = None
    for name in column:
        found = within.find(name) if isinstance(within, Struct) else None
        if found is None:
            return None
        within = found.type
    return found


def _range(manifests: Sequence[ManifestFile], shape: ManifestTypes, column: Field) -> Range | None:
    """What lists say of a column, manifest by manifest; None where no partition field is made of it."""
    target = arrow_type(column.type)
    low = high = pa.nulls(len(manifests), target)
    nulls = pa.nulls(len(manifests), pa.int64())
    fields = [f for f in shape.union if f.source_id == column.field_id and f.transform.kind not in _NO_ORDER]
    for f in fields:
        at, told = _told(manifests, shape, f)
        lows, highs = (_enclosed(told, f, column.type, end=end) for end in (0, 1))
        if lows is None or highs is None:
            continue
        places = pc.index_in(pa.array(range(len(manifests))), value_set=pa.array(at, pa.int64()))
        counts = pa.array(
            [_nulls(one, manifests[place], target) for place, one in zip(at, told, strict=True)], pa.int64()
        )
        low, high = pc.coalesce(lows.take(places), low), pc.coalesce(highs.take(places), high)
        nulls = pc.coalesce(counts.take(places), nulls)
    if not fields:
        return None
    return Range(low, high, nulls)


def _told(
    manifests: Sequence[ManifestFile], shape: ManifestTypes, f: UnifiedField
) -> tuple[list[int], list[FieldSummary]]:
    """The manifests whose list speaks of a partition field, and what it says."""
    places = {
        spec_id: place
        for spec_id, spec in shape.specs.items()
        for place, one in enumerate(spec.fields)
        if one.field_id == f.field_id and one.transform.kind != "void"
    }
    at, told = [], []
    for number, manifest in enumerate(manifests):
        place = None if manifest.spec_id is None else places.get(manifest.spec_id)
        if place is not None and manifest.partitions is not None and place < len(manifest.partitions):
            at.append(number)
            told.append(manifest.partitions[place])
    return at, told


def _enclosed(told: Sequence[FieldSummary], f: UnifiedField, type_: DataType, *, end: int) -> pa.Array | None:
    """The lowest, or highest, value of a column that bounds of a partition field stand for."""
    blobs = pa.array([(one.low, one.high)[end] for one in told], pa.binary())
    found = source_bounds(decode_bounds(blobs, f.spelled, f.type), f.transform, type_)
    return None if found is None else found[end]


def _nulls(one: FieldSummary, manifest: ManifestFile, target: pa.DataType) -> int | None:
    """How many rows are null, as far as it is said: none of them, or all."""
    if not one.contains_null:
        return 0
    only_nulls = one.low is None and (one.contains_nan is False or not pa.types.is_floating(target))
    return manifest.rows if only_nulls else None
