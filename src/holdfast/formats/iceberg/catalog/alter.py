"""Columns of a table changed through its catalog: no snapshot is made, and no file is touched.

1. A change is a function of the columns, asked again where others changed them meanwhile; one that is true already
   changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import Conflict
from holdfast.formats.iceberg.catalog.commit import UNCLEAR, reshaping, send, unanswered
from holdfast.formats.iceberg.catalog.tables import CatalogTable
from holdfast.formats.iceberg.metadata.schema_evolution import check_evolution, schema_json, with_field_ids
from holdfast.formats.iceberg.state import IcebergState
from holdfast.schema.types import Struct

_ATTEMPTS = 100


def change_columns(source: CatalogTable, state: IcebergState, change: Callable[[Struct], Struct]) -> IcebergState:
    """Give a table the columns that `change` makes of those it has; gives the table as it is then."""
    for _ in range(_ATTEMPTS):
        metadata, old = state.metadata, state.snapshot.schema
        new = with_field_ids(change(old), metadata.last_column_id)
        check_evolution(old, new, state.contents.types.specs, where=metadata.location)
        schema = schema_json(metadata, new, state.metadata_path)
        if schema["schema-id"] == metadata.current_schema_id:
            return state
        updates, same = reshaping(metadata, schema)
        try:
            taken = send(source, state, updates, *same)
        except UNCLEAR as error:
            state = source.newest(state)
            now = state.metadata
            if schema_json(now, new, state.metadata_path)["schema-id"] != now.current_schema_id:
                raise unanswered(f"a change of the columns of {metadata.location}", error) from error
            return state
        state = source.newest(state)
        if not taken:
            return state
    raise Conflict(f"others kept changing {state.metadata.location} while its columns were changed; do it again")
