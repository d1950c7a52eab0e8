"""Converts rows to a table's columns and checks its constraints, with Arrow.

It gives the same rows and the same errors as `engines.spark.dml.constraints`. What only Spark can evaluate is refused
before a row is read.

1. The result has the table's columns, in the table's order, with the types of `schema.arrow`, nullable at every depth.
2. The error about a row that breaks a constraint names the constraint and shows the row's values.
3. Defaults are literals; only Spark computes generated columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import ConstraintViolated, Invalid, Unsupported
from holdfast.predicate.evaluate import as_scalar, matches
from holdfast.predicate.parse import parse
from holdfast.predicate.records import Compare, IsNull, Op, Predicate, has_opaque
from holdfast.schema.arrow import arrow_type
from holdfast.schema.constraints import Demand, DemandKind, longest, quoted
from holdfast.schema.enforce import (
    Cast,
    Default,
    Elements,
    Fields,
    Fit,
    FittedField,
    Generated,
    GivenValue,
    How,
    MapEntries,
    Null,
    Numbered,
    Same,
)
from holdfast.schema.expressions import StoredExpression
from holdfast.schema.identity import IdentityColumn
from holdfast.schema.show import type_text
from holdfast.schema.types import Array, DataType, Field, Map, Primitive, Struct

_SHOWN_COLUMNS = 20
_SHOWN_CHARACTERS = 100
_INTEGERS = frozenset(("byte", "short", "integer", "long"))


@dataclass(frozen=True)
class PreparedRows:
    """Rows ready to be written, and the furthest number handed out per identity column."""

    table: pa.Table
    marks: Mapping[str, int]


def prepare(rows: pa.Table, fit: Fit, demands: Sequence[Demand] = (), *, zone: str = "UTC") -> PreparedRows:
    """Incoming rows as rows of the table, checked; `zone` is where times without one are."""
    schema = Struct(tuple(p.field for p in fit.parts))
    own = (DemandKind.NOT_NULL, DemandKind.LENGTH)
    predicates = [(d, _predicate(d, schema, zone)) for d in demands if d.kind not in own]
    rows = rows.combine_chunks()
    columns = [_made(p, rows, zone) for p in fit.parts]
    table = pa.Table.from_arrays(columns, names=list(schema.names))
    _check_nulls(table, schema, demands)
    _check_lengths(table, schema, demands)
    for demand, predicate in predicates:
        held = matches(table, predicate)
        if not pc.all(held, min_count=0).as_py():
            raise _violation(table, demand, pc.index(held, False).as_py())
    return PreparedRows(table, _marks(fit, rows.num_rows))


def _predicate(demand: Demand, schema: Struct, zone: str) -> Predicate:
    predicate = parse(demand.sql, schema, zone=zone)
    if has_opaque(predicate):
        raise Unsupported(
            f"only Spark can check the {demand.title} ({demand.expression}): write to this table with a Spark session"
        )
    return predicate


def _marks(fit: Fit, count: int) -> dict[str, int]:
    numbered = [p.how.identity for p in fit.parts if isinstance(p.how, Numbered)]
    return {identity.name: identity.last_of(count) for identity in numbered} if count else {}


def _made(part: FittedField, rows: pa.Table, zone: str) -> pa.Array:
    count = rows.num_rows
    match part.how:
        case Numbered(identity):
            return _numbers(identity, count)
        case Default(expression):
            return _default(part.field, expression, count, zone)
        case GivenValue(value):
            return _repeated(value, part.field.type, count)
        case Generated(expression):
            raise Unsupported(
                f"only Spark can compute the generated column {part.field.name} ({expression.text}): "
                "write with a session"
            )
        case _ if part.source is None:
            return pa.nulls(count, _nullable(arrow_type(part.field.type)))
        case _:
            return _value(part.how, _whole(rows.column(part.source)), part.field.type, part.field.name)


def _numbers(identity: IdentityColumn, count: int) -> pa.Array:
    if not count:
        return pa.array([], pa.int64())
    identity.last_of(count)  # refuses to run over
    return pa.array(identity.next_value + identity.step * np.arange(count, dtype=np.int64))


def _default(f: Field, expression: StoredExpression, count: int, zone: str) -> pa.Array:
    """The literal a default spells, as the parser reads it where the column is compared with it."""
    match parse(f"{quoted(f.name)} <=> ({expression.sql})", Struct((f,)), zone=zone):
        case IsNull():
            return pa.nulls(count, _nullable(arrow_type(f.type)))
        case Compare(Op.SAME, column, value):
            return pa.repeat(as_scalar(value, arrow_type(f.type), column), count)
        case _:
            raise Unsupported(
                f"only Spark can compute the default of the column {f.name} ({expression.text}): give it a value, "
                "or write with a session"
            )


def _repeated(value: Any, type_: DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, _nullable(arrow_type(type_))), count)


def _value(how: How, array: pa.Array, type_: DataType, where: str) -> pa.Array:
    match how:
        case Same():
            return _stored(array, type_, where)
        case Cast(to, lossless):
            if not lossless and not (_is_integer(to) and pa.types.is_integer(array.type)):
                raise Unsupported(f"only Spark converts {where} from {array.type} to {type_text(to)}: cast it first")
            return _stored(array, to, where)
        case Fields(parts):
            assert isinstance(type_, Struct), "fields make a struct"
            fields = [_field(part, array, where) for part in parts]
            target = _nullable(arrow_type(type_))
            return pa.StructArray.from_arrays(fields, fields=list(target.fields), mask=pc.is_null(array))
        case Elements(each):
            assert isinstance(type_, Array), "elements make a list"
            array = _plain_list(array)
            start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
            inner = _value(each, array.values.slice(start, stop - start), type_.element, f"{where}.element")
            target = pa.list_(pa.field("element", inner.type))
            return pa.ListArray.from_arrays(_from_zero(array), inner, type=target, mask=pc.is_null(array))
        case MapEntries(key, value):
            assert isinstance(type_, Map), "entries make a map"
            start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
            keys = _value(key, array.keys.slice(start, stop - start), type_.key, f"{where}.key")
            values = _value(value, array.items.slice(start, stop - start), type_.value, f"{where}.value")
            target = pa.map_(keys.type, pa.field("value", values.type))
            return pa.MapArray.from_arrays(_from_zero(array), keys, values, type=target, mask=pc.is_null(array))
        case GivenValue(value):
            return _repeated(value, type_, len(array))
        case Null():
            return pa.nulls(len(array), _nullable(arrow_type(type_)))
        case Default() | Generated() | Numbered():
            raise AssertionError("only a column of the table has a default, is generated or numbered")


def _field(part: FittedField, struct: pa.StructArray, where: str) -> pa.Array:
    below = f"{where}.{part.field.name}"
    inner = struct if part.source is None else pc.struct_field(struct, [part.source])
    return _value(part.how, inner, part.field.type, below)


def _stored(array: pa.Array, type_: DataType, where: str) -> pa.Array:
    """Values as the Arrow type a table holds them in; a value that does not fit is refused."""
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    target = _nullable(arrow_type(type_))
    try:
        return array if array.type == target else array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Invalid(f"a value of {where} does not fit {type_text(type_)}: {error}") from error


def _check_nulls(table: pa.Table, schema: Struct, demands: Sequence[Demand]) -> None:
    for demand in demands:
        if demand.kind is not DemandKind.NOT_NULL:
            continue
        f = schema.find(demand.columns[0])
        assert f is not None, f"the {demand.title} is about a column of the table"
        steps = () if demand.name == f.name else _steps(f, demand.name)
        column = _whole(table.column(f.name))
        rows = np.flatnonzero(pc.is_null(column)) if not steps else _null_rows(column, f.type, steps)
        if len(rows):
            raise _violation(table, demand, int(rows[0]))


def _check_lengths(table: pa.Table, schema: Struct, demands: Sequence[Demand]) -> None:
    for demand in demands:
        if demand.kind is not DemandKind.LENGTH:
            continue
        f = schema.find(demand.columns[0])
        assert f is not None, f"the {demand.title} is about a column of the table"
        too_long = pc.greater(pc.utf8_length(_whole(table.column(f.name))), longest(f))
        if pc.any(too_long).as_py():
            raise _violation(table, demand, pc.index(too_long, True).as_py())


def _steps(f: Field, path: str) -> tuple[str, ...]:
    """The way from a column to a value inside of it, taken along the types: names may have dots in them."""
    rest, type_, steps = path.removeprefix(f.name + "."), f.type, []
    while rest:
        step, inner = next((n, t) for n, t in _children(type_) if rest == n or rest.startswith(n + "."))
        steps.append(step)
        rest, type_ = rest[len(step) + 1 :], inner
    return tuple(steps)


def _children(type_: DataType) -> list[tuple[str, DataType]]:
    match type_:
        case Struct(fields):
            return sorted(((f.name, f.type) for f in fields), key=lambda child: -len(child[0]))
        case Array(element, _):
            return [("element", element)]
        case Map(key, value, _):
            return [("key", key), ("value", value)]
        case _:
            return []


def _null_rows(array: pa.Array, type_: DataType, steps: tuple[str, ...]) -> np.ndarray:
    """The rows in which a value inside is null though everything around it is there."""
    step, *below = steps
    rows: np.ndarray
    match type_:
        case Struct():
            rows = np.flatnonzero(pc.is_valid(array))
            inner = pc.struct_field(array, [step]).take(pa.array(rows))
        case Array():
            rows = pc.list_parent_indices(_plain_list(array)).to_numpy()
            inner = pc.list_flatten(_plain_list(array))
        case Map():
            lists = pa.ListArray.from_arrays(_from_zero(array), _entries(array, step), mask=pc.is_null(array))
            rows, inner = pc.list_parent_indices(lists).to_numpy(), pc.list_flatten(lists)
        case _:
            raise AssertionError(f"{type_text(type_)} has nothing inside")
    inner_type = dict(_children(type_))[step]
    nulls = np.flatnonzero(pc.is_null(inner)) if not below else _null_rows(inner, inner_type, tuple(below))
    return rows[nulls]


def _entries(array: pa.MapArray, step: str) -> pa.Array:
    start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return (array.keys if step == "key" else array.items).slice(start, stop - start)


def _violation(table: pa.Table, demand: Demand, row: int) -> ConstraintViolated:
    names = sorted(table.column_names, key=lambda name: name not in demand.columns)[:_SHOWN_COLUMNS]
    values = {name: table.column(name)[row].as_py() for name in names}
    shown = ", ".join(f"{name}={_text(value)[:_SHOWN_CHARACTERS]}" for name, value in values.items())
    return ConstraintViolated(
        f"the {demand.title} ({demand.expression}) is broken by the row {shown}; nothing was written",
        constraint=demand.name,
        row=shown,
    )


def _text(value: object) -> str:
    return "null" if value is None else str(value)


def _is_integer(type_: DataType) -> bool:
    return isinstance(type_, Primitive) and type_.name in _INTEGERS


def _plain_list(array: pa.Array) -> pa.ListArray:
    return array if pa.types.is_list(array.type) else array.cast(pa.list_(array.type.value_field))


def _from_zero(array: pa.Array) -> pa.Array:
    return pc.subtract(array.offsets, array.offsets[0])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()


def _nullable(type_: pa.DataType) -> pa.DataType:
    """The type with every part nullable: what may not be null is checked apart."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f.name, _nullable(f.type)) for f in type_.fields])
    if pa.types.is_map(type_):
        return pa.map_(_nullable(type_.key_type), pa.field("value", _nullable(type_.item_type)))
    if pa.types.is_list(type_):
        return pa.list_(pa.field("element", _nullable(type_.value_type)))
    return type_
