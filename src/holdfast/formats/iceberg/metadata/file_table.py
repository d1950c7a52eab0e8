"""The data files of a snapshot as a file table, and what their manifests know of their values.

1. A slab is all data manifests of one spec, in the order of the manifest list; its files have the columns of FILES,
   then those of PLACED, then the partition tuple in the type of the union over all specs.
2. A file without a first row id has no default version either.
3. Groups are numbered only where the table has deletes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import Damaged
from holdfast.formats.iceberg.deletes.scope import DeleteFiles, delete_files, dv_column, have_equality_deletes
from holdfast.formats.iceberg.metadata.manifests import DELETES, ManifestEntries
from holdfast.formats.iceberg.metadata.metrics import LeafIds, ManifestStats
from holdfast.formats.iceberg.metadata.partition_groups import partition_groups
from holdfast.formats.iceberg.metadata.partition_spec import PartitionSpec, UnifiedField
from holdfast.formats.iceberg.metadata.paths import Paths
from holdfast.formats.iceberg.metadata.row_id_metrics import row_id_tags
from holdfast.formats.iceberg.metadata.single_values import decode_partition_values
from holdfast.model.files import DV, FILES, PARTITION, PLACED, FileTable, Slab
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import DataType, Field, Primitive, Struct, leaves
from holdfast.storage.error_mapping import MALFORMED

_NOBODY = pa.scalar(None, pa.int64())
_METRICS = ("record_count", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


@dataclass(frozen=True)
class ManifestTypes:
    """What files are told by: the specs, the union of their fields, and the columns statistics are about."""

    specs: Mapping[int, PartitionSpec]
    union: tuple[UnifiedField, ...]
    leaves: LeafIds

    @property
    def tuple_type(self) -> Struct:
        return Struct(tuple(Field(f.name, f.type) for f in self.union))


def leaf_ids(schema: Struct, spelled: Mapping[int, str]) -> LeafIds:
    """The ids of the columns that metrics are kept of, at any depth of structs."""
    found = {}
    for path, _ in leaves(schema):
        if (number := path[-1].field_id) is not None and number in spelled:
            found[tuple(f.physical_name for f in path)] = number
    return LeafIds(found, spelled)


def build_file_table(
    paths: Paths, listed: Sequence[ManifestEntries], shape: ManifestTypes, *, at: int | None, where: str
) -> tuple[FileTable, DeleteFiles]:
    """The data files and the delete files of these manifests, which are those of the snapshot `at`."""
    data = merged([one for one in listed if one.manifest.content != DELETES and len(one)])
    removing = merged([one for one in listed if one.manifest.content == DELETES and len(one)])
    groups: list[NDArray[np.int64]] | None = None
    if removing:
        groups = partition_groups([*data, *removing], shape.specs, where=where)
    tables = [_table(paths, one, shape, None if groups is None else groups[at]) for at, one in enumerate(data)]
    deletes = delete_files(removing, () if groups is None else groups[len(data) :], shape.specs)
    if len(deletes) and tables:
        tables = _hiding(tables, deletes, at, where)
    stats = [
        ManifestStats(
            one.entries.select(list(_METRICS)),
            table[PARTITION].combine_chunks(),
            _placed(one, shape),
            shape.union,
            shape.leaves,
        )
        for one, table in zip(data, tables, strict=True)
    ]
    return FileTable(tuple(map(Slab, tables, stats))), deletes


def merged(listed: Sequence[ManifestEntries]) -> list[ManifestEntries]:
    """Manifests of one spec, and tuples of one type, as one: work costs some time per piece, however small."""
    alike: dict[tuple[int, tuple[int, ...], pa.DataType], list[ManifestEntries]] = {}
    for one in listed:
        alike.setdefault((one.spec_id, tuple(one.partition_ids), one.partitions.type), []).append(one)
    return [
        same[0]
        if len(same) == 1
        else replace(
            same[0],
            entries=pa.concat_tables([one.entries for one in same]).combine_chunks(),
            partitions=pa.concat_arrays([one.partitions for one in same]),
        )
        for same in alike.values()
    ]


def _table(paths: Paths, one: ManifestEntries, shape: ManifestTypes, groups: NDArray[np.int64] | None) -> pa.Table:
    count, entries = len(one), one.entries
    spelled, first = entries["file_path"].combine_chunks(), entries["first_row_id"].combine_chunks()
    sequence = entries["sequence_number"].combine_chunks()
    made = {
        "path": spelled,
        "key": paths.keys(spelled),
        "size": entries["file_size_in_bytes"].combine_chunks(),
        "base_row_id": first,
        "default_row_commit_version": pc.if_else(pc.is_valid(first), sequence, pa.scalar(None, pa.int64())),
        "spec_id": pa.array(np.full(count, one.spec_id, np.int32)),
        "sequence": sequence,
        "format": entries["file_format"].combine_chunks(),
        "group": pa.nulls(count, pa.int64()) if groups is None else pa.array(groups),
        "tags": row_id_tags(entries),
    }
    columns = [made.get(f.name) for f in (*FILES, *PLACED)]
    filled = [
        pa.nulls(count, f.type) if array is None else array for f, array in zip((*FILES, *PLACED), columns, strict=True)
    ]
    tuples = tuples_of(one, shape)
    schema = pa.schema([*FILES, *PLACED, pa.field(PARTITION, tuples.type)])
    return pa.Table.from_arrays([*filled, tuples], schema=schema)


def tuples_of(one: ManifestEntries, shape: ManifestTypes) -> pa.StructArray:
    """The partition tuples of a manifest in the type of the union; what its spec lacks is null."""
    placed = _placed(one, shape)
    named = {f.field_id: f.name for f in shape.specs[one.spec_id].fields}
    arrays = []
    for f in shape.union:
        stored = one.partition_column(f.field_id, named[f.field_id]) if f.field_id in placed else None
        arrays.append(
            pa.nulls(len(one), arrow_type(f.type))
            if stored is None
            else _typed(stored, f.spelled, f.type, where=one.manifest.path)
        )
    type_ = arrow_type(shape.tuple_type)
    if not arrays:
        return pa.Array.from_buffers(type_, len(one), [None])
    return pa.StructArray.from_arrays(arrays, fields=list(type_.fields))


def _typed(stored: pa.Array, spelled: str, type_: DataType, *, where: str) -> pa.Array:
    try:
        return decode_partition_values(stored, spelled, type_)
    except MALFORMED as error:
        shown = type_.name if isinstance(type_, Primitive) else spelled
        raise Damaged(f"{where} has partition values that are no {shown}: {error}", path=where) from error


def _placed(one: ManifestEntries, shape: ManifestTypes) -> frozenset[int]:
    if one.spec_id not in shape.specs:
        path = one.manifest.path
        raise Damaged(f"{path} is of partition spec {one.spec_id}, which the metadata does not have", path=path)
    return frozenset(f.field_id for f in shape.specs[one.spec_id].fields if f.transform.kind != "void")


def _hiding(tables: Sequence[pa.Table], deletes: DeleteFiles, snapshot_id: int | None, where: str) -> list[pa.Table]:
    """The same files, with what hides rows of them."""
    if snapshot_id is not None and snapshot_id >= 2**63:
        raise Damaged(f"{where} has the snapshot {snapshot_id}, which is no signed 64-bit number", path=where)
    whole = pa.concat_tables([t.select(["path", "sequence", "group"]) for t in tables])
    found = dv_column(whole, deletes, at=snapshot_id, where=where)
    losing = pc.if_else(pa.array(have_equality_deletes(whole, deletes)), pa.scalar(snapshot_id, pa.int64()), _NOBODY)
    names = tables[0].column_names
    at, by_value = names.index("dv"), names.index("lost_by")
    done, start = [], 0
    for table in tables:
        count = table.num_rows
        told = table.set_column(at, pa.field("dv", DV), found.slice(start, count))
        done.append(told.set_column(by_value, PLACED.field("lost_by"), losing.slice(start, count)))
        start += count
    return done
