"""Outer bounds: what a stored minimum and maximum prove about the rows of a file, as values of the column's type.

1. Every live row other than a floating NaN lies between low and high; a value that proves nothing is null.
2. Nothing raises: a value that does not fit the type, was cut short or cannot be read is null.
3. A value stored under an older, narrower type of the column is as good as one of today's type.
4. Of NaN nothing is promised: some writers leave it out of the maximum, so what may match NaN must ask the rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.model.files import Bounds
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import DataType, Decimal, Primitive

PREFIX_LENGTH = 32  # writers cut strings here; a maximum of this length may lack its tie-breaker
MILLISECOND_US = 1000  # timestamps are stored cut down to whole milliseconds
EXACT_DIGITS = 15  # a decimal of more digits may have passed through a double on its way here

_DOUBLE_ERROR = 2.0**-51  # twice the relative distance of neighbouring doubles: room for one bad rounding each way
_INTEGERS = frozenset(("byte", "short", "integer", "long"))
_EXCESS_FRACTION = r"(\.\d{6})\d+"
_ZONE = r"\d\d:\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
_NTZ_SHAPE = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?$"
_ZONED_SHAPE = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)$"
_DATE_SHAPE = r"^\d{4}-\d\d-\d\d$"


def outer_bounds(low: pa.Array, high: pa.Array, null_count: pa.Array, type_: DataType) -> Bounds:
    """Bounds of one column from its stored minimum, maximum and null count, each of whatever Arrow type it came in."""
    target = arrow_type(type_)
    counts = count(null_count)
    match type_:
        case Primitive(name) if name in _INTEGERS:
            return Bounds(_integers(low, target), _integers(high, target), counts)
        case Primitive("float" | "double"):
            return Bounds(_floating(low, target, down=True), _floating(high, target, down=False), counts)
        case Primitive("string"):
            return Bounds(_strings(low), _whole(_strings(high)), counts)
        case Primitive("date"):
            return Bounds(_dates(low), _dates(high), counts)
        case Primitive("timestamp" | "timestamp_ntz"):
            return Bounds(_timestamps(low, target), _next_millisecond(_timestamps(high, target)), counts)
        case Primitive("boolean"):
            return Bounds(_booleans(low), _booleans(high), counts)
        case Decimal():
            return Bounds(_decimals(low, target, down=True), _decimals(high, target, down=False), counts)
        case _:
            return Bounds(_nothing(low, target), _nothing(high, target), counts)


def stored(values: pa.Array, type_: DataType) -> pa.Array:
    """Stored minima or maxima as values of the column's type, as they are: nothing is widened."""
    target = arrow_type(type_)
    match type_:
        case Primitive(name) if name in _INTEGERS:
            return _integers(values, target)
        case Primitive("float" | "double"):
            return _numbers(values, target)
        case Primitive("string"):
            return _strings(values)
        case Primitive("date"):
            return _dates(values)
        case Primitive("timestamp" | "timestamp_ntz"):
            return _timestamps(values, target)
        case Primitive("boolean"):
            return _booleans(values)
        case Decimal():
            return _exact_decimals(values, target)
        case _:
            return _nothing(values, target)


def count(values: pa.Array) -> pa.Array:
    """Counts as int64, null where negative or not whole numbers."""
    if not pa.types.is_integer(values.type):
        return _nothing(values, pa.int64())
    counts = cast_or_null(values, pa.int64())
    return _null_where(counts, pc.less(counts, 0))


def cast_or_null(values: pa.Array, target: pa.DataType) -> pa.Array:
    """A cast where a value that cannot be cast becomes null: halves the array until it has found each of them."""
    try:
        return values.cast(target)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return pa.nulls(1, target)
        middle = len(values) // 2
        halves = (values.slice(0, middle), values.slice(middle))
        return pa.concat_arrays([cast_or_null(half, target) for half in halves])


def _integers(values: pa.Array, target: pa.DataType) -> pa.Array:
    if not pa.types.is_integer(values.type):
        return _nothing(values, target)
    return cast_or_null(values, target)


def _booleans(values: pa.Array) -> pa.Array:
    return values if pa.types.is_boolean(values.type) else _nothing(values, pa.bool_())


def _numbers(values: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_integer(values.type) and values.type.bit_width <= 32:
        return values.cast(pa.float64()).cast(target, safe=False)
    fits = pa.types.is_floating(values.type) and values.type.bit_width <= target.bit_width
    return values.cast(target) if fits else _nothing(values, target)


def _floating(values: pa.Array, target: pa.DataType, *, down: bool) -> pa.Array:
    if pa.types.is_integer(values.type) and values.type.bit_width <= 32:
        return values.cast(pa.float64()).cast(target, safe=False)
    if not pa.types.is_floating(values.type) or values.type.bit_width > target.bit_width:
        return _nothing(values, target)
    if values.type == pa.float64():
        values = _maybe_once_float(values, down=down)
    values = values.cast(target)
    proves_nothing = pc.or_(pc.is_nan(values), pc.equal(values, float("inf") if down else float("-inf")))
    return _null_where(values, proves_nothing)


def _maybe_once_float(values: pa.Array, *, down: bool) -> pa.Array:
    """Also cover the float that prints like this double: the column may have been one when the value was stored.

    The float 1.1 is written `1.1` and is 1.10000002 as a double.
    """
    doubles = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        floats = doubles.astype(np.float32).astype(np.float64)
    floats = np.where(np.isfinite(floats), floats, doubles)
    outer = np.fmin(doubles, floats) if down else np.fmax(doubles, floats)
    return _null_where(pa.array(outer), pc.is_null(values))


def _strings(values: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return _nothing(values, pa.string())
    return values.cast(pa.string())


def _whole(values: pa.Array) -> pa.Array:
    """Null where a maximum may be a bare prefix: counted in code points, or in UTF-16 units as the JVM counts."""
    long = pc.greater_equal(pc.binary_length(values), PREFIX_LENGTH)
    if not pc.any(long).as_py():
        return values
    points = pc.utf8_length(values)
    units = pc.add(points, pc.count_substring_regex(values, r"[\x{10000}-\x{10FFFF}]"))
    return _null_where(values, pc.or_(pc.equal(points, PREFIX_LENGTH), pc.equal(units, PREFIX_LENGTH)))


def _dates(values: pa.Array) -> pa.Array:
    if pa.types.is_date(values.type):
        return values.cast(pa.date32())
    texts = _strings(values)
    return _parsed(texts, texts, _DATE_SHAPE, pa.date32())


def _timestamps(values: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(values.type):
        return _microseconds(values).cast(target)
    if pa.types.is_date32(values.type) and target.tz is None:
        return cast_or_null(values, target)
    texts = _strings(values)
    short = pc.replace_substring_regex(texts, _EXCESS_FRACTION, r"\1")
    if target.tz is None:
        return _parsed(texts, pc.replace_substring_regex(short, "Z$", ""), _NTZ_SHAPE, target)
    zoned = pc.if_else(pc.match_substring_regex(short, _ZONE), short, pc.binary_join_element_wise(short, "Z", ""))
    return _parsed(texts, zoned, _ZONED_SHAPE, target)


def _parsed(texts: pa.Array, normalised: pa.Array, shape: str, target: pa.DataType) -> pa.Array:
    try:
        return texts.cast(target)
    except pa.ArrowInvalid:
        return cast_or_null(_null_where(normalised, pc.invert(pc.match_substring_regex(normalised, shape))), target)


def _microseconds(values: pa.Array) -> pa.Array:
    """Timestamps of any unit as counts of microseconds, floored; zones are spelling, the count is in UTC."""
    per_unit = {"s": 1_000_000, "ms": 1000, "us": 1}.get(values.type.unit)
    counts = values.view(pa.int64())
    if per_unit is None:
        floored = pc.fill_null(counts, 0).to_numpy() // 1000
        return _null_where(pa.array(floored), pc.is_null(counts))
    limit = (2**63 - 1) // per_unit
    fits = _null_where(counts, pc.greater(pc.abs(counts), limit)) if per_unit > 1 else counts
    return pc.multiply(fits, per_unit)


def _next_millisecond(values: pa.Array) -> pa.Array:
    counts = values.view(pa.int64())
    room = pc.min_element_wise(counts, pa.scalar(2**63 - 1 - MILLISECOND_US), skip_nulls=False)
    return pc.add(room, MILLISECOND_US).view(values.type)


def _exact_decimals(values: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_integer(values.type):
        values = values.cast(pa.decimal128(20, 0))
    if not pa.types.is_decimal(values.type):
        return _nothing(values, target)
    return cast_or_null(values, target)


def _decimals(values: pa.Array, target: pa.DataType, *, down: bool) -> pa.Array:
    exact = _exact_decimals(values, target)
    if target.precision <= EXACT_DIGITS or exact.null_count == len(exact):
        return exact
    return _maybe_once_double(exact, target, down=down)


def _maybe_once_double(values: pa.Array, target: pa.DataType, *, down: bool) -> pa.Array:
    """Widen long decimals by the error of a double: some writers store them through one."""
    size = pc.abs(values.cast(pa.float64()))
    long = pc.greater_equal(size, 10.0 ** (EXACT_DIGITS - target.scale))
    if not pc.any(long).as_py():
        return values
    wide = pa.decimal256(60, target.scale)
    last_digit = pa.scalar(10.0**-target.scale)
    error = pc.add(pc.multiply(size, _DOUBLE_ERROR), last_digit)
    slack = pc.if_else(long, error, 0.0).cast(wide, safe=False)
    moved = pc.subtract(values.cast(wide), slack) if down else pc.add(values.cast(wide), slack)
    return cast_or_null(moved, target)


def _null_where(values: pa.Array, mask: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(mask, False), pa.scalar(None, values.type), values)


def _nothing(values: pa.Array, target: pa.DataType) -> pa.Array:
    return pa.nulls(len(values), target)
