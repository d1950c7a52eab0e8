"""File actions as columns of FILES, from the records of JSON lines and from the structs of a checkpoint.

1. The result has the columns and types of FILES exactly, whatever the writer called the parts of a map.
2. A logical file is known by its id: the file key, and the id of its vector when it has one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.formats.delta.log.actions import FileAction, Vector
from holdfast.model.files import DV, FILES
from holdfast.storage.arrays import longs, maps, mask, strings

ADD_COLUMNS = {  # FILES' names of what a checkpoint's `add` struct holds
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
_SEPARATOR, _AT, _NOTHING = strings(["\0", "@", ""])  # as scalars; the first is in no path


def from_actions(actions: Sequence[FileAction], keys: pa.Array) -> pa.Table:
    """The columns of these actions; `keys` are their file keys."""
    return pa.Table.from_arrays(
        [
            strings([a.path for a in actions]),
            keys,
            longs([a.size for a in actions]),
            longs([a.modification_time for a in actions]),
            maps([a.partition_values for a in actions]),
            _vectors([a.deletion_vector for a in actions]),
            longs([a.base_row_id for a in actions]),
            longs([a.default_row_commit_version for a in actions]),
            strings([a.clustering_provider for a in actions]),
            maps([a.tags for a in actions]),
        ],
        schema=FILES,
    )


def from_struct(found: pa.StructArray, keys: pa.Array) -> pa.Table:
    """The columns of `add` structs, none of them null; a field the writer left out is null."""
    named = {ADD_COLUMNS[f.name]: found.field(i) for i, f in enumerate(found.type) if f.name in ADD_COLUMNS}
    named["key"] = keys
    if "dv" in named:
        named["dv"] = _normal_vectors(named["dv"])
    arrays = [_cast(named[f.name], f.type) if f.name in named else pa.nulls(len(found), f.type) for f in FILES]
    return pa.Table.from_arrays(arrays, schema=FILES)


def logical_ids(keys: pa.Array, vector_ids: pa.Array) -> pa.Array:
    """What tells logical files apart."""
    if vector_ids.null_count == len(vector_ids):
        return keys
    joined = pc.binary_join_element_wise(keys, vector_ids, _SEPARATOR)
    return pc.coalesce(joined, keys)


def _vectors(found: list[Vector | None]) -> pa.Array:
    if not any(found):
        return pa.nulls(len(found), DV)
    return pa.StructArray.from_arrays(
        [
            strings([None if v is None else v.unique_id for v in found]),
            strings([None if v is None else v.storage_type for v in found]),
            strings([None if v is None else v.path_or_inline_dv for v in found]),
            longs([None if v is None else v.offset for v in found]),
            longs([None if v is None else v.size_in_bytes for v in found]),
            longs([None if v is None else v.cardinality for v in found]),
        ],
        fields=list(DV),
        mask=mask(np.fromiter((v is None for v in found), bool, len(found))),
    )


def _normal_vectors(found: pa.StructArray) -> pa.Array:
    if found.null_count == len(found):
        return pa.nulls(len(found), DV)
    has = {f.name for f in found.type}

    def part(name: str, type_: pa.DataType) -> pa.Array:
        return _cast(pc.struct_field(found, name), type_) if name in has else pa.nulls(len(found), type_)

    storage, path = part("storageType", pa.string()), part("pathOrInlineDv", pa.string())
    offset = part("offset", pa.int64())
    tail = pc.coalesce(pc.binary_join_element_wise(_AT, pc.cast(offset, pa.string()), _NOTHING), _NOTHING)
    ids = pc.binary_join_element_wise(storage, path, tail, _NOTHING)
    # Some writers spell "no vector" as a struct of nulls.
    return pa.StructArray.from_arrays(
        [ids, storage, path, offset, part("sizeInBytes", pa.int64()), part("cardinality", pa.int64())],
        fields=list(DV),
        mask=pc.is_null(storage),
    )


def _cast(found: pa.Array, type_: pa.DataType) -> pa.Array:
    return found if found.type == type_ else found.cast(type_)
