"""Converts stored minima and maxima to bounds of the column's type that are safe for pruning.

1. Every live row other than a floating-point NaN lies between low and high; a stored value that proves nothing is null.
2. Nothing raises: a value that does not fit the type, was truncated or cannot be read is null.
3. A value that was stored when the column had a narrower type is valid too.
4. The bounds do not cover NaN, which some writers leave out of the maximum: a condition that matches NaN reads rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.model.files import Bounds
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import DataType, Decimal, Primitive

PREFIX_LENGTH = 32  # writers truncate strings to this; a maximum of this length may be too small
MILLISECOND_US = 1000  # timestamps are stored truncated to milliseconds
EXACT_DIGITS = 15  # a writer may have converted a decimal of more digits to a double

_DOUBLE_ERROR = 2.0**-51  # twice the relative distance of neighbouring doubles: one rounding error each way
_INTEGERS = frozenset(("byte", "short", "integer", "long"))
_EXCESS_FRACTION = r"(\.\d{6})\d+"
_ZONE = r"\d\d:\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"
_NTZ_SHAPE = r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?$"
_ZONED_SHAPE = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d)?)$"
_DATE_SHAPE = r"^\d{4}-\d\d-\d\d$"


def outer_bounds(low: pa.Array, high: pa.Array, null_count: pa.Array, type_: DataType) -> Bounds:
    """Bounds of a column from its stored minimum, maximum and null count, which may have any Arrow type."""
    lowest, highest = stored(low, type_), stored(high, type_)
    match type_:
        case Primitive("float" | "double"):
            lowest, highest = _outer_floats(lowest, low.type, down=True), _outer_floats(highest, high.type, down=False)
        case Primitive("string"):
            highest = _untruncated(highest)
        case Primitive("timestamp" | "timestamp_ntz"):
            highest = _next_millisecond(highest)
        case Decimal():
            lowest, highest = _outer_decimals(lowest, down=True), _outer_decimals(highest, down=False)
    return Bounds(lowest, highest, count(null_count))


def stored(values: pa.Array, type_: DataType) -> pa.Array:
    """Stored minima or maxima as values of the column's type, without widening."""
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
            return _decimals(values, target)
        case _:
            return _nulls(values, target)


def count(values: pa.Array) -> pa.Array:
    """Counts as int64, null where negative or not whole numbers."""
    if not pa.types.is_integer(values.type):
        return _nulls(values, pa.int64())
    counts = cast_or_null(values, pa.int64())
    return _null_where(counts, pc.less(counts, 0))


def cast_or_null(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Casts values; those that cannot be cast become null. Bisects the array to isolate them."""
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
        return _nulls(values, target)
    return cast_or_null(values, target)


def _booleans(values: pa.Array) -> pa.Array:
    return values if pa.types.is_boolean(values.type) else _nulls(values, pa.bool_())


def _numbers(values: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_integer(values.type) and values.type.bit_width <= 32:
        return values.cast(pa.float64()).cast(target, safe=False)
    fits = pa.types.is_floating(values.type) and values.type.bit_width <= target.bit_width
    return values.cast(target) if fits else _nulls(values, target)


def _outer_floats(values: pa.Array, stored_type: pa.DataType, *, down: bool) -> pa.Array:
    if values.type == stored_type == pa.float64():
        values = _include_float(values, down=down)
    proves_nothing = pc.or_(pc.is_nan(values), pc.equal(values, float("inf") if down else float("-inf")))
    return _null_where(values, proves_nothing)


def _include_float(values: pa.Array, *, down: bool) -> pa.Array:
    """Bounds that include the float with the same text: the column may have been a float when the value was stored.

    The float 1.1 is written as `1.1`, and is 1.10000002 as a double.
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
        return _nulls(values, pa.string())
    return values.cast(pa.string())


def _untruncated(values: pa.Array) -> pa.Array:
    """Null where a maximum may be a truncated prefix, whose length is in code points or, in the JVM, UTF-16 units."""
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
    """Timestamps of any unit as microseconds in UTC, rounded down."""
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
    capped = pc.min_element_wise(counts, pa.scalar(2**63 - 1 - MILLISECOND_US), skip_nulls=False)
    return pc.add(capped, MILLISECOND_US).view(values.type)


def _decimals(values: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_integer(values.type):
        values = values.cast(pa.decimal128(20, 0))
    if not pa.types.is_decimal(values.type):
        return _nulls(values, target)
    return cast_or_null(values, target)


def _outer_decimals(values: pa.Array, *, down: bool) -> pa.Array:
    """Widens long decimals by the error of a double: some writers convert them to one."""
    target = values.type
    if target.precision <= EXACT_DIGITS or values.null_count == len(values):
        return values
    size = pc.abs(values.cast(pa.float64()))
    long = pc.greater_equal(size, 10.0 ** (EXACT_DIGITS - target.scale))
    if not pc.any(long).as_py():
        return values
    wide = pa.decimal256(60, target.scale)
    error = pc.add(pc.multiply(size, _DOUBLE_ERROR), pa.scalar(10.0**-target.scale))
    slack = pc.if_else(long, error, 0.0).cast(wide, safe=False)
    moved = pc.subtract(values.cast(wide), slack) if down else pc.add(values.cast(wide), slack)
    return cast_or_null(moved, target)


def _null_where(values: pa.Array, mask: pa.Array) -> pa.Array:
    return pc.if_else(pc.fill_null(mask, False), pa.scalar(None, values.type), values)


def _nulls(values: pa.Array, target: pa.DataType) -> pa.Array:
    return pa.nulls(len(values), target)
