"""Makes the mutations that remove the traces of a table feature, and the one that drops it; does no I/O.

1. No mutation changes a row: files are added again, or rewritten, with `data_change` false.
2. Row ids go with row tracking: all files lose them, and the notes about rows they carry.
3. The last mutation reads no rows, so it may stand only on a version without a trace of the feature.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.model.files import FILES, STRINGS
from holdfast.model.mutation import DROPS_FEATURE, KEEPS_ROW_IDS, RESTAMPED, Mutation, TableDefinition
from holdfast.model.snapshot import Snapshot
from holdfast.parquet.pages.footer import Node
from holdfast.rows.rowmap import ROW_IDS
from holdfast.schema.arrow import arrow_type
from holdfast.schema.evolve import TYPE_CHANGES
from holdfast.schema.mapping import all_fields, each_field, logical_path, without_mapping
from holdfast.schema.properties import (
    COLUMN_MAPPING_MAX_ID,
    COLUMN_MAPPING_MODE,
    ENABLE_ROW_TRACKING,
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    ROW_TRACKING_SUSPENDED,
)
from holdfast.schema.storable import refuse_unstorable
from holdfast.schema.types import Array, DataType, Field, Map, Struct, to_json

ROW_TRACKING = (
    ENABLE_ROW_TRACKING,
    ROW_TRACKING_SUSPENDED,
    MATERIALIZED_ROW_ID,
    MATERIALIZED_ROW_COMMIT_VERSION,
)


def suspended(old: TableDefinition) -> Mutation:
    """From here on no file gets row ids."""
    properties = {ENABLE_ROW_TRACKING: "false", ROW_TRACKING_SUSPENDED: "true"}
    shape = replace(old, properties={**old.properties, **properties})
    return Mutation("SET TBLPROPERTIES", {"properties": json.dumps(properties)}, shape=shape)


def unstamped(files: pa.Table, batch: int) -> Mutation:
    """Take their ids from files, which have the columns of RESTAMPED."""
    return Mutation(
        "ROW TRACKING UNBACKFILL", {"batchId": json.dumps(batch)}, readded=without_ids(files), data_change=False
    )


def without_ids(files: pa.Table) -> pa.Table:
    """Files with the columns of RESTAMPED as those of a table that does not track rows."""
    nothing = pa.nulls(files.num_rows, pa.int64())
    at = files.column_names.index
    for name in ("base_row_id", "default_row_commit_version"):
        files = files.set_column(at(name), name, nothing)
    tags = [_untagged(tags) for tags in files.column("tags").to_pylist()]  # one per file
    return files.set_column(at("tags"), "tags", pa.array(tags, STRINGS)).cast(RESTAMPED)


def _untagged(tags: Sequence[tuple[str, str]] | None) -> list[tuple[str, str]] | None:
    return None if tags is None else [(name, value) for name, value in tags if name != ROW_IDS] or None


def entombed(keys: Sequence[str], paths: Sequence[str]) -> Mutation:
    """Say of the files that hold vectors of old versions that they went now.

    Who does not know vectors any more would otherwise vacuum them at once, and old versions with them.
    """
    nothing = {f.name: pa.nulls(len(keys), f.type) for f in FILES}
    files = pa.table({**nothing, "key": pa.array(keys, pa.string()), "path": pa.array(paths, pa.string())})
    return Mutation("Deletion Vector Tombstones", removed=files.select(FILES.names).cast(FILES), data_change=False)


def unmapped_shape(old: TableDefinition) -> TableDefinition:
    """The shape whose columns data files know by their names."""
    refuse_unstorable(old.schema, mapped=False)
    clustering = old.clustering_columns
    if clustering is not None:
        clustering = tuple(logical_path(old.schema, path) for path in clustering)
    gone = (COLUMN_MAPPING_MODE, COLUMN_MAPPING_MAX_ID)
    return replace(
        old,
        schema=without_mapping(old.schema),
        clustering_columns=clustering,
        properties={k: v for k, v in old.properties.items() if k not in gone},
    )


def unmapped(snapshot: Snapshot, staged: pa.Table, shape: TableDefinition, retired: Sequence[str]) -> Mutation:
    """Put files that name columns by their names in the place of all others; domains of indexes retire."""
    return Mutation(
        "REMOVE COLUMN MAPPING",
        metrics={
            "numAddedFiles": staged.num_rows,
            "numRemovedFiles": len(snapshot.files),
            "numAddedBytes": pc.sum(staged.column("size")).as_py() or 0,
            "numRemovedBytes": pc.sum(snapshot.files.column("size")).as_py() or 0,
        },
        added=staged,
        removed=snapshot.files.table,
        data_change=False,
        shape=shape,
        domains=dict.fromkeys(retired),
        tags={KEEPS_ROW_IDS: "true"} if snapshot.identity is not None else {},
    )


def is_widened(schema: Struct) -> bool:
    """Whether some column, at any depth, has had a narrower type."""
    return any(TYPE_CHANGES in f.metadata for f in all_fields(schema))


def unwidened(old: TableDefinition) -> Mutation:
    """Forget that columns had other types: every file has the present ones."""
    changed = [f for f in all_fields(old.schema) if TYPE_CHANGES in f.metadata]
    columns = [{"name": f.name, "type": to_json(f.type), "metadata": dict(f.metadata)} for f in changed]
    schema = each_field(
        old.schema, lambda f: replace(f, metadata={k: v for k, v in f.metadata.items() if k != TYPE_CHANGES})
    )
    return Mutation("CHANGE COLUMNS", {"columns": json.dumps(columns)}, shape=replace(old, schema=schema))


def has_old_types(schema: Struct, nodes: Sequence[Node]) -> bool:
    """Whether a file, whose columns are these, has a value in a type that its column had once."""
    return any(_is_old(node, type_) for node, type_ in _widened_leaves(schema, nodes))


def _widened_leaves(type_: DataType, nodes: Sequence[Node]) -> Iterator[tuple[Node, DataType]]:
    """What a file has for the values whose types were widened, and their types now."""
    match type_:
        case Struct(fields):
            for f in fields:
                if (node := _node_of(f, nodes)) is not None:
                    for change in f.metadata.get(TYPE_CHANGES) or ():
                        yield from _along(node, f.type, str(change.get("fieldPath") or ""))
                    yield from _widened_leaves(f.type, node.children)
        case Array(element, _) if nodes:
            yield from _widened_leaves(element, nodes[0].children)
        case Map(key, value, _) if len(nodes) > 1:
            yield from _widened_leaves(key, nodes[0].children)
            yield from _widened_leaves(value, nodes[1].children)
        case _:
            return


def _node_of(f: Field, nodes: Sequence[Node]) -> Node | None:
    by_id = next((n for n in nodes if f.field_id is not None and n.field_id == f.field_id), None)
    return by_id or next((n for n in nodes if n.name.lower() == f.physical_name.lower()), None)


def _along(node: Node, type_: DataType, path: str) -> Iterator[tuple[Node, DataType]]:
    """The value at the end of a way through lists and maps."""
    for part in filter(None, path.split(".")):
        match type_, part:
            case Array(element, _), "element" if node.children:
                node, type_ = node.children[0], element
            case Map(key, _, _), "key" if node.children:
                node, type_ = node.children[0], key
            case Map(_, value, _), "value" if len(node.children) > 1:
                node, type_ = node.children[1], value
            case _:
                return
    yield node, type_


def _is_old(node: Node, type_: DataType) -> bool:
    now = arrow_type(type_)
    if pa.types.is_timestamp(now):  # of whatever unit
        return not pa.types.is_timestamp(node.type)
    return bool(node.type != now)


def dropped(shape: TableDefinition, name: str, *, truncates: bool, retired: Sequence[str] = ()) -> Mutation:
    """Do without a feature that nothing of the table needs any more; `retired` is state that goes with it."""
    gone: tuple[str, ...] = ROW_TRACKING if name == "rowTracking" else ()
    parameters: dict[str, Any] = {"featureName": name, "truncateHistory": truncates}
    return Mutation(
        DROPS_FEATURE,
        parameters,
        shape=replace(shape, properties={k: v for k, v in shape.properties.items() if k not in gone}),
        domains=dict.fromkeys(retired),
        drops=frozenset((name,)),
    )
