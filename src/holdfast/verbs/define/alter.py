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
    """Changes of a Delta table, on top of a version of it."""

    state: DeltaState
    env: Env

    @property
    def definition(self) -> TableDefinition:
        return DeltaFormat.definition_of(self.state)

    def set_properties(self, properties: Mapping[str, str]) -> Written:
        """Set properties, and enable the features that are among them."""
        rest, versions = least_versions(properties)
        mutation = alter.set_properties(self.state.snapshot, self.definition, rest)
        assert mutation.shape is not None, "a change of properties is one of shape"
        refuse_lower(protocol_for(mutation.shape, old=self.state.protocol), versions)
        return self._commit(mutation)

    def unset_properties(self, names: Sequence[str], *, if_exists: bool = False) -> Written:
        """Remove properties; one that the table does not have is refused unless `if_exists`."""
        listed = [names] if isinstance(names, str) else list(names)
        return self._commit(alter.unset_properties(self.state.snapshot, self.definition, listed, if_exists=if_exists))

    def add_columns(self, columns: Columns, places: Mapping[str, str | None] | None = None) -> Written:
        """Add columns that old rows are null in; `places` puts some of them first (None) or after another one."""
        mutation = alter_columns.add_columns(self.definition, new_columns(columns), self.env.new_uuid)
        assert mutation.shape is not None, "new columns are a change of shape"
        schema = mutation.shape.schema
        for name, after in (places or {}).items():
            schema = moved(schema, name, after)
        return self._commit(replace(mutation, shape=replace(mutation.shape, schema=schema)))

    def replace_columns(self, columns: Columns) -> Written:
        """Replace all columns."""
        return self._commit(replacing(self.definition, new_columns(columns), self.env.new_uuid))

    def rename_column(self, name: str, new_name: str) -> Written:
        """Give a column another name."""
        return self._commit(alter_columns.rename_column(self.definition, name, new_name))

    def drop_columns(self, names: Sequence[str]) -> Written:
        """Remove columns."""
        return self._commit(alter_columns.drop_columns(self.definition, names))

    def comment_column(self, name: str, comment: str | None) -> Written:
        """Set or remove a column's comment."""
        return self._commit(alter_columns.comment_column(self.definition, name, comment))

    def redefine_column(
        self,
        name: str,
        *,
        type_: TypeLike | None = None,
        comment: str | None = None,
        place: ColumnPlace | None = None,
    ) -> Written:
        """Change the type, the comment and the place of a column; what is None stays."""
        wishes: list[Callable[[TableDefinition, str], Mutation]] = []
        if type_ is not None:
            new = type_of(name, type_)
            wishes.append(lambda shape, column: alter_columns.change_type(shape, column, new))
        if comment is not None:
            wishes.append(lambda shape, column: alter_columns.comment_column(shape, column, comment))
        if place is not None:
            wishes.append(lambda shape, column: move_column(shape, column, place.after))
        return self._commit(alter_columns.redefine_column(self.definition, name, wishes))

    def default_column(self, name: str, expression: str | None) -> Written:
        """Set or remove a column's default."""
        return self._commit(alter_columns.default_column(self.definition, name, expression))

    def add_constraint(
        self,
        name: str,
        expression: str,
        *,
        zone: str = "UTC",
        engine: Engine[object] = LOCAL,
    ) -> Written:
        """Add a CHECK constraint, if the rows that are there satisfy it."""
        mutation = alter.add_constraint(self.definition, name, expression)
        check_writable(self.state.protocol, table=self.state.snapshot.location.url)
        if len(self.state.snapshot.files):
            refuse_violated(self.state, mutation.parameters["name"], expression, zone, engine)
        return self._commit(mutation)

    def drop_constraint(self, name: str, *, if_exists: bool = False) -> Written:
        """Remove a constraint."""
        return self._commit(alter.drop_constraint(self.definition, name, if_exists=if_exists))

    def drop_not_null(self, name: str) -> Written:
        """Allow nulls in a column."""
        return self._commit(set_nullable(self.definition, name, True))

    def set_not_null(self, name: str, *, zone: str = "UTC") -> Written:
        """Forbid nulls in a column, if it has none."""
        mutation = set_nullable(self.definition, name, False)
        check_writable(self.state.protocol, table=self.state.snapshot.location.url)
        path = alter_columns.path_of(self.state.snapshot.schema, name)
        if len(self.state.snapshot.files):
            refuse_violated(self.state, f"NOT NULL of {name}", f"{'.'.join(map(quoted, path))} IS NOT NULL", zone)
        return self._commit(mutation)

    def cluster_by(self, names: Sequence[str]) -> Written:
        """Cluster the table by columns, or by none."""
        return self._commit(alter.cluster_by(self.definition, names))

    def add_feature_support(self, name: str) -> Written:
        """Enable a table feature."""
        if name not in WRITABLE:
            close = difflib.get_close_matches(name, WRITABLE, n=1, cutoff=0.6)
            hint = f": did you mean {close[0]}?" if close else f": it writes {', '.join(sorted(WRITABLE))}"
            raise Unsupported(f"Holdfast knows no feature {name!r} that it could write{hint}", features=(name,))
        definition = alter.add_feature(self.definition, name, {}).shape
        assert definition is not None, "asking for a feature is a change of shape"
        protocol = msgspec.to_builtins(protocol_for(definition, old=self.state.protocol))
        return self._commit(alter.add_feature(self.definition, name, protocol))

    def _commit(self, mutation: Mutation) -> Written:
        return commit_shape(self.state, mutation, self.env)


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
