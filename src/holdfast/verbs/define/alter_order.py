"""Where columns stand and whether they may be null, put together: look at the table, decide, commit.

1. A column becomes NOT NULL only after no row that is there was found to be null in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from holdfast.env import Env
from holdfast.formats.delta.protocol.features import check_writable
from holdfast.formats.delta.state import DeltaState
from holdfast.model.mutation import Mutation, TableDefinition
from holdfast.schema.constraints import quoted
from holdfast.verbs.define import columns as alter_columns
from holdfast.verbs.define.alter import Columns, TypeLike, columns_asked, commit_shape, refuse_violated, type_of
from holdfast.verbs.define.column_order import move_column, moved, set_nullable
from holdfast.verbs.dml.write import Written
from holdfast.verbs.open.delta_dialect import DELTA


def add_columns(state: DeltaState, columns: Columns, places: Mapping[str, str | None], env: Env) -> Written:
    """Add columns, some of them first (None) or after another one."""
    mutation = alter_columns.add_columns(DELTA.shape_of(state), columns_asked(columns), env.new_uuid)
    assert mutation.shape is not None, "new columns are a change of shape"
    schema = mutation.shape.schema
    for name, after in places.items():
        schema = moved(schema, name, after)
    return commit_shape(state, replace(mutation, shape=replace(mutation.shape, schema=schema)), env)


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """Where a column is to stand: after another one; None: first."""

    after: str | None


def redefine_column(
    state: DeltaState,
    name: str,
    env: Env,
    *,
    type_: TypeLike | None = None,
    comment: str | None = None,
    place: ColumnPlace | None = None,
) -> Written:
    """Change the type of a column, what it is for, and where it stands: what is None stays."""
    wishes: list[Callable[[TableDefinition, str], Mutation]] = []
    if type_ is not None:
        new = type_of(name, type_)
        wishes.append(lambda shape, column: alter_columns.change_type(shape, column, new))
    if comment is not None:
        wishes.append(lambda shape, column: alter_columns.comment_column(shape, column, comment))
    if place is not None:
        wishes.append(lambda shape, column: move_column(shape, column, place.after))
    return commit_shape(state, alter_columns.redefine_column(DELTA.shape_of(state), name, wishes), env)


def drop_not_null(state: DeltaState, name: str, env: Env) -> Written:
    """Let a column be null."""
    return commit_shape(state, set_nullable(DELTA.shape_of(state), name, True), env)


def set_not_null(state: DeltaState, name: str, env: Env, *, zone: str = "UTC") -> Written:
    """Let a column be null no more, if it never is."""
    mutation = set_nullable(DELTA.shape_of(state), name, False)
    check_writable(state.protocol, table=state.snapshot.location.url)
    path = alter_columns.path_of(state.snapshot.schema, name)
    if len(state.snapshot.files):
        refuse_violated(state.snapshot, f"NOT NULL of {name}", f"{'.'.join(map(quoted, path))} IS NOT NULL", zone)
    return commit_shape(state, mutation, env)
