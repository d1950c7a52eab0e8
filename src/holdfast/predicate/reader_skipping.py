"""Conditions for which Spark's Parquet reader may skip a row group that has rows they are true of.

Such a condition must be kept from the reader.

1. NaN is greater than every number here, as in Spark, but writers leave it out of the bounds in a file's footer, and
   the reader skips row groups by these bounds all the same.
2. The reader gets dates and timestamps in Java's old calendar, which lacks the ten days before 1582-10-15: a literal
   among them becomes another one. A part that only Spark understands counts if its text names that year.
"""

from __future__ import annotations

import datetime
import math

from holdfast.predicate.records import And, Compare, Constant, In, IsNull, Not, Op, Opaque, Or, Predicate, Value, pushed
from holdfast.schema.types import DataType, Primitive, Struct

_FLOATING = (Primitive("float"), Primitive("double"))
_FINDS_NAN = {Op.GT, Op.GE, Op.NE}
_LACKING = (datetime.date(1582, 10, 5), datetime.date(1582, 10, 14))
_ZONE = datetime.timedelta(days=1)  # how far a time of day in some zone is from that in UTC, at most
_LACKING_YEAR = "1582"


def may_lose_rows(predicate: Predicate, schema: Struct) -> bool:
    """Whether the reader may skip rows that some part of a condition is true of, as far as can be told."""
    floating = {f.name.lower() for f in schema.fields if _holds_floats(f.type)}
    return _may_lose(pushed(predicate), floating)


def _may_lose(predicate: Predicate, floating: set[str]) -> bool:
    match predicate:
        case And(parts) | Or(parts):
            return any(_may_lose(part, floating) for part in parts)
        case Constant() | IsNull() | Not(IsNull()):
            return False
        case Opaque(text, columns):
            finds_nan = bool(floating) and (not columns or any(column[0].lower() in floating for column in columns))
            return finds_nan or _LACKING_YEAR in text
        case Compare(op, column, value):
            return (column[0].lower() in floating and (op in _FINDS_NAN or _is_nan(value))) or _is_lacking(value)
        case In(column, values):
            return (column[0].lower() in floating and any(map(_is_nan, values))) or any(map(_is_lacking, values))
        case Not(Compare() | In() as part):
            return part.column[0].lower() in floating or _may_lose(part, floating)
        case _:
            return False


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_lacking(value: Value) -> bool:
    """Whether Java's old calendar may lack the day, in some zone."""
    first, last = _LACKING
    if isinstance(value, datetime.datetime):
        return first - _ZONE <= value.date() <= last + _ZONE
    return isinstance(value, datetime.date) and first <= value <= last


def _holds_floats(type_: DataType) -> bool:
    """Only what a comparison with a literal can reach: a leaf, at any depth of structs."""
    if isinstance(type_, Struct):
        return any(_holds_floats(f.type) for f in type_.fields)
    return type_ in _FLOATING
