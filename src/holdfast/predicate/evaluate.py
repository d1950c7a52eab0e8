"""Evaluates a predicate on the rows of an Arrow table, with Spark's semantics.

1. The result is null where SQL's is; a row matches only where the predicate is true.
2. NaN equals itself and is greater than every other number; -0.0 equals 0.0.
3. Columns of type float are compared as doubles; strings and binaries by their bytes.
4. A field of a null struct is null.
5. An opaque part is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid, UnknownColumn, Unsupported
from holdfast.predicate.records import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Leaf,
    Not,
    Op,
    Opaque,
    Or,
    Predicate,
    StartsWith,
    Value,
)
from holdfast.predicate.render import column_text, value_text

_COMPARE: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}


def matches(table: pa.Table, predicate: Predicate) -> pa.BooleanArray:
    """The rows that satisfy the predicate: true or false, never null."""
    return pc.fill_null(truth(table, predicate), False)


def truth(table: pa.Table, predicate: Predicate) -> pa.BooleanArray:
    """The predicate's truth value on each row; null where it is unknown."""
    match predicate:
        case And(parts):
            return reduce(pc.and_kleene, [truth(table, p) for p in parts], _constant(True, table.num_rows))
        case Or(parts):
            return reduce(pc.or_kleene, [truth(table, p) for p in parts], _constant(False, table.num_rows))
        case Not(part):
            return pc.invert(truth(table, part))
        case Constant(value):
            return _constant(value, table.num_rows)
        case Opaque(text):
            raise Unsupported(
                f"only Spark can evaluate `{text}`, if it is SQL at all: correct it, scan with Spark, or leave this "
                "condition out"
            )
        case _:
            return leaf_truth(column_values(table, predicate.column), predicate)


def leaf_truth(values: pa.Array, leaf: Leaf) -> pa.BooleanArray:
    """The truth of a predicate on one column, over that column's values."""
    match leaf:
        case IsNull():
            return values.is_null()
        case StartsWith(_, prefix):
            return pc.starts_with(values, pattern=prefix)
        case Compare(Op.SAME, column, value):
            return pc.fill_null(leaf_truth(values, Compare(Op.EQ, column, value)), False)
        case Compare(op, column, value):
            if pa.types.is_floating(values.type):
                return _compare_floats(op, values.cast(pa.float64()), as_double(value))
            return _COMPARE[op](values, as_scalar(value, values.type, column))
        case In(column, members):
            if pa.types.is_floating(values.type):
                return _in_floats(values.cast(pa.float64()), members)
            return _unless_null(pc.is_in(values, value_set=as_array(members, values.type, column)), values)


def column_values(table: pa.Table, column: Column) -> pa.Array:
    """The values of a column path, null where a struct on the path is."""
    if column[0] not in table.column_names:
        raise UnknownColumn(f"there is no column {column_text(column[:1])} in this table", column=column[0])
    chunked = table.column(column[0])
    values = chunked.combine_chunks() if isinstance(chunked, pa.ChunkedArray) else chunked
    for name in column[1:]:
        values = pc.struct_field(values, name)
    return values


def as_double(value: Value) -> float:
    assert isinstance(value, int | float), f"a float column is compared with a number, not {value!r}"
    return float(value)


def as_scalar(value: Value, type_: pa.DataType, column: Column) -> pa.Scalar:
    """A predicate's value as an Arrow scalar of the column's type."""
    return as_array((value,), type_, column)[0]


def as_array(values: tuple[Value, ...], type_: pa.DataType, column: Column) -> pa.Array:
    """A predicate's values as an Arrow array of the column's type."""
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, OverflowError) as error:
        shown = ", ".join(value_text(v) for v in values[:3])
        raise Invalid(f"column {column_text(column)} is {type_} and cannot be compared with {shown}") from error


def _compare_floats(op: Op, values: pa.Array, number: float) -> pa.BooleanArray:
    nan = pc.is_nan(values)
    if not math.isnan(number):
        result = _COMPARE[op](values, number)
        return pc.or_(result, nan) if op in (Op.GT, Op.GE) else result
    match op:
        case Op.EQ | Op.GE:
            return nan
        case Op.NE | Op.LT:
            return pc.invert(nan)
        case Op.LE:
            return pc.or_(nan, pc.invert(nan))
        case _:
            return pc.and_(nan, pc.invert(nan))


def _in_floats(values: pa.Array, members: tuple[Value, ...]) -> pa.BooleanArray:
    # Adding 0.0 turns -0.0 into 0.0, from which a hash set would otherwise distinguish it.
    doubles = [as_double(v) + 0.0 for v in members]
    numbers = pa.array([d for d in doubles if not math.isnan(d)], pa.float64())
    result = pc.is_in(pc.add(values, 0.0), value_set=numbers)
    if len(numbers) < len(doubles):
        result = pc.or_(result, pc.is_nan(values))
    return _unless_null(result, values)


def _unless_null(result: pa.BooleanArray, values: pa.Array) -> pa.BooleanArray:
    return pc.if_else(values.is_valid(), result, pa.scalar(None, pa.bool_()))


def _constant(value: bool | None, count: int) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(value, pa.bool_()), count)
