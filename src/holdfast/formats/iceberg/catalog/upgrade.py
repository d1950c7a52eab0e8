"""What a table is, changed through its catalog: the format version, and properties.

1. An upgrade to version 3 begins row ids at 0; the commit after it gives every data manifest its first row id, and is
   made at once, so that no row of the newest snapshot is without an id.
2. A version never goes down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import (
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    _apply_table_update,
)
from pyiceberg.typedef import IcebergBaseModel

from holdfast.env import Env
from holdfast.errors import Conflict, Invalid
from holdfast.formats.iceberg.catalog.commit import UNCLEAR, attempt, send, unanswered
from holdfast.formats.iceberg.catalog.tables import CatalogTable
from holdfast.formats.iceberg.commit.attempt import prepare
from holdfast.formats.iceberg.metadata.manifests import DELETES
from holdfast.formats.iceberg.metadata.table_metadata import NEWEST, ROW_IDS_SINCE
from holdfast.formats.iceberg.state import IcebergState
from holdfast.model.mutation import Mutation

_ATTEMPTS = 100


class UpgradeUpdate(IcebergBaseModel):
    """An upgrade that a catalog applies by itself, beyond the versions pyiceberg lets it."""

    action: str = "upgrade-format-version"
    format_version: int


def _apply(update: UpgradeUpdate, base_metadata: TableMetadata, context: Any) -> TableMetadata:
    context.add_update(update)
    made = {**base_metadata.model_dump(by_alias=True), "format-version": update.format_version}
    if update.format_version >= ROW_IDS_SINCE:
        made["next-row-id"] = 0
    return TableMetadataUtil.parse_obj(made)


_register: Any = _apply_table_update.register
_register(UpgradeUpdate, _apply)


def upgrade(
    source: CatalogTable, state: IcebergState, version: int, env: Env, properties: Mapping[str, str] | None = None
) -> IcebergState:
    """Bring a table to a format version, and set properties in the same commit; gives it as it is then."""
    wanted = properties or {}
    for _ in range(_ATTEMPTS):
        found = state.metadata.format_version
        if version < found or version > NEWEST:
            raise Invalid(f"{state.metadata.location} is of format version {found} and cannot become {version}")
        if found < version:
            update: Any = UpgradeFormatVersionUpdate.model_validate({"format-version": version})
            if isinstance(source.catalog, MetastoreCatalog):
                update = UpgradeUpdate(format_version=version)
            send(source, state, (update, SetPropertiesUpdate(updates=dict(wanted))) if wanted else (update,))
        elif _has_bare_rows(state):
            attempt(source, state, prepare(state, Mutation("UPGRADE", data_change=False), env), env)
        elif any(state.metadata.properties.get(name) != value for name, value in wanted.items()):
            return set_properties(source, state, wanted, ())  # the table was of this version already
        else:
            return state
        state = source.newest(state)
    raise Conflict(f"others kept committing to {state.metadata.location} while it was upgraded; do it again")


def set_properties(
    source: CatalogTable, state: IcebergState, properties: Mapping[str, str], removed: Sequence[str]
) -> IcebergState:
    """Set and remove properties, whatever others do meanwhile to the rows; gives the table as it is then."""
    updates: list[TableUpdate] = []
    if properties:
        updates.append(SetPropertiesUpdate(updates=dict(properties)))
    if removed:
        updates.append(RemovePropertiesUpdate(removals=list(removed)))
    for _ in range(_ATTEMPTS):
        try:
            taken = send(source, state, tuple(updates))
        except UNCLEAR as error:
            state = source.newest(state)
            now = state.metadata.properties
            if any(now.get(name) != value for name, value in properties.items()) or now.keys() & set(removed):
                raise unanswered(f"a change of the properties of {state.metadata.location}", error) from error
            return state
        state = source.newest(state)
        if not taken:
            return state
    raise Conflict(f"others kept committing to {state.metadata.location} while its properties were set; do it again")


def _has_bare_rows(state: IcebergState) -> bool:
    """Whether rows of the newest snapshot have no ids though the format gives them some."""
    if state.metadata.format_version < ROW_IDS_SINCE:
        return False
    return any(m.first_row_id is None for m in state.contents.manifests if m.content != DELETES)
