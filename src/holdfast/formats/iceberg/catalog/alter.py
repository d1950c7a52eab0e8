"""Changes columns, properties or the format version of a table through its catalog, without writing a data file.

1. A change of columns is a function of the columns, applied again where others changed them meanwhile; a change that
   is already true does nothing.
2. An upgrade to version 3 starts row ids at 0. The commit after it gives every data manifest its first row id, and is
   made at once, so that every row of the newest snapshot has an id.
3. A format version never goes down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import (
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
)
from pyiceberg.typedef import IcebergBaseModel

from holdfast.env import Env
from holdfast.errors import Conflict, Invalid, OutcomeUnknown
from holdfast.formats.iceberg.catalog.commit import UNCLEAR, attempt, schema_updates, send
from holdfast.formats.iceberg.catalog.tables import CatalogTable
from holdfast.formats.iceberg.commit.attempt import prepare
from holdfast.formats.iceberg.metadata.manifests import DELETES
from holdfast.formats.iceberg.metadata.schema_evolution import check_evolution, schema_json, with_field_ids
from holdfast.formats.iceberg.metadata.table_metadata import NEWEST, ROW_IDS_SINCE
from holdfast.formats.iceberg.state import IcebergState
from holdfast.model.mutation import Mutation
from holdfast.schema.types import Struct

_ATTEMPTS = 100


class UpgradeUpdate(IcebergBaseModel):
    """An upgrade to a format version that pyiceberg does not apply by itself."""

    action: str = "upgrade-format-version"
    format_version: int


def _apply(update: UpgradeUpdate, base_metadata: TableMetadata, context: _TableMetadataUpdateContext) -> TableMetadata:
    context.add_update(update)  # type: ignore[arg-type]
    fields = {**base_metadata.model_dump(by_alias=True), "format-version": update.format_version}
    if update.format_version >= ROW_IDS_SINCE:
        fields["next-row-id"] = 0
    return TableMetadataUtil.parse_obj(fields)


_register: Any = _apply_table_update.register
_register(UpgradeUpdate, _apply)


def change_columns(source: CatalogTable, state: IcebergState, change: Callable[[Struct], Struct]) -> IcebergState:
    """Gives a table the columns that `change` makes of its columns; returns the table after that."""
    for _ in range(_ATTEMPTS):
        metadata, old = state.metadata, state.snapshot.schema
        new = with_field_ids(change(old), metadata.last_column_id)
        check_evolution(old, new, state.contents.types.specs, where=metadata.location)
        schema = schema_json(metadata, new, state.metadata_path)
        if schema["schema-id"] == metadata.current_schema_id:
            return state

        def has_columns(now: IcebergState, new: Struct = new) -> bool:
            raw = schema_json(now.metadata, new, now.metadata_path)
            return bool(raw["schema-id"] == now.metadata.current_schema_id)

        updates, requirements = schema_updates(metadata, schema)
        state, is_changed = _send(source, state, updates, has_columns, "the columns", *requirements)
        if is_changed:
            return state
    raise Conflict(f"others kept changing {state.metadata.location} while its columns were changed; do it again")


def set_properties(
    source: CatalogTable, state: IcebergState, properties: Mapping[str, str], removed: Sequence[str]
) -> IcebergState:
    """Sets and removes properties, whatever others do to the rows meanwhile; returns the table after that."""
    updates: list[TableUpdate] = []
    if properties:
        updates.append(SetPropertiesUpdate(updates=dict(properties)))
    if removed:
        updates.append(RemovePropertiesUpdate(removals=list(removed)))

    def has_properties(now: IcebergState) -> bool:
        return _has_properties(now, properties) and not now.metadata.properties.keys() & set(removed)

    for _ in range(_ATTEMPTS):
        state, is_changed = _send(source, state, tuple(updates), has_properties, "the properties")
        if is_changed:
            return state
    raise Conflict(f"others kept committing to {state.metadata.location} while its properties were set; do it again")


def upgrade(
    source: CatalogTable, state: IcebergState, version: int, env: Env, properties: Mapping[str, str] | None = None
) -> IcebergState:
    """Upgrades a table to a format version and sets properties in the same commit; returns the table after that."""
    properties = properties or {}
    for _ in range(_ATTEMPTS):
        current = state.metadata.format_version
        if version < current or version > NEWEST:
            raise Invalid(f"{state.metadata.location} is of format version {current} and cannot become {version}")
        if current < version:
            update: Any = UpgradeFormatVersionUpdate.model_validate({"format-version": version})
            if isinstance(source.catalog, MetastoreCatalog):
                update = UpgradeUpdate(format_version=version)
            send(source, state, (update, SetPropertiesUpdate(updates=dict(properties))) if properties else (update,))
        elif current >= ROW_IDS_SINCE and _has_rows_without_ids(state):
            attempt(source, state, prepare(state, Mutation("UPGRADE", data_change=False), env), env)
        elif not _has_properties(state, properties):
            return set_properties(source, state, properties, ())  # the table was of this version already
        else:
            return state
        state = source.newest(state)
    raise Conflict(f"others kept committing to {state.metadata.location} while it was upgraded; do it again")


def _send(
    source: CatalogTable,
    state: IcebergState,
    updates: tuple[TableUpdate, ...],
    is_true: Callable[[IcebergState], bool],
    what: str,
    *requirements: TableRequirement,
) -> tuple[IcebergState, bool]:
    """Sends updates to the catalog; returns the newest state, and whether they were accepted.

    Where the catalog gives no answer, `is_true` tells whether a state has the change.
    """
    try:
        is_refused = send(source, state, updates, *requirements)
    except UNCLEAR as error:
        state = source.newest(state)
        if not is_true(state):
            raise OutcomeUnknown(
                f"a change of {what} of {state.metadata.location} got no answer ({error}), and the table does not have "
                "it so far: look before repeating it"
            ) from error
        return state, True
    return source.newest(state), not is_refused


def _has_properties(state: IcebergState, properties: Mapping[str, str]) -> bool:
    return properties.items() <= state.metadata.properties.items()


def _has_rows_without_ids(state: IcebergState) -> bool:
    return any(m.first_row_id is None for m in state.contents.manifests if m.content != DELETES)
