"""File actions as columns of FILES, from the records of JSON lines and from the structs of a checkpoint.

1. The result has the columns and types of FILES exactly, whatever the writer called the parts of a map.
2. A logical file is known by its id: the file key, and the id of its vector when it has one.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.delta.actions import FileAction, Vector
from holdfast.model.files import DV, FILES, STRINGS

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
_SEPARATOR = "\0"  # in no path


def from_actions(actions: Sequence[FileAction], keys: pa.Array) -> pa.Table:
    """The columns of these actions; `keys` are their file keys."""
    return pa.Table.from_arrays(
        [
            pa.array([a.path for a in actions], pa.string()),
            keys,
            pa.array([a.size for a in actions], pa.int64()),
            pa.array([a.modification_time for a in actions], pa.int64()),
            _maps([a.partition_values for a in actions]),
            _vectors([a.deletion_vector for a in actions]),
            pa.array([a.base_row_id for a in actions], pa.int64()),
            pa.array([a.default_row_commit_version for a in actions], pa.int64()),
            pa.array([a.clustering_provider for a in actions], pa.string()),
            _maps([a.tags for a in actions]),
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


def _maps(found: list[dict[str, str | None] | None]) -> pa.Array:
    if not any(found):
        # Nearly every table has no partitions or no tags: an array of empty maps needs no list of lists.
        offsets = pa.array([0] * (len(found) + 1), pa.int32())
        mask = pa.array([m is None for m in found], pa.bool_())
        empty = pa.array([], pa.string())
        return pa.MapArray.from_arrays(offsets, empty, empty, mask=mask)
    return pa.array([None if m is None else list(m.items()) for m in found], STRINGS)


def _vectors(found: list[Vector | None]) -> pa.Array:
    if not any(found):
        return pa.nulls(len(found), DV)
    return pa.array(
        [
            v
            and {
                "id": v.unique_id,
                "storage": v.storage_type,
                "path": v.path_or_inline_dv,
                "offset": v.offset,
                "size": v.size_in_bytes,
                "cardinality": v.cardinality,
            }
            for v in found
        ],
        DV,
    )


def _normal_vectors(found: pa.StructArray) -> pa.Array:
    if found.null_count == len(found):
        return pa.nulls(len(found), DV)
    has = {f.name for f in found.type}

    def part(name: str, type_: pa.DataType) -> pa.Array:
        return _cast(pc.struct_field(found, name), type_) if name in has else pa.nulls(len(found), type_)

    storage, path = part("storageType", pa.string()), part("pathOrInlineDv", pa.string())
    offset = part("offset", pa.int64())
    tail = pc.coalesce(pc.binary_join_element_wise("@", pc.cast(offset, pa.string()), ""), "")
    ids = pc.binary_join_element_wise(storage, path, tail, "")
    # Some writers spell "no vector" as a struct of nulls.
    return pa.StructArray.from_arrays(
        [ids, storage, path, offset, part("sizeInBytes", pa.int64()), part("cardinality", pa.int64())],
        fields=list(DV),
        mask=pc.is_null(storage),
    )


def _cast(found: pa.Array, type_: pa.DataType) -> pa.Array:
    return found if found.type == type_ else found.cast(type_)
