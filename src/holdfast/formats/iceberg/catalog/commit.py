"""A written snapshot becomes the table's, or does not: what a catalog is told, and what its answer means.

1. A catalog takes a snapshot only if the table is still the one the attempt was made on; otherwise the race is lost.
2. An answer that was lost is resolved by reading the table back: a snapshot is known by its id, which nobody else has.
3. Where that cannot be told, OutcomeUnknown says so; nothing is repeated then.
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
    """No commit came since, on any branch: sequence numbers and row ids were counted on from this one."""

    type: str = "assert-last-sequence-number"
    last_sequence_number: int
    next_row_id: int | None = None

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        """Refuse metadata in which the counts went on."""
        sequence = getattr(base_metadata, "last_sequence_number", None)
        row_id = getattr(base_metadata, "next_row_id", None)
        if sequence != self.last_sequence_number or self.next_row_id not in (None, row_id):
            raise CommitFailedException(f"the table went on to sequence number {sequence}")


def attempt(
    source: CatalogTable,
    state: IcebergState,
    made: SnapshotAttempt,
    env: Env,
    branch: str = MAIN,
    drafts: Drafts | None = None,
    hold: Connection | None = None,
) -> Outcome:
    """Hand a snapshot to the catalog, as the newest of a branch, which keeps how long it is kept.

    `drafts` is told what was written for that in vain; `hold` keeps others from moving the table's pointer.
    """
    snapshot = {
        "snapshot-id": made.snapshot_id,
        "parent-snapshot-id": made.parent,
        "sequence-number": made.sequence,
        "timestamp-ms": made.timestamp_ms,
        "manifest-list": made.manifest_list,
        "summary": dict(made.summary),
        "schema-id": made.schema_id,
        "first-row-id": made.first_row_id,
        "added-rows": made.added_rows,
    }
    try:
        if made.schema is None and branch == MAIN and has_pointer(source.catalog):
            taken = not _moved(source, state, snapshot, env, Drafts() if drafts is None else drafts, hold)
        else:
            taken = _sent(source, state, made, snapshot, branch)
    except UNCLEAR as error:
        taken = not _landed(source, state, made, branch, error)
    return VersionTaken(made.snapshot_id) if taken else Committed(made.snapshot_id)


def _moved(
    source: CatalogTable,
    state: IcebergState,
    snapshot: Mapping[str, Any],
    env: Env,
    drafts: Drafts,
    hold: Connection | None,
) -> bool:
    """Write the next metadata file and let the catalog point to it; False: it points elsewhere already."""
    assert has_pointer(source.catalog), "it was asked before"
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
    source: CatalogTable, state: IcebergState, made: SnapshotAttempt, snapshot: Mapping[str, Any], branch: str
) -> bool:
    """Tell the catalog; True: the table is no longer as the attempt has it."""
    reshaped, same = ((), ()) if made.schema is None else reshaping(state.metadata, made.schema)
    ref = {**_kept(state.metadata.refs.get(branch)), "ref-name": branch, "snapshot-id": made.snapshot_id}
    updates = (
        *reshaped,
        AddSnapshotUpdate(snapshot=Snapshot.model_validate(snapshot)),
        SetSnapshotRefUpdate.model_validate(ref),
    )
    head = AssertRefSnapshotId.model_validate({"ref": branch, "snapshot-id": made.parent})
    return send(source, state, updates, head, *same)


def _kept(ref: SnapshotRef | None) -> dict[str, Any]:
    """What a branch says of itself beside its snapshot."""
    if ref is None:
        return {"type": "branch"}
    told = msgspec.to_builtins(ref)
    return {name: value for name, value in told.items() if value is not None and name != "snapshot-id"}


def reshaping(
    metadata: OurMetadata, schema: Mapping[str, Any]
) -> tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]:
    """What makes a schema the current one, and what must not have changed for it."""
    number = schema["schema-id"]
    is_known = any(int(one.get("schema-id", 0)) == number for one in metadata.schemas)
    added = () if is_known else (AddSchemaUpdate.model_validate({"schema": schema}),)
    same = (
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
        AssertLastAssignedFieldId.model_validate({"last-assigned-field-id": metadata.last_column_id}),
    )
    return (*added, SetCurrentSchemaUpdate.model_validate({"schema-id": number})), same


def send(source: CatalogTable, state: IcebergState, updates: tuple[TableUpdate, ...], *more: TableRequirement) -> bool:
    """Tell a catalog to change a table that is still as `state` has it; True: it no longer is, and nothing changed."""
    metadata, catalog = state.metadata, source.catalog
    requirements: list[Any] = [*more]
    if metadata.table_uuid is not None:
        requirements.append(AssertTableUUID(uuid=UUID(metadata.table_uuid)))
    if isinstance(catalog, MetastoreCatalog):
        requirements.append(
            AssertSequence(last_sequence_number=metadata.last_sequence_number, next_row_id=metadata.next_row_id)
        )
    name = catalog.identifier_to_tuple(source.identifier)
    table: Any = Table(name, None, state.metadata_path, None, catalog)  # type: ignore[arg-type]
    try:
        catalog.commit_table(table, tuple(requirements), updates)
    except CommitFailedException:
        return True
    except NoSuchTableError as error:
        raise Unavailable(f"the table {'.'.join(name)} is no longer in the catalog {catalog.name}") from error
    return False


def unanswered(what: str, error: Exception) -> OutcomeUnknown:
    """What to say of a commit without a snapshot that got no answer and cannot be seen."""
    return OutcomeUnknown(
        f"{what} got no answer ({error}), and the table does not have it so far: look before repeating it"
    )


def _landed(source: CatalogTable, state: IcebergState, made: SnapshotAttempt, branch: str, error: Exception) -> bool:
    """Whether a snapshot whose answer was lost is the table's; a table that went on without it never takes it."""
    where = state.metadata.location
    try:
        newest = source.newest(None)
    except TableError as again:
        raise OutcomeUnknown(
            f"the commit of snapshot {made.snapshot_id} to {where} got no answer ({error}), and the table cannot be "
            "read now: look at its history before writing again"
        ) from again
    if newest.metadata.snapshot(made.snapshot_id) is not None:
        return True
    head = newest.metadata.refs.get(branch)
    if (None if head is None else head.snapshot_id) != made.parent:
        return False
    raise OutcomeUnknown(
        f"the commit of snapshot {made.snapshot_id} to {where} got no answer ({error}), and the table does not have it "
        "so far: look at its history before writing again"
    ) from error
