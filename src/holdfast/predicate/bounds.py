"""Which files may hold a row that satisfies a predicate, from what is known of their columns.

The answer is a mask over files, computed column-wise over Arrow arrays: no step runs once per file in Python.

1. Sound: a file with a live row on which the predicate is true is never masked out. Whatever is not known (a null
   bound, a missing null count, a column without statistics, an opaque part) keeps the file.
2. Bounds enclose every live, non-null value that is not NaN; nothing more is taken from them. Whether they are
   tight is of no consequence, and a null count is trusted only at 0 and at the row count.
3. Statistics may or may not have seen NaN, so a high bound of a float column says nothing about what is above it.
4. A Single column has one exactly known value per file; leaves on it are decided exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.predicate.evaluate import as_array, as_double, as_scalar, leaf_truth
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
    pushed,
)


@dataclass(frozen=True, slots=True)
class Range:
    """Outer bounds of a column's values in each file, and how many are null; null where not known."""

    low: pa.Array
    high: pa.Array
    null_count: pa.Array


@dataclass(frozen=True, slots=True)
class Single:
    """The one value a column has in every row of each file; null where that value is null."""

    value: pa.Array


Known: TypeAlias = Range | Single


def may_match(predicate: Predicate, known: Mapping[Column, Known], num_records: pa.Array) -> pa.BooleanArray:
    """A mask, true where some row of the file may satisfy the predicate; as long as `num_records`, without nulls."""
    if len(num_records) == 0:
        return pa.array([], pa.bool_())
    return _may(pushed(predicate), known, num_records)


def _may(predicate: Predicate, known: Mapping[Column, Known], num_records: pa.Array) -> pa.BooleanArray:
    match predicate:
        case And(parts):
            return reduce(pc.and_, [_may(p, known, num_records) for p in parts], _all(True, num_records))
        case Or(parts):
            return reduce(pc.or_, [_may(p, known, num_records) for p in parts], _all(False, num_records))
        case Constant(value):
            return _all(value is True, num_records)
        case Opaque():
            return _all(True, num_records)
        case Not(Compare() | In() | IsNull() | StartsWith() as leaf):
            return _leaf(leaf, True, known, num_records)
        case Not():
            raise AssertionError("a NOT is left only above a leaf once pushed down")
        case _:
            return _leaf(predicate, False, known, num_records)


def _leaf(leaf: Leaf, negated: bool, known: Mapping[Column, Known], num_records: pa.Array) -> pa.BooleanArray:
    match known.get(leaf.column):
        case None:
            return _all(True, num_records)
        case Single(value):
            found = leaf_truth(value, leaf)
            return pc.fill_null(pc.invert(found) if negated else found, False)
        case Range() as bounds:
            return _range_leaf(leaf, negated, bounds, num_records)


def _range_leaf(leaf: Leaf, negated: bool, bounds: Range, num_records: pa.Array) -> pa.BooleanArray:
    some_null = _unless(pc.equal(bounds.null_count, 0))
    some_value = _unless(pc.greater_equal(bounds.null_count, num_records))
    match leaf:
        case IsNull():
            return some_value if negated else some_null
        case Compare(Op.SAME, column, value):
            if not negated:
                return pc.and_(some_value, _may_compare(Op.EQ, column, value, bounds))
            differs = pc.and_(some_value, _may_compare(Op.NE, column, value, bounds))
            return pc.or_(some_null, differs)
        case Compare(op, column, value):
            return pc.and_(some_value, _may_compare(op, column, value, bounds))
        case In(column, values):
            found = _may_differ_from_all(column, values, bounds) if negated else _may_be_one_of(column, values, bounds)
            return pc.and_(some_value, found)
        case StartsWith(_, prefix):
            found = _may_start_otherwise(prefix, bounds) if negated else _may_start(prefix, bounds)
            return pc.and_(some_value, found)


def _may_compare(op: Op, column: Column, value: Value, bounds: Range) -> pa.BooleanArray:
    """Whether some non-null value may compare so."""
    if not _ordered(bounds.low.type):
        return _all(True, bounds.low)
    if pa.types.is_floating(bounds.low.type):
        return _may_compare_floats(op, as_double(value), bounds)
    wanted = as_scalar(value, bounds.low.type, column)
    match op:
        case Op.LT:
            return _unless(pc.greater_equal(bounds.low, wanted))
        case Op.LE:
            return _unless(pc.greater(bounds.low, wanted))
        case Op.GT:
            return _unless(pc.less_equal(bounds.high, wanted))
        case Op.GE:
            return _unless(pc.less(bounds.high, wanted))
        case Op.NE:
            return _unless(pc.and_kleene(pc.equal(bounds.low, wanted), pc.equal(bounds.high, wanted)))
        case _:
            return _unless(pc.or_kleene(pc.greater(bounds.low, wanted), pc.less(bounds.high, wanted)))


def _may_compare_floats(op: Op, wanted: float, bounds: Range) -> pa.BooleanArray:
    low, high = _numbers(bounds)
    if math.isnan(wanted):
        return _all(op is not Op.GT, low)
    match op:
        case Op.LT:
            return _unless(pc.greater_equal(low, wanted))
        case Op.LE:
            return _unless(pc.greater(low, wanted))
        case Op.GT | Op.GE | Op.NE:
            return _all(True, low)
        case _:
            return _unless(pc.or_kleene(pc.greater(low, wanted), pc.less(high, wanted)))


def _may_be_one_of(column: Column, values: tuple[Value, ...], bounds: Range) -> pa.BooleanArray:
    """Whether a wanted value lies within the bounds: the least one not below low is not above high."""
    if not values:
        return _all(False, bounds.low)
    if not _ordered(bounds.low.type):
        return _all(True, bounds.low)
    low, high = bounds.low, bounds.high
    if pa.types.is_floating(low.type):
        if any(math.isnan(as_double(v)) for v in values):
            return _all(True, low)
        low, high = _numbers(bounds)
        values = tuple(as_double(v) for v in values)
    wanted = as_array(values, low.type, column)
    wanted = wanted.take(pc.sort_indices(wanted))
    # Where low is not known any value up to high will do, so the least one is the one to try.
    lows = pc.fill_null(low, wanted[0])
    at = first_not_below(wanted, lows)
    past_all = pc.greater_equal(at, len(wanted))
    candidate = wanted.take(pc.min_element_wise(at, len(wanted) - 1))
    return pc.and_(pc.invert(past_all), _unless(pc.greater(candidate, high)))


def first_not_below(ascending: pa.Array, lows: pa.Array) -> pa.Array:
    """For each low, the position of the first value that is not below it; one past the end where all are."""
    if pa.types.is_decimal(lows.type):  # which search_sorted does not take; ranks keep order and equality
        ranks = pc.rank(pa.concat_arrays([ascending, lows]), tiebreaker="dense")
        ascending, lows = ranks[: len(ascending)], ranks[len(ascending) :]
    return pc.search_sorted(ascending, lows, side="left").cast(pa.int64())


def _may_differ_from_all(column: Column, values: tuple[Value, ...], bounds: Range) -> pa.BooleanArray:
    """Whether some value may be none of these; not when all values are the same one of them."""
    if pa.types.is_floating(bounds.low.type) or not _ordered(bounds.low.type):
        return _all(True, bounds.low)
    listed = pc.is_in(bounds.low, value_set=as_array(values, bounds.low.type, column))
    return _unless(pc.and_kleene(pc.equal(bounds.low, bounds.high), listed))


def _may_start(prefix: str, bounds: Range) -> pa.BooleanArray:
    if not pa.types.is_string(bounds.low.type):
        return _all(True, bounds.low)
    beyond = pc.and_kleene(pc.greater(bounds.low, prefix), pc.invert(pc.starts_with(bounds.low, pattern=prefix)))
    return _unless(pc.or_kleene(pc.less(bounds.high, prefix), beyond))


def _may_start_otherwise(prefix: str, bounds: Range) -> pa.BooleanArray:
    if not pa.types.is_string(bounds.low.type):
        return _all(True, bounds.low)
    both = pc.and_kleene(
        pc.starts_with(bounds.low, pattern=prefix),
        pc.starts_with(bounds.high, pattern=prefix),
    )
    return _unless(both)


def _ordered(type_: pa.DataType) -> bool:
    """Whether statistics of this type carry bounds that can be compared."""
    return bool(
        pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_date(type_)
        or pa.types.is_timestamp(type_)
        or pa.types.is_string(type_)
    )


def _numbers(bounds: Range) -> tuple[pa.Array, pa.Array]:
    """Bounds of a float column as doubles, unknown where a writer let NaN into them."""
    low, high = bounds.low.cast(pa.float64()), bounds.high.cast(pa.float64())
    unknown = pa.scalar(None, pa.float64())
    return pc.if_else(pc.is_nan(low), unknown, low), pc.if_else(pc.is_nan(high), unknown, high)


def _unless(impossible: pa.BooleanArray) -> pa.BooleanArray:
    """True but where it is known to be impossible."""
    return pc.invert(pc.fill_null(impossible, False))


def _all(value: bool, like: pa.Array) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(value), len(like))
