"""Computes the new column values of rows that clauses change, as column expressions.

1. A value is computed only for rows to which its clause applies: it cannot fail on other rows.
2. Each value is converted to its column's type as an assignment in SQL is, whatever other clauses assign to the column.
3. A generated column that nobody assigns is computed again from the new values; identity numbers stay.
4. A field of a struct is set and its neighbours kept; where the struct is null, they are null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.engines.spark.dml.constraints import checked, converted
from holdfast.engines.spark.dml.stored import refuse_shadowed
from holdfast.engines.spark.dml.task import UPDATED
from holdfast.engines.spark.types import named, spark_to_struct, spark_type
from holdfast.plan.dml.change import Set, Side, Work
from holdfast.schema.constraints import demands, quoted
from holdfast.schema.enforce import GENERATION, Assignment, How, fit, generation_of, refuse_incomplete
from holdfast.schema.identity import without_identity
from holdfast.schema.mapping import fields_along
from holdfast.schema.types import Field, Struct


@dataclass(frozen=True)
class Assigned:
    """Rows with the table's columns by name, and where each column as it was can be found."""

    frame: DataFrame
    before: Mapping[str, str]


def assigned(
    rows: DataFrame, work: Work, *, alias: str, clause: str, does: Column, beside: Sequence[Column] = ()
) -> Assigned:
    """The rows with the columns of `work.schema`; other columns whose names start with `__hf_` come along, and `beside`
    are columns made of those that values may name too."""
    assert work.store is not None, "columns are made where rows are stored"
    fields = work.schema.fields
    known = {f.name: f for f in work.target.snapshot.schema.fields}
    before = {f.name: f"__hf_o{i}" for i, f in enumerate(fields)}
    old = [
        (
            _grown(F.col(f"{quoted(alias)}.{quoted(f.name)}"), known[f.name], f)
            if f.name in known
            else F.lit(None).cast(spark_type(f.type))
        ).alias(before[f.name])
        for f in fields
    ]
    sets = [(number, _by_column(c.sets)) for number, c in enumerate(work.clauses) if c.sets is not None]
    own = [named(name) for name in rows.columns if name.startswith("__hf_")]
    joined = [(n, columns) for n, columns in sets if work.source is None or work.clauses[n].side is Side.MATCHED]
    flat = rows.select(*own, *old, *_values(joined, clause))
    if len(joined) < len(sets):
        # Rows that stand alone are told by the target's names only, which are ambiguous beside a source's.
        was = (named(before[f.name]).alias(f.name) for f in fields)
        alone = flat.select("*", *was, *beside).alias(alias)
        rest = [one for one in sets if one not in joined]
        flat = alone.select(*(named(name) for name in flat.columns), *_values(rest, clause))
    # A column that is set in every row that is written need not be read.
    values = {
        f.name: named(before[f.name])
        if work.keep or any(f.name not in columns for _, columns in sets)
        else F.lit(None).cast(spark_type(f.type))
        for f in fields
    }
    types = spark_to_struct(flat.schema)
    for number, columns in sets:
        places = {one.path: _value_name(number, at) for at, one in enumerate(_in_order(columns))}
        refuse_lacking(_in_order(columns), work.schema, {path: types.find(name) for path, name in places.items()})
        for name, parts in columns.items():
            f = _field(work.schema, name)
            value = _new_value(f, parts, places, types, before[name])
            values[name] = F.when(named(clause) == number, value).otherwise(values[name])
    frame = flat.select(*own, *(named(b) for b in before.values()), *(values[f.name].alias(f.name) for f in fields))
    frame = _generated(frame, work.schema, sets, clause, does)
    wanted = demands(work.schema, work.store.properties)
    return Assigned(checked(frame, fields, wanted, only=does == UPDATED), before)


def refuse_lacking(sets: Sequence[Set], schema: Struct, given: Mapping[tuple[str, ...], Field | None]) -> None:
    """Refuse values that lack fields of what they are for, unless they may; `given` has the columns they are in."""
    for one in sets:
        field = given[one.path]
        if one.complete and field is not None:
            refuse_incomplete(field.type, fields_along(schema, one.path)[-1].type, one.path)


def _values(sets: Sequence[tuple[int, Mapping[str, Sequence[Set]]]], clause: str) -> list[Column]:
    """The values of some clauses, each where its clause takes the row."""
    return [
        F.when(named(clause) == number, value_of(one.value)).alias(_value_name(number, at))
        for number, columns in sets
        for at, one in enumerate(_in_order(columns))
    ]


def _by_column(sets: Sequence[Set] | None) -> dict[str, list[Set]]:
    columns: dict[str, list[Set]] = {}
    for one in sets or ():
        columns.setdefault(one.path[0], []).append(one)
    return columns


def _in_order(columns: Mapping[str, Sequence[Set]]) -> list[Set]:
    return [one for parts in columns.values() for one in parts]


def _value_name(number: int, at: int) -> str:
    return f"__hf_v{number}_{at}"


def _new_value(
    f: Field, parts: Sequence[Set], places: Mapping[tuple[str, ...], str], types: Struct, before: str
) -> Column:
    """What a column becomes where a clause sets it, or fields inside of it."""
    if parts[0].path == (f.name,):
        return _fitted(f, places[parts[0].path], types)
    return _struct(f, (f.name,), places, types, named(before))


def _struct(
    f: Field, path: tuple[str, ...], places: Mapping[tuple[str, ...], str], types: Struct, old: Column
) -> Column:
    assert isinstance(f.type, Struct), "only a struct has fields to set"
    fields = []
    for inner in f.type.fields:
        here = (*path, inner.name)
        was = old.getField(inner.name)
        if here in places:
            fields.append(_fitted(inner, places[here], types).alias(inner.name))
        elif any(p[: len(here)] == here for p in places):
            fields.append(_struct(inner, here, places, types, was).alias(inner.name))
        else:
            fields.append(was.alias(inner.name))
    return F.struct(*fields)


def _grown(value: Column, was: Field, f: Field) -> Column:
    """A value as it was, of the type that the column has from now on: fields that came are null."""
    if spark_type(was.type) == spark_type(f.type):
        return value
    return converted(_way(was, f), value, f, f.name).cast(spark_type(f.type))


def _fitted(f: Field, place: str, types: Struct) -> Column:
    """The value in a column of the frame as a value of the field's type."""
    given = types.find(place)
    assert given is not None, "every value has its column"
    return converted(_way(given, f), named(place), f, f.name)


def _way(given: Field, f: Field) -> How:
    """How values of a column become values of a field."""
    plain = without_identity(replace(f, nullable=True))
    incoming = Struct((replace(given, name=f.name, nullable=True, metadata={}),))
    return fit(incoming, Struct((plain,)), assignment=Assignment.CAST).parts[0].how


def _generated(
    frame: DataFrame,
    schema: Struct,
    sets: Sequence[tuple[int, Mapping[str, Any]]],
    clause: str,
    does: Column,
) -> DataFrame:
    """Generated columns computed again in rows whose clause does not assign them."""
    computed = {f.name: generation_of(f, schema) for f in schema.fields if GENERATION in f.metadata}
    if not computed or not sets:
        return frame
    refuse_shadowed(frame.sparkSession, list(computed.values()))
    selected = []
    for name in frame.columns:
        if name not in computed:
            selected.append(named(name))
            continue
        given = [number for number, columns in sets if name in columns]
        again = (does == UPDATED) & (~named(clause).isin(given) if given else F.lit(True))
        value = F.expr(computed[name].sql).cast(spark_type(_field(schema, name).type))
        selected.append(F.when(again, value).otherwise(named(name)).alias(name))
    return frame.select(*selected)


def _field(schema: Struct, name: str) -> Field:
    field = schema.find(name)
    assert field is not None, f"{name} is a column of the table"
    return field


def value_of(expression: Any) -> Column:
    """What a user gave, SQL text or a Column, as a Column."""
    return F.expr(expression) if isinstance(expression, str) else expression
