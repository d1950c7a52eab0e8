"""Commits a written snapshot to the catalog, and finds the outcome where the catalog gives no answer.

1. The catalog accepts a snapshot only if the table is still the one that the attempt was made on; otherwise the race is
   lost.
2. If the answer was lost, the table is read again: a snapshot is known by its id, which nobody else has.
3. If that does not give the outcome, OutcomeUnknown is raised; nothing is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import msgspec
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    RESTError,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    ValidatableTableRequirement,
)
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from holdfast.env import Env
from holdfast.errors import OutcomeUnknown, TableError, Unavailable
from holdfast.formats.iceberg.catalog.pointer import has_pointer, move_pointer
from holdfast.formats.iceberg.catalog.tables import CatalogTable
from holdfast.formats.iceberg.commit.attempt import SnapshotAttempt
from holdfast.formats.iceberg.commit.drafts import Drafts
from holdfast.formats.iceberg.commit.manifest_writer import metadata_folder
from holdfast.formats.iceberg.commit.next_metadata import metadata_after, name_after
from holdfast.formats.iceberg.metadata.table_metadata import MAIN, SnapshotRef
from holdfast.formats.iceberg.metadata.table_metadata import TableMetadata as OurMetadata
from holdfast.formats.iceberg.state import IcebergState
from holdfast.model.mutation import Committed, Outcome, VersionTaken
from holdfast.storage.open import place

UNCLEAR = (CommitStateUnknownException, RESTError, OSError, SQLAlchemyError)


class AssertSequence(ValidatableTableRequirement):
    """Requires that nobody committed since, on any branch: new sequence numbers and row ids follow the last ones."""

    type: str = "assert-last-sequence-number"
    last_sequence_number: int
    next_row_id: int | None = None

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        """Refuses metadata with other counters."""
        sequence = getattr(base_metadata, "last_sequence_number", None)
        row_id = getattr(base_metadata, "next_row_id", None)
        if sequence != self.last_sequence_number or self.next_row_id not in (None, row_id):
            raise CommitFailedException(f"the table went on to sequence number {sequence}")


def attempt(
    source: CatalogTable,
    state: IcebergState,
    written: SnapshotAttempt,
    env: Env,
    branch: str = MAIN,
    drafts: Drafts | None = None,
    hold: Connection | None = None,
) -> Outcome:
    """Commits a snapshot as the newest of a branch; the branch keeps its retention settings.

    `drafts` gets the files that were written in vain; `hold` keeps others from moving the table's pointer.
    """
    snapshot = {
        "snapshot-id": written.snapshot_id,
        "parent-snapshot-id": written.parent,
        "sequence-number": written.sequence,
        "timestamp-ms": written.timestamp_ms,
        "manifest-list": written.manifest_list,
        "summary": dict(written.summary),
        "schema-id": written.schema_id,
        "first-row-id": written.first_row_id,
        "added-rows": written.added_rows,
    }
    try:
        if written.schema is None and branch == MAIN and has_pointer(source.catalog):
            taken = not _moved(source, state, snapshot, env, Drafts() if drafts is None else drafts, hold)
        else:
            taken = _sent(source, state, written, snapshot, branch)
    except UNCLEAR as error:
        taken = not _landed(source, state, written, branch, error)
    return VersionTaken(written.snapshot_id) if taken else Committed(written.snapshot_id)


def _moved(
    source: CatalogTable,
    state: IcebergState,
    snapshot: Mapping[str, Any],
    env: Env,
    drafts: Drafts,
    hold: Connection | None,
) -> bool:
    """Writes the next metadata file and moves the catalog's pointer to it; False: the pointer had moved already."""
    assert has_pointer(source.catalog), "the caller has checked that"
    old = state.metadata_path
    if source.place(source.catalog) != old:
        return False
    new = f"{metadata_folder(state)}/{name_after(old, str(env.new_uuid()))}"
    store, key = place(state.paths.location, state.paths.key(new))
    store.put(key, metadata_after(state.metadata, old, snapshot))
    if move_pointer(source.catalog, source.identifier, old, new, hold):
        return True
    drafts.written.append(new)
    return False


def _sent(
    source: CatalogTable, state: IcebergState, written: SnapshotAttempt, snapshot: Mapping[str, Any], branch: str
) -> bool:
    """Sends the snapshot to the catalog; True: refused, because the table changed."""
    schema, requirements = ((), ()) if written.schema is None else schema_updates(state.metadata, written.schema)
    ref = {**_ref_settings(state.metadata.refs.get(branch)), "ref-name": branch, "snapshot-id": written.snapshot_id}
    updates = (
        *schema,
        AddSnapshotUpdate(snapshot=Snapshot.model_validate(snapshot)),
        SetSnapshotRefUpdate.model_validate(ref),
    )
    head = AssertRefSnapshotId.model_validate({"ref": branch, "snapshot-id": written.parent})
    return send(source, state, updates, head, *requirements)


def _ref_settings(ref: SnapshotRef | None) -> dict[str, Any]:
    """The fields of a snapshot reference except its snapshot id."""
    if ref is None:
        return {"type": "branch"}
    fields = msgspec.to_builtins(ref)
    return {name: value for name, value in fields.items() if value is not None and name != "snapshot-id"}


def schema_updates(
    metadata: OurMetadata, schema: Mapping[str, Any]
) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
    """The updates that make a schema the current one, and their requirements."""
    schema_id = schema["schema-id"]
    exists = any(int(one.get("schema-id", 0)) == schema_id for one in metadata.schemas)
    added = () if exists else (AddSchemaUpdate.model_validate({"schema": schema}),)
    requirements = (
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
        AssertLastAssignedFieldId.model_validate({"last-assigned-field-id": metadata.last_column_id}),
    )
    return (*added, SetCurrentSchemaUpdate.model_validate({"schema-id": schema_id})), requirements


def send(source: CatalogTable, state: IcebergState, updates: tuple[TableUpdate, ...], *more: TableRequirement) -> bool:
    """Sends updates of a table to its catalog; True: refused, because the table is no longer at `state`."""
    metadata, catalog = state.metadata, source.catalog
    requirements: list[Any] = [*more]
    if metadata.table_uuid is not None:
        requirements.append(AssertTableUUID(uuid=UUID(metadata.table_uuid)))
    if isinstance(catalog, MetastoreCatalog):
        requirements.append(
            AssertSequence(last_sequence_number=metadata.last_sequence_number, next_row_id=metadata.next_row_id)
        )
    name = catalog.identifier_to_tuple(source.identifier)
    table = Table(name, None, state.metadata_path, None, catalog)  # type: ignore[arg-type]
    try:
        catalog.commit_table(table, tuple(requirements), updates)
    except CommitFailedException:
        return True
    except NoSuchTableError as error:
        raise Unavailable(f"the table {'.'.join(name)} is no longer in the catalog {catalog.name}") from error
    return False


def _landed(source: CatalogTable, state: IcebergState, written: SnapshotAttempt, branch: str, error: Exception) -> bool:
    """Whether a snapshot whose answer was lost is in the table; once others have committed, it never will be."""
    where = state.metadata.location
    try:
        newest = source.newest(None)
    except TableError as again:
        raise OutcomeUnknown(
            f"the commit of snapshot {written.snapshot_id} to {where} got no answer ({error}), and the table cannot be "
            "read now: look at its history before writing again"
        ) from again
    if newest.metadata.snapshot(written.snapshot_id) is not None:
        return True
    head = newest.metadata.refs.get(branch)
    if (None if head is None else head.snapshot_id) != written.parent:
        return False
    raise OutcomeUnknown(
        f"the commit of snapshot {written.snapshot_id} to {where} got no answer ({error}), and the table does not have "
        "it so far: look at its history before writing again"
    ) from error
