"""Merges the changes of a table into another table.

    version of the source that the target has  ->  net change since then  ->  one merge that records the new version

1. The target's commit records the last version of the source that it has. Applying the same or overlapping changes
   again changes nothing that is there already and leaves nothing out.
2. Rows meet by key columns, or by the id they have in the source, which the target then keeps in SOURCE_ROW_ID.
3. Columns that the source has and the target lacks are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid, NoRowIdentity
from holdfast.model.format import TableState
from holdfast.model.mutation import AppVersion
from holdfast.plan.changefeed.query import BEFORE, CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, DELETE, ChangesPlan
from holdfast.rows.columns import ROW_ID
from holdfast.schema.constraints import quoted
from holdfast.verbs.define.alteration import Alteration
from holdfast.verbs.dml.assignments import Value
from holdfast.verbs.dml.delete_update import Changed, ExecutionContext
from holdfast.verbs.dml.merge import DeltaMergeBuilder, Duplicates
from holdfast.verbs.dml.write_mutation import CommitOptions
from holdfast.verbs.open.engine import AnyRows
from holdfast.verbs.open.open_table import OpenTable

if TYPE_CHECKING:
    pass

SOURCE_ROW_ID = "_source_row_id"


class TargetHandle(Protocol):
    """A table that changes are applied to, held open."""

    def newest(self) -> TableState: ...

    def open(self) -> OpenTable: ...

    def caller(self) -> ExecutionContext: ...

    @property
    def alter(self) -> Alteration: ...


class ApplyTarget(Protocol):
    """The object that users hold of such a table."""

    @property
    def handle(self) -> TargetHandle: ...


def applied_up_to(target: TargetHandle, source: str) -> int | None:
    """The last version of a source that a table has; None where it has none of it."""
    return target.open().app_version(_app(source))


def apply_rows(
    target: TargetHandle, source: str, version: int, columns: Sequence[str], keys: Sequence[str], rows: AnyRows
) -> Changed:
    """Merge net changes up to a version of a source into a table."""
    caller = replace(target.caller(), alias="t", commit_options=CommitOptions(AppVersion(_app(source), version)))
    table = target.open() if keys else _with_source_ids(target)
    sets: dict[str, Value] = {name: f"s.{quoted(name)}" for name in columns}
    if keys:
        on = " AND ".join(f"t.{quoted(key)} <=> s.{quoted(key)}" for key in keys)
    else:
        sets[SOURCE_ROW_ID] = f"s.{quoted(SOURCE_ROW_ID)}"
        on = f"t.{quoted(SOURCE_ROW_ID)} = s.{quoted(SOURCE_ROW_ID)}"
    is_delete = f"s.{quoted(CHANGE_TYPE)} = '{DELETE}'"
    return (
        DeltaMergeBuilder(lambda: table, _after(rows, with_ids=not keys), on, caller, Duplicates())
        .withSchemaEvolution()
        .whenMatchedDelete(is_delete)
        .whenMatchedUpdate(None, sets)
        .whenNotMatchedInsert(f"NOT ({is_delete})", sets)
        .execute()
    )


def refuse_unpaired(plan: ChangesPlan) -> None:
    """Refuse to apply changes by ids where some rows have none."""
    if any(not reading.has_ids for reading in plan.files):
        raise NoRowIdentity(
            f"rows of the table at {plan.snapshot.location.url} had no ids in these versions: name the columns that "
            "identify a row with keys=[...]; enableRowTracking() gives ids to those to come"
        )


def _app(source: str) -> str:
    return f"holdfast.changes.{source}"


def _with_source_ids(target: TargetHandle) -> OpenTable:
    """The target with the column that source ids are kept in."""
    state = target.newest()
    if state.snapshot.schema.find(SOURCE_ROW_ID) is not None:
        return target.open()
    if len(state.snapshot.files):
        raise Invalid(
            f"the table at {state.snapshot.location.url} has rows, but no column {SOURCE_ROW_ID} that says which row "
            "of the source each is: name key columns with keys=[...], or begin with an empty table"
        )
    target.alter.add_columns({SOURCE_ROW_ID: "long"})
    return target.open()


def _after(rows: AnyRows, *, with_ids: bool) -> AnyRows:
    """What rows are to become: those before an update are left out, and ids are called as the target calls them."""
    dropped = [COMMIT_VERSION, COMMIT_TIMESTAMP, *([] if with_ids else [ROW_ID])]
    if not isinstance(rows, pa.Table):
        return (
            rows.where(f"{quoted(CHANGE_TYPE)} != '{BEFORE}'").drop(*dropped).withColumnRenamed(ROW_ID, SOURCE_ROW_ID)
        )
    kept = rows.filter(pc.not_equal(rows.column(CHANGE_TYPE), BEFORE)).drop_columns(dropped)
    return kept.rename_columns([SOURCE_ROW_ID if name == ROW_ID else name for name in kept.column_names])
