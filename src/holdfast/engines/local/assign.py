"""Computes the new values of rows that a clause updates, copies or inserts, with Arrow.

1. The result has the columns of the table once the change is committed, in their order.
2. A value is converted to its column's type as an assignment in SQL is, and computed only for rows its clause takes.
3. Constraints are checked for changed and new rows, and not again for copied rows.
4. A field of a struct is set and its neighbours kept; where the struct is null, they are null.
5. Identity numbers of changed rows stay; only Spark computes a generated column again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.engines.local.constraints import PreparedRows, prepare
from holdfast.engines.local.expressions.evaluable import Evaluable, Scope, conversion
from holdfast.engines.local.expressions.evaluate import evaluable
from holdfast.errors import Invalid, Unsupported
from holdfast.plan.dml.change import Set
from holdfast.schema.arrow import arrow_type
from holdfast.schema.casts import is_assignable
from holdfast.schema.constraints import Demand, DemandKind, demands, references
from holdfast.schema.enforce import DEFAULT, GENERATION, Assignment, Fit, fit, refuse_incomplete
from holdfast.schema.identity import without_identity
from holdfast.schema.mapping import fields_along
from holdfast.schema.types import WRITE_DEFAULT, DataType, Field, Struct


@dataclass(frozen=True)
class Recipe:
    """How columns of a table are made from batches."""

    columns: tuple[tuple[Field, Evaluable], ...]
    fit: Fit
    demands: tuple[Demand, ...]
    zone: str

    @property
    def needs(self) -> frozenset[str]:
        """The columns of a batch that it reads."""
        return frozenset[str]().union(*(value.columns for _, value in self.columns))

    def made(self, batch: pa.RecordBatch) -> PreparedRows:
        """The rows of a batch as rows of the table."""
        arrays = [value(batch) for _, value in self.columns]
        names = [f.name for f, _ in self.columns]
        if not arrays:  # a row of defaults still is a row
            arrays, names = [pa.nulls(batch.num_rows)], ["none"]
        return prepare(pa.Table.from_arrays(arrays, names), self.fit, self.demands, zone=self.zone)


def copied(target: Scope, schema: Struct) -> Recipe:
    """Rows as they were, with the columns of the schema; added ones are null."""
    loose = Struct(tuple(Field(f.name, f.type) for f in schema.fields))
    columns = tuple((f, _column(target, f)) for f in schema.fields if target.schema.find(f.name) is not None)
    return _ready(columns, fit(_incoming(columns), loose), (), "UTC")


def updated(
    sets: Sequence[Set], relations: Sequence[Scope], schema: Struct, properties: Mapping[str, str], *, zone: str
) -> Recipe:
    """Rows of the target, which is the first relation, with some columns set."""
    target = relations[0]
    values = _values(sets, relations, schema, zone)
    _refuse_stale(schema, {path[0] for path in values})
    columns = []
    for f in schema.fields:
        old = _column(target, f) if target.schema.find(f.name) is not None else None
        value = _made(f, (f.name,), values, old, zone)
        if value is not None:
            columns.append((f, value))
    plain = Struct(tuple(_holding(f) for f in schema.fields))
    fitted = fit(_incoming(columns), plain, assignment=Assignment.ANSI)
    kept = {f.name for f in schema.fields if GENERATION in f.metadata and (f.name,) not in values}
    wanted = [d for d in demands(schema, properties, fitted) if not (d.kind is DemandKind.GENERATED and d.name in kept)]
    return _ready(columns, fitted, wanted, zone)


def inserted(sets: Sequence[Set], source: Scope, schema: Struct, properties: Mapping[str, str], *, zone: str) -> Recipe:
    """New rows: what is not set has its default, its number, or null."""
    values = _values(sets, [source], schema, zone)
    values_by_field = [(f, _made(f, (f.name,), values, None, zone)) for f in schema.fields]
    columns = tuple((f, value) for f, value in values_by_field if value is not None)
    fitted = fit(_incoming(columns), schema, assignment=Assignment.ANSI)
    return _ready(columns, fitted, demands(schema, properties, fitted), zone)


def _ready(columns: Sequence[tuple[Field, Evaluable]], fitted: Fit, wanted: Sequence[Demand], zone: str) -> Recipe:
    """A recipe that refuses what it cannot make or check before it sees a row."""
    recipe = Recipe(tuple(columns), fitted, tuple(wanted), zone)
    nothing = pa.schema([(f.name, arrow_type(value.type)) for f, value in columns]).empty_table()
    prepare(nothing, fitted, recipe.demands, zone=zone)
    return recipe


def _values(
    sets: Sequence[Set], relations: Sequence[Scope], schema: Struct, zone: str
) -> dict[tuple[str, ...], Evaluable]:
    values = {one.path: evaluable(one.value, relations, zone=zone) for one in sets}
    for one in sets:
        if one.complete:
            refuse_incomplete(values[one.path].type, fields_along(schema, one.path)[-1].type, one.path)
    for path in values:
        around = next((path[:n] for n in range(1, len(path)) if path[:n] in values), None)
        if around is not None or sum(one.path == path for one in sets) > 1:
            raise Invalid(f"{'.'.join(around or path)} is set twice: set it, or fields inside of it, once")
    return values


def _made(
    f: Field, path: tuple[str, ...], values: Mapping[tuple[str, ...], Evaluable], old: Evaluable | None, zone: str
) -> Evaluable | None:
    """A column, or a field inside of one, after the assignments; None where it has no value yet."""
    if path in values:
        return _assigned(values[path], f.type, zone)
    if not any(set_[: len(path)] == path for set_ in values):
        return old
    assert isinstance(f.type, Struct), "only a struct has fields to set"
    below = [(g, _made(g, (*path, g.name), values, _field(old, g.name), zone)) for g in f.type.fields]
    parts = [(g.name, value) for g, value in below if value is not None]
    fields = [pa.field(name, pa.null()) for name, _ in parts]

    def run(batch: pa.RecordBatch) -> pa.Array:
        arrays = [value(batch) for _, value in parts]
        typed = [one.with_type(array.type) for one, array in zip(fields, arrays, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=typed)

    type_ = Struct(tuple(Field(name, value.type) for name, value in parts))
    columns = frozenset[str]().union(*(value.columns for _, value in parts))
    return Evaluable(type_, columns, run, ".".join(path))


def _assigned(value: Evaluable, type_: DataType, zone: str) -> Evaluable:
    """The value as the column's type; what cannot be assigned is left for the fit to name with all its like."""
    return (conversion(value, type_, zone) if is_assignable(value.type, type_) else None) or value


def _field(struct: Evaluable | None, name: str) -> Evaluable | None:
    field = struct.type.find(name) if struct is not None and isinstance(struct.type, Struct) else None
    if struct is None or field is None:
        return None
    run, step = struct.run, field.name
    return Evaluable(field.type, struct.columns, lambda batch: pc.struct_field(run(batch), [step]), struct.text)


def _column(relation: Scope, f: Field) -> Evaluable:
    own = relation.schema.find(f.name)
    assert own is not None, "it was found before"
    name = relation.prefix + own.name
    return Evaluable(own.type, frozenset((name,)), lambda batch: batch.column(name), f.name)


def _incoming(columns: Sequence[tuple[Field, Evaluable]]) -> Struct:
    return Struct(tuple(Field(f.name, value.type) for f, value in columns))


def _holding(f: Field) -> Field:
    """The column as one that holds what it is given, and null where it is given nothing."""
    kept = without_identity(f)
    return replace(kept, metadata={k: v for k, v in kept.metadata.items() if k not in (DEFAULT, WRITE_DEFAULT)})


def _refuse_stale(schema: Struct, assigned: set[str]) -> None:
    for f in schema.fields:
        if GENERATION in f.metadata and f.name not in assigned:
            expression = str(f.metadata[GENERATION])
            if assigned & set(references(expression, schema)):
                raise Unsupported(
                    f"only Spark can compute the generated column {f.name} ({expression}) again: set it as well, "
                    "or use a Spark session"
                )
