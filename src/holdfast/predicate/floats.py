"""Conditions that a NaN may satisfy, and so may not be answered from a Parquet file's own statistics.

NaN is greater than every number here, as in Spark, but writers leave it out of the bounds in a file's footer. Spark's
reader skips row groups by these bounds all the same, and loses rows. So such a condition must be kept from the reader.
"""

from __future__ import annotations

import math

from holdfast.predicate.records import And, Compare, Constant, In, IsNull, Not, Op, Opaque, Or, Predicate, pushed
from holdfast.schema.types import DataType, Primitive, Struct

_FLOATING = (Primitive("float"), Primitive("double"))
_FINDS_NAN = {Op.GT, Op.GE, Op.NE}


def may_find_nan(predicate: Predicate, schema: Struct) -> bool:
    """Whether some part of a condition may be true of a NaN, as far as can be told."""
    floating = {f.name.lower() for f in schema.fields if _holds_floats(f.type)}
    return bool(floating) and _may_find(pushed(predicate), floating)


def _may_find(predicate: Predicate, floating: set[str]) -> bool:
    match predicate:
        case And(parts) | Or(parts):
            return any(_may_find(part, floating) for part in parts)
        case Constant() | IsNull() | Not(IsNull()):
            return False
        case Opaque(_, columns):
            return not columns or any(column[0].lower() in floating for column in columns)
        case Compare(op, column, value):
            return column[0].lower() in floating and (op in _FINDS_NAN or _is_nan(value))
        case In(column, values):
            return column[0].lower() in floating and any(map(_is_nan, values))
        case Not(Compare() | In() as part):
            return part.column[0].lower() in floating
        case _:
            return False


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _holds_floats(type_: DataType) -> bool:
    """Only what a comparison with a literal can reach: a leaf, at any depth of structs."""
    if isinstance(type_, Struct):
        return any(_holds_floats(f.type) for f in type_.fields)
    return type_ in _FLOATING
