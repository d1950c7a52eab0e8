"""Finds conditions for which Spark's Parquet reader may skip matching rows, so that they are not pushed down to it.

1. NaN is greater than every number, but writers leave it out of the bounds in a footer, and the reader skips row groups
   by these bounds.
2. Zero and minus zero are equal, but the reader treats them as two values, in bounds and in dictionaries.
3. The reader gets dates and timestamps in Java's old calendar, which lacks the ten days before 1582-10-15: a literal in
   these days becomes one of the ten days after.
4. An opaque part may become a comparison with any literal, so it is affected wherever its columns may have values in
   these days: `in_doubt` is the condition for such rows, by which statistics rule files out.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterator

from holdfast.predicate.records import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Op,
    Opaque,
    Or,
    Predicate,
    Value,
    pushed,
    terms,
)
from holdfast.schema.types import DataType, Primitive, Struct

_FLOATING = (Primitive("float"), Primitive("double"))
_FINDS_NAN = {Op.GT, Op.GE, Op.NE}
_LACKING = (datetime.date(1582, 10, 5), datetime.date(1582, 10, 14))
_ZONE = datetime.timedelta(days=1)  # at least the largest offset of a zone from UTC
_SHIFT = datetime.timedelta(days=10)  # from a day that the calendar lacks to the one it becomes
_DATE, _TIMESTAMP = Primitive("date"), Primitive("timestamp")


def may_lose_rows(predicate: Predicate, schema: Struct) -> bool:
    """Whether the reader may skip rows on which a part that is not opaque is true, or an opaque part on floats."""
    floating = {f.name.lower() for f in schema.fields if _holds_floats(f.type)}
    return _may_lose(pushed(predicate), floating)


def in_doubt(predicate: Predicate, schema: Struct) -> Predicate | None:
    """The condition for all rows that the reader may wrongly skip for an opaque part; None where there are none."""
    opaque = [term for term in terms(predicate) if isinstance(term, Opaque)]
    columns = [column for part in opaque for column in part.columns or ((),)]
    leaves = dict.fromkeys(leaf for column in columns for leaf in _dated(schema, column, ()))
    return Or(tuple(_near_lacking_days(*leaf) for leaf in leaves)) if leaves else None


def _dated(type_: DataType, below: Column, at: Column) -> Iterator[tuple[Column, DataType]]:
    """Dates and timestamps at or below a path, at any depth of structs."""
    if type_ in (_DATE, _TIMESTAMP):
        yield at, type_
    elif isinstance(type_, Struct):
        for f in type_.fields:
            if not below or below[0].lower() == f.name.lower():
                yield from _dated(f.type, below[1:], (*at, f.name))


def _near_lacking_days(column: Column, type_: DataType) -> Predicate:
    first, last = _LACKING[0], _LACKING[1] + _SHIFT
    if type_ == _DATE:
        return And((Compare(Op.GE, column, first), Compare(Op.LE, column, last)))
    midnight = datetime.time(tzinfo=datetime.UTC)
    after, before = (datetime.datetime.combine(day, midnight) for day in (first - _ZONE, last + 2 * _ZONE))
    return And((Compare(Op.GT, column, after), Compare(Op.LT, column, before)))


def _may_lose(predicate: Predicate, floating: set[str]) -> bool:
    match predicate:
        case And(parts) | Or(parts):
            return any(_may_lose(part, floating) for part in parts)
        case Constant() | IsNull() | Not(IsNull()):
            return False
        case Opaque(_, columns):
            return bool(floating) and (not columns or any(column[0].lower() in floating for column in columns))
        case Compare(op, column, value):
            return (
                column[0].lower() in floating and (op in _FINDS_NAN or _is_nan_or_zero(value))
            ) or _is_near_lacking_days(value)
        case In(column, values):
            return (column[0].lower() in floating and any(map(_is_nan_or_zero, values))) or any(
                map(_is_near_lacking_days, values)
            )
        case Not(Compare() | In() as part):
            return part.column[0].lower() in floating or _may_lose(part, floating)
        case _:
            return False


def _is_nan_or_zero(value: Value) -> bool:
    """Whether the reader compares floats with it otherwise than Spark does."""
    return isinstance(value, int | float | decimal.Decimal) and (math.isnan(value) or value == 0)


def _is_near_lacking_days(value: Value) -> bool:
    """Whether Java's old calendar may lack the day, in some zone."""
    first, last = _LACKING
    if isinstance(value, datetime.datetime):
        return first - _ZONE <= value.date() <= last + _ZONE
    return isinstance(value, datetime.date) and first <= value <= last


def _holds_floats(type_: DataType) -> bool:
    """Whether a type is a float or has one below structs, where a comparison with a literal can reach it."""
    if isinstance(type_, Struct):
        return any(_holds_floats(f.type) for f in type_.fields)
    return type_ in _FLOATING
