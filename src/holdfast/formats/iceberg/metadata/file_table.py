"""Builds the file table of a snapshot from manifest entries: data files, their statistics and their deletes.

1. A slab has the data files of all manifests of one spec, in the order of the manifest list: the columns of FILES and
   PLACED, then the partition tuple in the unified partition type.
2. A file without a first row id has no default row commit version either.
3. Partition groups are numbered only where the table has deletes.
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

_METRICS = ("record_count", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


@dataclass(frozen=True)
class ManifestTypes:
    """The types by which manifest entries are read: partition specs, their unified type, and columns with metrics."""

    specs: Mapping[int, PartitionSpec]
    unified: tuple[UnifiedField, ...]
    leaves: LeafIds

    @property
    def tuple_type(self) -> Struct:
        return Struct(tuple(Field(f.name, f.type) for f in self.unified))


def leaf_ids(schema: Struct, spelled: Mapping[int, str]) -> LeafIds:
    """The field ids of all leaf columns, at any depth of structs."""
    ids = {tuple(f.physical_name for f in path): path[-1].field_id for path, _ in leaves(schema)}
    return LeafIds({leaf: number for leaf, number in ids.items() if number is not None and number in spelled}, spelled)


def build_file_table(
    paths: Paths, listed: Sequence[ManifestEntries], types: ManifestTypes, *, at: int | None, where: str
) -> tuple[FileTable, DeleteFiles]:
    """The data files and the delete files of manifests, which are those of the snapshot `at`."""
    data = _merged([one for one in listed if one.manifest.content != DELETES and len(one)])
    of_deletes = _merged([one for one in listed if one.manifest.content == DELETES and len(one)])
    groups: list[NDArray[np.int64]] | None = None
    if of_deletes:
        groups = partition_groups([*data, *of_deletes], types.specs, where=where)
    tables = [_table(paths, one, types, None if groups is None else groups[i]) for i, one in enumerate(data)]
    deletes = delete_files(of_deletes, () if groups is None else groups[len(data) :], types.specs)
    if len(deletes) and tables:
        tables = _with_deletes(tables, deletes, at, where)
    stats = [
        ManifestStats(
            one.entries.select(list(_METRICS)),
            table[PARTITION].combine_chunks(),
            _partition_fields(one, types),
            types.unified,
            types.leaves,
        )
        for one, table in zip(data, tables, strict=True)
    ]
    return FileTable(tuple(map(Slab, tables, stats))), deletes


def _merged(listed: Sequence[ManifestEntries]) -> list[ManifestEntries]:
    """Manifests of the same spec and tuple type as one, because every manifest costs some time, however small."""
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


def _table(paths: Paths, one: ManifestEntries, types: ManifestTypes, groups: NDArray[np.int64] | None) -> pa.Table:
    count, entries = len(one), one.entries
    spelled, first = entries["file_path"].combine_chunks(), entries["first_row_id"].combine_chunks()
    sequence = entries["sequence_number"].combine_chunks()
    columns = {
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
    return with_all_columns(columns, _unified_tuples(one, types), count)


def with_all_columns(columns: Mapping[str, pa.Array], tuples: pa.StructArray, count: int) -> pa.Table:
    """A table of files with every column of FILES and PLACED, null where it is not given, and partition tuples."""
    filled = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in (*FILES, *PLACED)]
    schema = pa.schema([*FILES, *PLACED, pa.field(PARTITION, tuples.type)])
    return pa.Table.from_arrays([*filled, tuples], schema=schema)


def _unified_tuples(one: ManifestEntries, types: ManifestTypes) -> pa.StructArray:
    """The partition tuples of a manifest in the unified type; fields that its spec lacks are null."""
    fields = _partition_fields(one, types)
    names = {f.field_id: f.name for f in types.specs[one.spec_id].fields}
    arrays = []
    for f in types.unified:
        stored = one.partition_column(f.field_id, names[f.field_id]) if f.field_id in fields else None
        arrays.append(
            pa.nulls(len(one), arrow_type(f.type))
            if stored is None
            else _typed(stored, f.spelled, f.type, where=one.manifest.path)
        )
    type_ = arrow_type(types.tuple_type)
    if not arrays:
        return pa.Array.from_buffers(type_, len(one), [None])
    return pa.StructArray.from_arrays(arrays, fields=list(type_.fields))


def _typed(stored: pa.Array, spelled: str, type_: DataType, *, where: str) -> pa.Array:
    try:
        return decode_partition_values(stored, spelled, type_)
    except MALFORMED as error:
        shown = type_.name if isinstance(type_, Primitive) else spelled
        raise Damaged(f"{where} has partition values that are no {shown}: {error}", path=where) from error


def _partition_fields(one: ManifestEntries, types: ManifestTypes) -> frozenset[int]:
    if one.spec_id not in types.specs:
        path = one.manifest.path
        raise Damaged(f"{path} is of partition spec {one.spec_id}, which the metadata does not have", path=path)
    return frozenset(f.field_id for f in types.specs[one.spec_id].fields if f.transform.kind != "void")


def _with_deletes(
    tables: Sequence[pa.Table], deletes: DeleteFiles, snapshot_id: int | None, where: str
) -> list[pa.Table]:
    """The same files, with the columns `dv` and `lost_by` set where deletes apply."""
    if snapshot_id is not None and snapshot_id >= 2**63:
        raise Damaged(f"{where} has the snapshot {snapshot_id}, which is no signed 64-bit number", path=where)
    files = pa.concat_tables([t.select(["path", "sequence", "group"]) for t in tables])
    dvs = dv_column(files, deletes, at=snapshot_id, where=where)
    lost_by = pc.if_else(
        pa.array(have_equality_deletes(files, deletes)), pa.scalar(snapshot_id, pa.int64()), pa.scalar(None, pa.int64())
    )
    names = tables[0].column_names
    updated, start = [], 0
    for table in tables:
        for field, column in ((pa.field("dv", DV), dvs), (PLACED.field("lost_by"), lost_by)):
            table = table.set_column(names.index(field.name), field, column.slice(start, table.num_rows))
        updated.append(table)
        start += table.num_rows
    return updated
