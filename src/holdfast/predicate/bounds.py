"""File pruning: computes which files may hold a row that satisfies a predicate, from the bounds of their columns.

The result is a mask over files, computed on Arrow arrays without a Python loop over files.

1. A file with a live row on which the predicate is true is never pruned. Anything unknown (a null bound, a missing null
   count, a column without statistics, an opaque part) keeps the file.
2. Bounds enclose every live value that is neither null nor NaN. They need not be tight, and a null count is used only
   where it is 0 or the row count.
3. Statistics may or may not include NaN, so values above the high bound of a float column are possible.
4. A Single column has one known value per file; leaves on it are decided exactly.
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
    """Bounds of a column's values in each file, and the number of nulls; null where not known."""

    low: pa.Array
    high: pa.Array
    null_count: pa.Array


@dataclass(frozen=True, slots=True)
class Single:
    """The one value that a column has in all rows of each file; null where that value is null."""

    value: pa.Array


ColumnBounds: TypeAlias = Range | Single


def may_match(predicate: Predicate, bounds: Mapping[Column, ColumnBounds], num_records: pa.Array) -> pa.BooleanArray:
    """A mask, true where some row of the file may satisfy the predicate; as long as `num_records`, without nulls."""
    if len(num_records) == 0:
        return pa.array([], pa.bool_())
    return _may(pushed(predicate), bounds, num_records)


def _may(predicate: Predicate, bounds: Mapping[Column, ColumnBounds], num_records: pa.Array) -> pa.BooleanArray:
    match predicate:
        case And(parts):
            return reduce(pc.and_, [_may(p, bounds, num_records) for p in parts], _all(True, num_records))
        case Or(parts):
            return reduce(pc.or_, [_may(p, bounds, num_records) for p in parts], _all(False, num_records))
        case Constant(value):
            return _all(value is True, num_records)
        case Opaque():
            return _all(True, num_records)
        case Not(Compare() | In() | IsNull() | StartsWith() as leaf):
            return _leaf(leaf, True, bounds, num_records)
        case Not():
            raise AssertionError("a NOT is left only above a leaf once pushed down")
        case _:
            return _leaf(predicate, False, bounds, num_records)


def _leaf(leaf: Leaf, negated: bool, bounds: Mapping[Column, ColumnBounds], num_records: pa.Array) -> pa.BooleanArray:
    match bounds.get(leaf.column):
        case None:
            return _all(True, num_records)
        case Single(value):
            truths = leaf_truth(value, leaf)
            return pc.fill_null(pc.invert(truths) if negated else truths, False)
        case Range() as range_:
            return _range_leaf(leaf, negated, range_, num_records)


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
            possible = (
                _may_differ_from_all(column, values, bounds) if negated else _may_be_one_of(column, values, bounds)
            )
            return pc.and_(some_value, possible)
        case StartsWith(_, prefix):
            possible = _may_start_otherwise(prefix, bounds) if negated else _may_start(prefix, bounds)
            return pc.and_(some_value, possible)


def _may_compare(op: Op, column: Column, value: Value, bounds: Range) -> pa.BooleanArray:
    """Whether the comparison may be true of some value that is not null."""
    if not _ordered(bounds.low.type):
        return _all(True, bounds.low)
    if pa.types.is_floating(bounds.low.type):
        return _may_compare_floats(op, as_double(value), bounds)
    literal = as_scalar(value, bounds.low.type, column)
    match op:
        case Op.LT:
            return _unless(pc.greater_equal(bounds.low, literal))
        case Op.LE:
            return _unless(pc.greater(bounds.low, literal))
        case Op.GT:
            return _unless(pc.less_equal(bounds.high, literal))
        case Op.GE:
            return _unless(pc.less(bounds.high, literal))
        case Op.NE:
            return _unless(pc.and_kleene(pc.equal(bounds.low, literal), pc.equal(bounds.high, literal)))
        case _:
            return _unless(pc.or_kleene(pc.greater(bounds.low, literal), pc.less(bounds.high, literal)))


def _may_compare_floats(op: Op, number: float, bounds: Range) -> pa.BooleanArray:
    low, high = _numbers(bounds)
    if math.isnan(number):
        return _all(op is not Op.GT, low)
    match op:
        case Op.LT:
            return _unless(pc.greater_equal(low, number))
        case Op.LE:
            return _unless(pc.greater(low, number))
        case Op.GT | Op.GE | Op.NE:
            return _all(True, low)
        case _:
            return _unless(pc.or_kleene(pc.greater(low, number), pc.less(high, number)))


def _may_be_one_of(column: Column, values: tuple[Value, ...], bounds: Range) -> pa.BooleanArray:
    """Whether a member lies within the bounds: the smallest one not below `low` is not above `high`."""
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
    members = as_array(values, low.type, column)
    members = members.take(pc.sort_indices(members))
    # Where low is not known, any member up to high is possible, so the smallest one is tried.
    lows = pc.fill_null(low, members[0])
    at = first_not_below(members, lows)
    past_all = pc.greater_equal(at, len(members))
    candidate = members.take(pc.min_element_wise(at, len(members) - 1))
    return pc.and_(pc.invert(past_all), _unless(pc.greater(candidate, high)))


def first_not_below(ascending: pa.Array, lows: pa.Array) -> pa.Array:
    """For each low, the position of the first value that is not below it; one past the end where there is none."""
    if pa.types.is_decimal(lows.type):  # search_sorted does not take decimals; ranks keep order and equality
        ranks = pc.rank(pa.concat_arrays([ascending, lows]), tiebreaker="dense")
        ascending, lows = ranks[: len(ascending)], ranks[len(ascending) :]
    return pc.search_sorted(ascending, lows, side="left").cast(pa.int64())


def _may_differ_from_all(column: Column, values: tuple[Value, ...], bounds: Range) -> pa.BooleanArray:
    """Whether some value may be none of these; False where all values are equal and among them."""
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
    low, high = (pc.starts_with(bound, pattern=prefix) for bound in (bounds.low, bounds.high))
    return _unless(pc.and_kleene(low, high))


def _ordered(type_: pa.DataType) -> bool:
    """Whether statistics of this type have comparable bounds."""
    return bool(
        pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_decimal(type_)
        or pa.types.is_date(type_)
        or pa.types.is_timestamp(type_)
        or pa.types.is_string(type_)
    )


def _numbers(bounds: Range) -> tuple[pa.Array, pa.Array]:
    """Bounds of a float column as doubles, null where a writer stored NaN."""
    low, high = bounds.low.cast(pa.float64()), bounds.high.cast(pa.float64())
    unknown = pa.scalar(None, pa.float64())
    return pc.if_else(pc.is_nan(low), unknown, low), pc.if_else(pc.is_nan(high), unknown, high)


def _unless(impossible: pa.BooleanArray) -> pa.BooleanArray:
    """True except where it is known to be impossible."""
    return pc.invert(pc.fill_null(impossible, False))


def _all(value: bool, like: pa.Array) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(value), len(like))
