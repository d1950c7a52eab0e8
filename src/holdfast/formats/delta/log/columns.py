"""Converts file actions, from commits or from checkpoints, to the Arrow columns of FILES.

1. The result has the columns and types of FILES exactly, whatever names the writer gave to the fields of a map.
2. The id of a logical file is its file key, and the id of its deletion vector where it has one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.formats.delta.log.actions import DeletionVector, FileAction
from holdfast.model.files import DV, FILES
from holdfast.storage.arrays import longs, maps, mask, strings
from holdfast.storage.location import Location

ADD_COLUMNS = {  # the column of FILES for each field of a checkpoint's `add` struct
    "path": "path",
    "size": "size",
    "modificationTime": "modified_ms",
    "partitionValues": "partition_values",
    "deletionVector": "dv",
    "baseRowId": "base_row_id",
    "defaultRowCommitVersion": "default_row_commit_version",
    "clusteringProvider": "clustering_provider",
    "tags": "tags",
}
_SEPARATOR, _AT, _EMPTY = strings(["\0", "@", ""])  # as scalars; the first is in no path


def from_actions(actions: Sequence[FileAction], location: Location) -> pa.Table:
    """The columns of these actions."""
    return pa.Table.from_arrays(
        [
            strings([a.path for a in actions]),
            file_keys(actions, location),
            longs([a.size for a in actions]),
            longs([a.modification_time for a in actions]),
            maps([a.partition_values for a in actions]),
            _dv_array([a.deletion_vector for a in actions]),
            longs([a.base_row_id for a in actions]),
            longs([a.default_row_commit_version for a in actions]),
            strings([a.clustering_provider for a in actions]),
            maps([a.tags for a in actions]),
        ],
        schema=FILES,
    )


def from_struct(adds: pa.StructArray, keys: pa.Array) -> pa.Table:
    """The columns of `add` structs, none of them null; a field that the file lacks is null."""
    columns = {ADD_COLUMNS[f.name]: adds.field(i) for i, f in enumerate(adds.type) if f.name in ADD_COLUMNS}
    columns["key"] = keys
    if "dv" in columns:
        columns["dv"] = _dv_from_struct(columns["dv"])
    arrays = [_cast(columns[f.name], f.type) if f.name in columns else pa.nulls(len(adds), f.type) for f in FILES]
    return pa.Table.from_arrays(arrays, schema=FILES)


def file_keys(actions: Sequence[FileAction], location: Location) -> pa.Array:
    """The file keys of these actions."""
    return location.file_keys(strings([action.path for action in actions]))


def dv_ids_of(actions: Sequence[FileAction]) -> pa.Array:
    """The ids of the deletion vectors of these actions, null where there is none."""
    return strings([None if (dv := action.deletion_vector) is None else dv.unique_id for action in actions])


def table_ids(files: pa.Table) -> pa.Array:
    """The ids of logical files that have the columns `key` and `dv`."""
    dv_ids = pc.struct_field(files.column("dv").combine_chunks(), "id")
    return logical_ids(files.column("key").combine_chunks(), dv_ids)


def logical_ids(keys: pa.Array, dv_ids: pa.Array) -> pa.Array:
    """The ids of logical files, from their keys and the ids of their deletion vectors."""
    if dv_ids.null_count == len(dv_ids):
        return keys
    joined = pc.binary_join_element_wise(keys, dv_ids, _SEPARATOR)
    return pc.coalesce(joined, keys)


def _dv_array(vectors: list[DeletionVector | None]) -> pa.Array:
    if not any(vectors):
        return pa.nulls(len(vectors), DV)
    return pa.StructArray.from_arrays(
        [
            strings([None if v is None else v.unique_id for v in vectors]),
            strings([None if v is None else v.storage_type for v in vectors]),
            strings([None if v is None else v.path_or_inline_dv for v in vectors]),
            longs([None if v is None else v.offset for v in vectors]),
            longs([None if v is None else v.size_in_bytes for v in vectors]),
            longs([None if v is None else v.cardinality for v in vectors]),
        ],
        fields=list(DV),
        mask=mask(np.fromiter((v is None for v in vectors), bool, len(vectors))),
    )


def _dv_from_struct(vectors: pa.StructArray) -> pa.Array:
    if vectors.null_count == len(vectors):
        return pa.nulls(len(vectors), DV)
    present = {f.name for f in vectors.type}

    def part(name: str, type_: pa.DataType) -> pa.Array:
        return _cast(pc.struct_field(vectors, name), type_) if name in present else pa.nulls(len(vectors), type_)

    storage, path = part("storageType", pa.string()), part("pathOrInlineDv", pa.string())
    offset = part("offset", pa.int64())
    suffix = pc.coalesce(pc.binary_join_element_wise(_AT, pc.cast(offset, pa.string()), _EMPTY), _EMPTY)
    ids = pc.binary_join_element_wise(storage, path, suffix, _EMPTY)
    # Some writers store "no deletion vector" as a struct of nulls.
    return pa.StructArray.from_arrays(
        [ids, storage, path, offset, part("sizeInBytes", pa.int64()), part("cardinality", pa.int64())],
        fields=list(DV),
        mask=pc.is_null(storage),
    )


def _cast(values: pa.Array, type_: pa.DataType) -> pa.Array:
    return values if values.type == type_ else values.cast(type_)
