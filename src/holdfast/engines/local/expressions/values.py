"""Computes Spark's operators and casts on Arrow arrays, as in ANSI mode.

1. Null in, null out, except where an operator is about nulls.
2. NaN equals itself and is greater than every other number; -0.0 equals 0.0.
3. What Spark raises for (a number too large for its type, a division by zero, a text that is no number) raises Invalid.
4. Types are decided before values are seen: `common`, `convertible` and `calculated_type` say None or False for what
   only Spark can do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import Invalid, Unsupported
from holdfast.predicate.literal import INTEGER_BITS, LARGEST_PRECISION
from holdfast.predicate.records import Op
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import STRING, DataType, Decimal, Primitive

BOOLEAN, INTEGER, DOUBLE, VOID = Primitive("boolean"), Primitive("integer"), Primitive("double"), Primitive("void")
DATE, INSTANT, LOCAL_TIME = Primitive("date"), Primitive("timestamp"), Primitive("timestamp_ntz")

_INTEGERS = tuple(Primitive(name) for name in ("byte", "short", "integer", "long"))
_FLOATS = (Primitive("float"), DOUBLE)
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_PLAIN: dict[Op, Callable[[Any, Any], Any]] = {
    Op.EQ: pc.equal,
    Op.NE: pc.not_equal,
    Op.LT: pc.less,
    Op.LE: pc.less_equal,
    Op.GT: pc.greater,
    Op.GE: pc.greater_equal,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_LAST_OF_THE_PLANE = 0x10000


def common(a: DataType, b: DataType) -> DataType | None:
    """The type two values meet in; None where only Spark knows."""
    if a == b or b == VOID:
        return a
    if a == VOID:
        return b
    pair = {a, b}
    if pair <= set(_INTEGERS):
        return max(a, b, key=_INTEGERS.index)
    if pair & set(_FLOATS):
        return DOUBLE if all(t in _FLOATS or as_decimal(t) is not None for t in pair) else None
    if pair <= {DATE, LOCAL_TIME}:
        return LOCAL_TIME
    if pair <= {DATE, INSTANT, LOCAL_TIME}:
        return INSTANT
    left, right = as_decimal(a), as_decimal(b)
    return None if left is None or right is None else _decimals(left, right)


def as_decimal(type_: DataType) -> Decimal | None:
    """The decimal type that holds every value of an exact number."""
    match type_:
        case Decimal():
            return type_
        case Primitive(name) if name in _DIGITS:
            return Decimal(_DIGITS[name], 0)
        case _:
            return None


def calculated_type(operator: str, a: DataType, b: DataType) -> DataType | None:
    """The type of a sum, difference, product, quotient or remainder; None where only Spark can tell."""
    if Decimal in (type(a), type(b)) and not {a, b} & set(_FLOATS):
        left, right = as_decimal(a), as_decimal(b)
        return None if left is None or right is None else _decimal_result(operator, left, right)
    together = common(a, b)
    if together not in (*_INTEGERS, *_FLOATS):
        return None
    return DOUBLE if operator == "/" else together


def compared(op: Op, left: pa.Array, right: pa.Array) -> pa.BooleanArray:
    """The truth of a comparison of two arrays of one type; null where a side is, but for `<=>`."""
    if pa.types.is_null(left.type):
        return pa.repeat(pa.scalar(True if op is Op.SAME else None, pa.bool_()), len(left))
    if op is Op.SAME:
        equal = pc.fill_null(compared(Op.EQ, left, right), False)
        return pc.or_(equal, pc.and_(left.is_null(), right.is_null()))
    return _compared_floats(op, left, right) if pa.types.is_floating(left.type) else _PLAIN[op](left, right)


def calculated(operator: str, left: pa.Array, right: pa.Array) -> pa.Array:
    """A calculation on two arrays of numbers; of one type unless they are decimals."""
    match operator:
        case "/":
            _refuse_zero(left, right)
            return pc.divide(left, right)
        case "%":
            _refuse_zero(left, right)
            return _remainder(left, right)
        case _:
            return _ARITHMETIC[operator](left, right)


def is_member(values: pa.Array, wanted: pa.Array) -> pa.BooleanArray:
    """Whether each value is among the wanted ones; null for a null, and where a wanted null might have been it."""
    is_in = pc.is_in(canonical(values), value_set=canonical(wanted.drop_null()))
    known = values.is_valid() if not wanted.null_count else pc.and_(values.is_valid(), is_in)
    return pc.if_else(known, is_in, pa.scalar(None, pa.bool_()))


def canonical(values: pa.Array) -> pa.Array:
    """The same values with one NaN and one zero, so that equal ones have equal bits."""
    if not pa.types.is_floating(values.type):
        return values
    zeroed = pc.add(values, pa.scalar(0.0, values.type))
    return pc.if_else(pc.is_nan(zeroed), pa.scalar(float("nan"), values.type), zeroed)


def convertible(source: DataType, target: DataType, zone: str) -> bool:
    """Whether `converted` gives what Spark's cast gives, for every value."""
    if source in (target, VOID):
        return True
    match source, target:
        case (Primitive("string"), _):
            return target in _INTEGERS
        case (_, Primitive("string")):
            return source in (*_INTEGERS, BOOLEAN, DATE)
        case (Decimal() | Primitive("byte" | "short" | "integer" | "long"), Decimal(_, scale)):
            return scale <= LARGEST_PRECISION - _DIGITS["long"] + 1
        case (Primitive(), Primitive()) if {source, target} <= {*_INTEGERS, *_FLOATS}:
            return True
        case (Primitive("date"), Primitive("timestamp_ntz")) | (Primitive("timestamp_ntz"), Primitive("date")):
            return True
        case _:
            return {source, target} <= {DATE, INSTANT, LOCAL_TIME} and zone.upper() == "UTC"


def converted(values: pa.Array, source: DataType, target: DataType) -> pa.Array:
    """Values under a cast that `convertible` allows."""
    wanted = arrow_type(target)
    if source == target:
        return values
    if source == VOID:
        return pa.nulls(len(values), wanted)
    match target:
        case Primitive("date"):
            return pc.floor_temporal(values, unit="day").cast(wanted)
        case Decimal():
            return _as_decimals(values, source, target)
        case Primitive(name) if name in INTEGER_BITS and source in _FLOATS:
            return _truncated(values, INTEGER_BITS[name]).cast(wanted, safe=False)
        case _ if source == STRING:
            return pc.utf8_trim_whitespace(values).cast(wanted)
        case _ if target in _FLOATS:
            return values.cast(wanted, safe=False)
        case _:
            return values.cast(wanted)


def cased(values: pa.Array, *, upper: bool) -> pa.Array:
    """Text in capitals or without; letters whose case depends on more than themselves are Spark's."""
    special = pc.match_substring_regex(values, f"[{_special_letters(upper)}]")
    if pc.any(special, min_count=0).as_py():
        shown = values[pc.index(special, True).as_py()]
        raise Unsupported(f"only Spark can change the case of {shown.as_py()!r}: use a Spark session")
    return pc.utf8_upper(values) if upper else pc.utf8_lower(values)


def placed(parts: Sequence[tuple[NDArray[np.int64], pa.Array]], count: int, type_: pa.DataType) -> pa.Array:
    """Values at the rows that go with them; null in rows that have none."""
    pool = pa.concat_arrays([*(values for _, values in parts), pa.nulls(1, type_)])
    at = np.full(count, len(pool) - 1)
    start = 0
    for rows, values in parts:
        at[rows] = np.arange(start, start + len(values))
        start += len(values)
    return pool.take(pa.array(at))


def _decimals(a: Decimal, b: Decimal) -> Decimal | None:
    scale = max(a.scale, b.scale)
    precision = max(a.precision - a.scale, b.precision - b.scale) + scale
    return Decimal(precision, scale) if precision <= LARGEST_PRECISION else None


def _decimal_result(operator: str, a: Decimal, b: Decimal) -> Decimal | None:
    match operator:
        case "+" | "-":
            scale = max(a.scale, b.scale)
            precision = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
        case "*":
            precision, scale = a.precision + b.precision + 1, a.scale + b.scale
        case _:
            return None
    return Decimal(precision, scale) if precision <= LARGEST_PRECISION else None


def _compared_floats(op: Op, left: pa.Array, right: pa.Array) -> pa.BooleanArray:
    match op:
        case Op.EQ:
            return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))
        case Op.NE:
            return pc.invert(_compared_floats(Op.EQ, left, right))
        case Op.GT:
            return pc.or_(pc.greater(left, right), pc.and_(pc.is_nan(left), pc.invert(pc.is_nan(right))))
        case Op.LT:
            return _compared_floats(Op.GT, right, left)
        case Op.LE:
            return pc.invert(_compared_floats(Op.GT, left, right))
        case _:
            return pc.invert(_compared_floats(Op.GT, right, left))


def _refuse_zero(left: pa.Array, right: pa.Array) -> None:
    zero = pc.and_(left.is_valid(), pc.equal(right, pa.scalar(0, right.type)))
    if pc.any(zero, min_count=0).as_py():
        raise Invalid("division by zero")


def _remainder(left: pa.Array, right: pa.Array) -> pa.Array:
    valid = pc.and_(left.is_valid(), right.is_valid())
    one = pa.scalar(1, left.type)
    dividend, divisor = (pc.if_else(valid, x, one).to_numpy(zero_copy_only=False) for x in (left, right))
    with np.errstate(invalid="ignore"):  # of an infinity it is NaN, as it should be
        remainder = np.fmod(dividend, divisor)
    return pa.array(remainder, left.type, mask=np.asarray(pc.invert(valid)))


def _as_decimals(values: pa.Array, source: DataType, target: Decimal) -> pa.Array:
    if isinstance(source, Decimal):
        if source.scale > target.scale:
            widest = values.cast(pa.decimal128(LARGEST_PRECISION, source.scale))
            values = pc.round(widest, ndigits=target.scale, round_mode="half_towards_infinity")
    else:
        values = values.cast(pa.decimal128(LARGEST_PRECISION, target.scale))
    return values.cast(arrow_type(target))


def _truncated(values: pa.Array, bits: int) -> pa.Array:
    whole = pc.trunc(values.cast(pa.float64()))
    limit = 2.0 ** (bits - 1)
    fits = pc.and_(pc.less(whole, limit), pc.greater_equal(whole, -limit))
    if not pc.all(fits, min_count=0).as_py():
        shown = values[pc.index(pc.fill_null(fits, True), False).as_py()]
        raise Invalid(f"{shown.as_py()} does not fit {bits} bits")
    return whole


@cache
def _special_letters(upper: bool) -> str:
    """Letters that become several, or become one or another by what stands around them."""
    letters = map(chr, range(0x80, _LAST_OF_THE_PLANE))
    if upper:
        return "".join(letter for letter in letters if len(letter.upper()) > 1)
    return "".join(letter for letter in letters if len(letter.lower()) > 1 or letter == "Σ")
