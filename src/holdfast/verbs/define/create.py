"""Creates a Delta table with its first rows, or replaces one with other rows, in one commit.

1. The first version of a table has its rows: nobody sees it empty in between.
2. A replaced table keeps its history, its id and the names of its columns of row ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

import pyarrow.compute as pc

from holdfast.env import Env, system
from holdfast.errors import Invalid, NotATable
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.protocol.features import check_writable, writer_features
from holdfast.formats.delta.protocol.upgrade import protocol_for
from holdfast.formats.delta.state import DeltaState
from holdfast.model.definition import created
from holdfast.model.mutation import TableDefinition
from holdfast.model.write_spec import write_spec
from holdfast.plan.engine import IncomingRows
from holdfast.schema.constraints import demands
from holdfast.schema.enforce import fit
from holdfast.schema.identity import advanced
from holdfast.storage.location import Location
from holdfast.verbs.commit.loop import commit
from holdfast.verbs.define.builder import CreateMode, DeltaTableBuilder, without_plain
from holdfast.verbs.dml.write import Written, make, refuse_append_only
from holdfast.verbs.dml.write_mutation import CommitOptions, created_table

T = TypeVar("T")
_OPERATIONS = {
    CreateMode.CREATE: "CREATE TABLE AS SELECT",
    CreateMode.CREATE_IF_NOT_EXISTS: "CREATE TABLE AS SELECT",
    CreateMode.REPLACE: "REPLACE TABLE AS SELECT",
    CreateMode.CREATE_OR_REPLACE: "CREATE OR REPLACE TABLE AS SELECT",
}


def table_builder(mode: CreateMode, opened: Callable[[DeltaState], T]) -> DeltaTableBuilder[T]:
    """Describe a table; what `execute` gives is what `opened` makes of it."""

    def execute(location: Location, definition: TableDefinition, mode: CreateMode) -> T:
        definition, plain = without_plain(definition)
        return opened(make(location, definition, system(), mode=mode, plain=plain))

    return DeltaTableBuilder(execute, mode)


def create_with(
    location: Location,
    definition: TableDefinition,
    rows: IncomingRows,
    env: Env,
    *,
    mode: CreateMode,
    options: CommitOptions | None = None,
    plain: bool = False,
    operation: str | None = None,
    parameters: Mapping[str, str] | None = None,
    stored_as: Mapping[str, str] | None = None,
) -> Written:
    """Make a table of rows, as the mode says; the version is None where there was one that stays.

    `operation` and `parameters` are what history tells of it, where that is not CREATE TABLE AS SELECT; `stored_as` are
    properties that count for these files only.
    """
    state = DeltaFormat(location).newest(None)
    if state is not None and mode is CreateMode.CREATE_IF_NOT_EXISTS:
        return Written(None, {}, 0)
    _refuse(location, state, mode)
    old = None if state is None else state.protocol
    shape = created(
        definition, env.new_uuid, plain=plain, old=None if state is None else DeltaFormat.definition_of(state)
    )
    fitted = fit(rows.schema(), shape.schema)
    spec = write_spec(
        shape.schema,
        shape.partition_columns,
        {**shape.properties, **(stored_as or {})},
        clustering=shape.clustering_columns or (),
        deletion_vectors="deletionVectors" in writer_features(protocol_for(shape, old=old)),
    )
    staged, marks = rows.store(fitted, demands(shape.schema, shape.properties, fitted), spec, location)
    if marks:
        shape = replace(shape, schema=advanced(shape.schema, marks))
    commit_options = options or CommitOptions()
    first = created_table(shape, None if state is None else state.snapshot)
    mutation = replace(
        first,
        operation=operation or _OPERATIONS[mode],
        parameters=first.parameters if parameters is None else parameters,
        metrics={
            "numFiles": staged.num_rows,
            "numOutputRows": pc.sum(staged.column("num_records")).as_py() or 0,
            "numOutputBytes": pc.sum(staged.column("size")).as_py() or 0,
        },
        added=staged,
        app=commit_options.app,
        user_metadata=commit_options.user_metadata,
    )
    landed = commit(DeltaFormat(location), state, mutation, env)
    return Written(landed.version, mutation.metrics, landed.attempts)


def _refuse(location: Location, state: DeltaState | None, mode: CreateMode) -> None:
    if state is None:
        if mode is CreateMode.REPLACE:
            raise NotATable(f"there is no table at {location.url} to replace: use create", location=location.url)
        return
    if mode is CreateMode.CREATE:
        raise Invalid(f"there is a table at {location.url} already: append to it, overwrite it, or use another path")
    check_writable(state.protocol, table=location.url)
    refuse_append_only(DeltaFormat.definition_of(state), location)
