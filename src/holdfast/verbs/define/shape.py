"""What a table becomes: the shape of a new table, and of one whose schema grows.

1. A new table tracks rows and may hide rows by vectors unless it was asked to be plain.
2. A column that the change data feed has is refused before any file is written for it.
3. Where columns are mapped, every field has an id and a physical name before any file is written, and no id is reused.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace

from holdfast.model.mutation import TableDefinition
from holdfast.schema.mapping import map_new_columns, physical_path
from holdfast.schema.properties import (
    COLUMN_MAPPING_MAX_ID,
    COLUMN_MAPPING_MODE,
    ENABLE_ROW_TRACKING,
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    PROTECTED_BEFORE,
    truth,
)
from holdfast.schema.storable import refuse_feed_columns
from holdfast.schema.types import Struct

ENABLE_DELETION_VECTORS = "delta.enableDeletionVectors"
_DEFAULTS = {ENABLE_ROW_TRACKING: "true", ENABLE_DELETION_VECTORS: "true"}
_KEPT = (MATERIALIZED_ROW_ID, MATERIALIZED_ROW_COMMIT_VERSION, COLUMN_MAPPING_MAX_ID, PROTECTED_BEFORE)


def created(
    definition: TableDefinition,
    new_uuid: Callable[[], uuid.UUID],
    *,
    plain: bool = False,
    old: TableDefinition | None = None,
) -> TableDefinition:
    """The shape of a table that is made, or made anew in the place of an `old` one."""
    properties = ({} if plain else _DEFAULTS) | dict(definition.properties)
    if old is not None:
        # Names of id columns stay for a table's life, and ids of columns are never used again.
        properties |= {name: old.properties[name] for name in _KEPT if name in old.properties}
    if not truth(properties.get(ENABLE_ROW_TRACKING)):
        properties = {k: v for k, v in properties.items() if k not in _KEPT[:2]}
    refuse_feed_columns(definition.schema, properties)
    return _mapped(replace(definition, properties=properties), new_uuid)


def grown(shape: TableDefinition, schema: Struct, new_uuid: Callable[[], uuid.UUID]) -> TableDefinition:
    """A table's shape with another schema; clustering columns stay as they are."""
    refuse_feed_columns(schema, shape.properties, recorded=True)
    clustering = shape.clustering_columns
    mapped = _mapped(replace(shape, schema=schema, clustering_columns=None), new_uuid)
    return replace(mapped, clustering_columns=clustering)


def _mapped(shape: TableDefinition, new_uuid: Callable[[], uuid.UUID]) -> TableDefinition:
    if shape.properties.get(COLUMN_MAPPING_MODE, "none").lower() == "none":
        return shape
    start = int(shape.properties.get(COLUMN_MAPPING_MAX_ID, "0"))
    mapped = map_new_columns(shape.schema, max_id=start, new_uuid=new_uuid)
    paths = shape.clustering_columns
    return replace(
        shape,
        schema=mapped.schema,
        properties={**shape.properties, COLUMN_MAPPING_MAX_ID: str(mapped.max_id)},
        clustering_columns=None if paths is None else tuple(physical_path(mapped.schema, path) for path in paths),
    )
