"""Changes the columns, properties, constraints and features of a Delta table.

1. Each change is one commit; one that is true already is none.
2. A constraint is added only after every row that is there was found to satisfy it; so is NOT NULL.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from holdfast.env import Env
from holdfast.errors import ConstraintViolated, Unsupported
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.protocol.features import WRITABLE, check_writable, reader_features, writer_features
from holdfast.formats.delta.protocol.upgrade import protocol_for, refuse_lower
from holdfast.formats.delta.state import DeltaState
from holdfast.model.mutation import Mutation, TableDefinition
from holdfast.plan.engine import Engine
from holdfast.plan.scan.request import Condition, Request
from holdfast.predicate.parse import parse
from holdfast.predicate.records import columns_of, has_opaque, untrue
from holdfast.schema.constraints import quoted, references
from holdfast.schema.requests import least_versions
from holdfast.verbs.define import columns as alter_columns
from holdfast.verbs.define import properties as alter
from holdfast.verbs.define.alteration import Columns, TypeLike, new_columns, type_of
from holdfast.verbs.define.column_order import move_column, moved, set_nullable
from holdfast.verbs.define.replace_columns import replace_columns as replacing
from holdfast.verbs.dml.write import Written
from holdfast.verbs.open.delta import open_delta
from holdfast.verbs.open.engine import LOCAL


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """Where a column is to stand: after another one; None: first."""

    after: str | None


@dataclass(frozen=True)
class DeltaAlteration:
    """Changes of a Delta table's columns and properties."""

    state: DeltaState
    env: Env

    def set_properties(self, properties: Mapping[str, str]) -> Written:
        return set_properties(self.state, properties, self.env)

    def unset_properties(self, names: Sequence[str], *, if_exists: bool) -> Written:
        return unset_properties(self.state, names, self.env, if_exists=if_exists)

    def add_columns(self, columns: Columns) -> Written:
        return add_columns(self.state, columns, self.env)

    def rename_column(self, name: str, new_name: str) -> Written:
        return rename_column(self.state, name, new_name, self.env)

    def drop_columns(self, names: Sequence[str]) -> Written:
        return drop_columns(self.state, names, self.env)

    def comment_column(self, name: str, comment: str | None) -> Written:
        return comment_column(self.state, name, comment, self.env)

    def redefine_column(self, name: str, *, type_: TypeLike | None = None, comment: str | None = None) -> Written:
        return redefine_column(self.state, name, self.env, type_=type_, comment=comment)


def set_properties(state: DeltaState, properties: Mapping[str, str], env: Env) -> Written:
    """Set properties, and have the features asked for among them."""
    rest, versions = least_versions(properties)
    mutation = alter.set_properties(state.snapshot, DeltaFormat.definition_of(state), rest)
    assert mutation.shape is not None, "a change of properties is one of shape"
    refuse_lower(protocol_for(mutation.shape, old=state.protocol), versions)
    return commit_shape(state, mutation, env)


def unset_properties(state: DeltaState, names: Sequence[str], env: Env, *, if_exists: bool = False) -> Written:
    """Take properties away."""
    listed = [names] if isinstance(names, str) else list(names)
    definition = DeltaFormat.definition_of(state)
    return commit_shape(state, alter.unset_properties(state.snapshot, definition, listed, if_exists=if_exists), env)


def add_columns(
    state: DeltaState, columns: Columns, env: Env, places: Mapping[str, str | None] | None = None
) -> Written:
    """Add columns that old rows are null in; `places` puts some of them first (None) or after another one."""
    mutation = alter_columns.add_columns(DeltaFormat.definition_of(state), new_columns(columns), env.new_uuid)
    assert mutation.shape is not None, "new columns are a change of shape"
    schema = mutation.shape.schema
    for name, after in (places or {}).items():
        schema = moved(schema, name, after)
    return commit_shape(state, replace(mutation, shape=replace(mutation.shape, schema=schema)), env)


def replace_columns(state: DeltaState, columns: Columns, env: Env) -> Written:
    """Let the table have these columns and no others."""
    return commit_shape(state, replacing(DeltaFormat.definition_of(state), new_columns(columns), env.new_uuid), env)


def rename_column(state: DeltaState, old: str, new: str, env: Env) -> Written:
    """Give a column another name."""
    return commit_shape(state, alter_columns.rename_column(DeltaFormat.definition_of(state), old, new), env)


def drop_columns(state: DeltaState, names: Sequence[str], env: Env) -> Written:
    """Take columns away."""
    return commit_shape(state, alter_columns.drop_columns(DeltaFormat.definition_of(state), names), env)


def comment_column(state: DeltaState, name: str, text: str | None, env: Env) -> Written:
    """Say what a column is for."""
    return commit_shape(state, alter_columns.comment_column(DeltaFormat.definition_of(state), name, text), env)


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
    return commit_shape(state, alter_columns.redefine_column(DeltaFormat.definition_of(state), name, wishes), env)


def default_column(state: DeltaState, name: str, expression: str | None, env: Env) -> Written:
    """Say what a column is where rows bring nothing for it."""
    return commit_shape(state, alter_columns.default_column(DeltaFormat.definition_of(state), name, expression), env)


def add_constraint(
    state: DeltaState,
    name: str,
    expression: str,
    env: Env,
    *,
    zone: str = "UTC",
    engine: Engine[object] = LOCAL,
) -> Written:
    """Demand an expression of every row, if those that are there satisfy it."""
    mutation = alter.add_constraint(DeltaFormat.definition_of(state), name, expression)
    check_writable(state.protocol, table=state.snapshot.location.url)
    if len(state.snapshot.files):
        refuse_violated(state, mutation.parameters["name"], expression, zone, engine)
    return commit_shape(state, mutation, env)


def drop_constraint(state: DeltaState, name: str, env: Env, *, if_exists: bool = False) -> Written:
    """Demand no more what a constraint said."""
    return commit_shape(state, alter.drop_constraint(DeltaFormat.definition_of(state), name, if_exists=if_exists), env)


def drop_not_null(state: DeltaState, name: str, env: Env) -> Written:
    """Let a column be null."""
    return commit_shape(state, set_nullable(DeltaFormat.definition_of(state), name, True), env)


def set_not_null(state: DeltaState, name: str, env: Env, *, zone: str = "UTC") -> Written:
    """Let a column be null no more, if it never is."""
    mutation = set_nullable(DeltaFormat.definition_of(state), name, False)
    check_writable(state.protocol, table=state.snapshot.location.url)
    path = alter_columns.path_of(state.snapshot.schema, name)
    if len(state.snapshot.files):
        refuse_violated(state, f"NOT NULL of {name}", f"{'.'.join(map(quoted, path))} IS NOT NULL", zone)
    return commit_shape(state, mutation, env)


def cluster_by(state: DeltaState, names: Sequence[str], env: Env) -> Written:
    """Cluster the table by columns, or by none."""
    return commit_shape(state, alter.cluster_by(DeltaFormat.definition_of(state), names), env)


def add_feature_support(state: DeltaState, name: str, env: Env) -> Written:
    """Let the table have a feature."""
    if name not in WRITABLE:
        close = difflib.get_close_matches(name, WRITABLE, n=1, cutoff=0.6)
        hint = f": did you mean {close[0]}?" if close else f": it writes {', '.join(sorted(WRITABLE))}"
        raise Unsupported(f"Holdfast knows no feature {name!r} that it could write{hint}", features=(name,))
    shape = DeltaFormat.definition_of(state)
    definition = alter.add_feature(shape, name, {}).shape
    assert definition is not None, "asking for a feature is a change of shape"
    protocol = msgspec.to_builtins(protocol_for(definition, old=state.protocol))
    return commit_shape(state, alter.add_feature(shape, name, protocol), env)


def commit_shape(state: DeltaState, mutation: Mutation, env: Env) -> Written:
    """Commit a change of what a table is, unless it is true already."""
    location = state.snapshot.location
    check_writable(state.protocol, table=location.url)
    shape, now = mutation.shape, DeltaFormat.definition_of(state)
    assert shape is not None, "a change of what a table is has a shape"
    has = reader_features(state.protocol) | writer_features(state.protocol)
    if shape.features <= has and replace(shape, features=now.features) == now:
        return Written(None, {}, 0)
    if shape.clustering_columns == now.clustering_columns:
        # Clustering is not in the metadata: said again after a lost race, it would undo a winner's.
        mutation = replace(mutation, shape=replace(shape, clustering_columns=None))
    landed = open_delta(state).commit(mutation, env)
    return Written(landed.version, mutation.metrics, landed.attempts)


def refuse_violated(state: DeltaState, name: str, expression: str, zone: str, engine: Engine[object] = LOCAL) -> None:
    """Refuse a constraint that some row breaks; only files whose statistics leave it open are read.

    Where Spark alone understands the expression, the engine reads every row.
    """
    schema = state.snapshot.schema
    predicate = parse(expression, schema, zone=zone)
    if has_opaque(predicate):
        if not engine.understands(predicate):
            raise Unsupported(
                f"whether the rows that are there satisfy the constraint {name} ({expression}) is checked with Spark: "
                "open the table with a session, or compare columns with literals"
            )
        text = f"NOT coalesce(({expression}), false)"
        broken, columns = engine.condition(text, schema), list(references(expression, schema))
    else:
        broken = Condition(expression, f"NOT ({expression})", untrue(predicate))
        columns, engine = sorted({column[0] for column in columns_of(predicate)}), LOCAL
    rows = engine.first_row(*open_delta(state).plan(Request(columns or None, broken)))
    if rows.num_rows:
        row = ", ".join(f"{k}={'null' if v is None else v}" for k, v in rows.to_pylist()[0].items())
        raise ConstraintViolated(
            f"the constraint {name} ({expression}) is broken by the row {row}, which is in the table: change the rows "
            "or the constraint; nothing was written",
            constraint=name,
            row=row,
        ).named("DELTA_NEW_CHECK_CONSTRAINT_VIOLATION")
