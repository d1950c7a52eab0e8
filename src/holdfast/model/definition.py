"""Definitions of new Delta tables, and of Delta tables whose schema changes.

1. A new table tracks rows and has deletion vectors, unless the caller wants it plain.
2. A column with a name of the change data feed is refused before any file is written for it.
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
    ENABLE_DELETION_VECTORS,
    ENABLE_ROW_TRACKING,
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    PROTECTED_BEFORE,
    truth,
)
from holdfast.schema.storable import refuse_feed_columns
from holdfast.schema.types import Struct

_DEFAULTS = {ENABLE_ROW_TRACKING: "true", ENABLE_DELETION_VECTORS: "true"}
_KEPT = (MATERIALIZED_ROW_ID, MATERIALIZED_ROW_COMMIT_VERSION, COLUMN_MAPPING_MAX_ID, PROTECTED_BEFORE)


def created(
    request: TableDefinition,
    new_uuid: Callable[[], uuid.UUID],
    *,
    plain: bool = False,
    old: TableDefinition | None = None,
) -> TableDefinition:
    """The definition of a new table, or of one that replaces an `old` one."""
    properties = ({} if plain else _DEFAULTS) | dict(request.properties)
    if old is not None:
        # Names of id columns stay for a table's life, and ids of columns are never used again.
        properties |= {name: old.properties[name] for name in _KEPT if name in old.properties}
    if not truth(properties.get(ENABLE_ROW_TRACKING)):
        properties = {k: v for k, v in properties.items() if k not in _KEPT[:2]}
    refuse_feed_columns(request.schema, properties)
    return _mapped(replace(request, properties=properties), new_uuid)


def with_schema(definition: TableDefinition, schema: Struct, new_uuid: Callable[[], uuid.UUID]) -> TableDefinition:
    """A definition with another schema; clustering columns stay as they are."""
    refuse_feed_columns(schema, definition.properties, recorded=True)
    mapped = _mapped(replace(definition, schema=schema, clustering_columns=None), new_uuid)
    return replace(mapped, clustering_columns=definition.clustering_columns)


def _mapped(definition: TableDefinition, new_uuid: Callable[[], uuid.UUID]) -> TableDefinition:
    if definition.properties.get(COLUMN_MAPPING_MODE, "none").lower() == "none":
        return definition
    start = int(definition.properties.get(COLUMN_MAPPING_MAX_ID, "0"))
    mapped = map_new_columns(definition.schema, max_id=start, new_uuid=new_uuid)
    paths = definition.clustering_columns
    return replace(
        definition,
        schema=mapped.schema,
        properties={**definition.properties, COLUMN_MAPPING_MAX_ID: str(mapped.max_id)},
        clustering_columns=None if paths is None else tuple(physical_path(mapped.schema, path) for path in paths),
    )
