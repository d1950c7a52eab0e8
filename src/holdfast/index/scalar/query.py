"""Derives the key query of an index from a condition, and the parts of the condition that it does not decide.

1. Every row that satisfies the condition has a key of the query; hits are checked only for the undecided parts.
2. A query is an equality on the first columns of an index, and a range or equality on the next column.
3. A query asks only for keys that the condition allows, apart from columns that it leaves open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from holdfast.predicate.evaluate import as_array
from holdfast.predicate.records import (
    Column,
    Compare,
    In,
    IsNull,
    Not,
    Op,
    Or,
    Predicate,
    Value,
    conjunction,
    conjuncts,
)
from holdfast.rows.keys import Bound, Interval, Numbers, after_prefix, bounded, following, is_coded, keys_of, prefix_of
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import Field

MOST_POINTS = 1_000_000  # combinations of values; beyond, the columns after are left open


@dataclass(frozen=True)
class KeyQuery:
    """The keys to find: single keys, ascending and distinct; intervals; and null, for an index on one column."""

    points: Numbers | pa.Array | None = None  # codes, or texts
    intervals: tuple[Interval, ...] = ()
    null: bool = False


@dataclass(frozen=True)
class IndexQuery:
    """A key query, how many columns of the index it uses, and which parts of the condition it decides."""

    keys: KeyQuery
    columns: int
    settled: Predicate
    unsettled: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class _ColumnValues:
    """The column has one of these values, or is null if `null` is set."""

    values: tuple[Value, ...]
    null: bool
    parts: tuple[int, ...]  # the conjuncts that this decides


@dataclass(frozen=True, slots=True)
class _Range:
    """The column lies between two values, and is not null."""

    low: Value | None
    high: Value | None
    low_in: bool
    high_in: bool
    parts: tuple[int, ...]


_Test: TypeAlias = _ColumnValues | _Range


def index_query(fields: Sequence[Field], where: Predicate) -> IndexQuery | None:
    """The query of an index over these columns for a condition; None if the condition does not restrict them."""
    parts = conjuncts(where)
    tests = {f.name: test for f in fields if (test := _test((f.name,), parts, f)) is not None}
    usable: list[_Test] = []
    for f in fields:
        test = tests.get(f.name)
        if test is None:
            break
        usable.append(test)
        if isinstance(test, _Range):
            break
    if not usable:
        return None
    while len(usable) > 1 and _points(usable) > MOST_POINTS:
        usable.pop()
    settled = {part for test in usable for part in test.parts}
    unsettled = tuple(part for n, part in enumerate(parts) if n not in settled)
    held = conjunction(tuple(parts[n] for n in sorted(settled)))
    return IndexQuery(_query(fields, usable), len(usable), held, unsettled)


def _points(tests: Sequence[_Test]) -> int:
    return math.prod(len(t.values) + t.null for t in tests if isinstance(t, _ColumnValues))


def _test(column: Column, parts: Sequence[Predicate], field: Field) -> _Test | None:
    """The first equality on a column among conjuncts; else its range."""
    for n, part in enumerate(parts):
        allowed = _values(part, column)
        if allowed is not None:
            return _ColumnValues(*allowed, (n,))
    low: tuple[Value, bool] | None = None
    high: tuple[Value, bool] | None = None
    settled = []
    for n, part in enumerate(parts):
        match part:
            case Compare(Op.GT | Op.GE as op, c, value) if c == column and low is None:
                low = value, op is Op.GE
                settled.append(n)
            case Compare(Op.LT | Op.LE as op, c, value) if c == column and high is None:
                high = value, op is Op.LE
                settled.append(n)
            case Not(IsNull(c)) if c == column:
                settled.append(n)
            case _:
                continue
    if not settled:
        return None
    low_value, low_in = low or (None, True)
    high_value, high_in = high or (None, True)
    return _Range(low_value, high_value, low_in, high_in, tuple(settled))


def _values(part: Predicate, column: Column) -> tuple[tuple[Value, ...], bool] | None:
    """The values that a conjunct allows a column, and whether null; None if it tests something else."""
    match part:
        case Compare(Op.EQ | Op.SAME, c, value) if c == column:
            return (value,), False
        case In(c, values) if c == column:
            return values, False
        case IsNull(c) if c == column:
            return (), True
        case Or(parts):
            alternatives = [_values(one, column) for one in parts]
            if any(one is None for one in alternatives):
                return None
            allowed = [one for one in alternatives if one is not None]
            return tuple(v for values, _ in allowed for v in values), any(null for _, null in allowed)
        case _:
            return None


def _query(fields: Sequence[Field], tests: Sequence[_Test]) -> KeyQuery:
    types = [arrow_type(f.type) for f in fields]
    if len(fields) == 1:
        return _single(fields[0], types[0], tests[0])
    equal = [t for t in tests if isinstance(t, _ColumnValues)]
    arrays = [_array(t, f, type_) for t, f, type_ in zip(equal, fields, types, strict=False)]
    rows = list(product(*(range(len(a)) for a in arrays)))  # bounded by MOST_POINTS
    picked = [a.take(pa.array([row[n] for row in rows], pa.int64())) for n, a in enumerate(arrays)]
    if len(equal) == len(fields):
        return KeyQuery(points=_ascending(keys_of(picked).texts))
    prefixes = prefix_of(picked).to_pylist() if picked else [b""]
    last = tests[-1]
    low = high = None
    low_in = high_in = True
    if isinstance(last, _Range):
        field, type_ = fields[len(equal)], types[len(equal)]
        low = None if last.low is None else _one(last.low, field, type_)
        high = None if last.high is None else _one(last.high, field, type_)
        low_in, high_in = last.low_in, last.high_in
        return KeyQuery(intervals=tuple(bounded(p, low, high, low_in=low_in, high_in=high_in) for p in prefixes))
    return KeyQuery(intervals=tuple(Interval(p, after_prefix(p)) for p in prefixes))


def _single(field: Field, type_: pa.DataType, test: _Test) -> KeyQuery:
    if isinstance(test, _ColumnValues):
        if len(test.values) == 1 and type(test.values[0]) is int and pa.types.is_int64(type_):
            return KeyQuery(points=np.array(test.values, np.int64), null=test.null)
        keys = keys_of([_array(_ColumnValues(test.values, False, ()), field, type_)])
        points = np.unique(keys.codes) if keys.codes is not None else _ascending(keys.texts)
        return KeyQuery(points=points, null=test.null)
    coded = is_coded([type_])
    ends: list[Bound] = []
    for value, after in ((test.low, not test.low_in), (test.high, test.high_in)):
        if value is None:
            ends.append(None)
            continue
        keys = keys_of([_one(value, field, type_)])
        key = int(keys.codes[0]) if coded and keys.codes is not None else keys.texts[0].as_py()
        ends.append(following(key) if after else key)
    return KeyQuery(intervals=(Interval(*ends),))


def _array(test: _ColumnValues, field: Field, type_: pa.DataType) -> pa.Array:
    """The values of a test as an array of the column's type, with null last."""
    values = _converted(test.values, field, type_)
    return pa.concat_arrays([values, pa.nulls(1, values.type)]) if test.null else values


def _one(value: Value, field: Field, type_: pa.DataType) -> pa.Array:
    return _converted((value,), field, type_)


def _converted(values: Sequence[Value], field: Field, type_: pa.DataType) -> pa.Array:
    # A column of floats is compared as doubles, so a value may lie between two floats.
    return as_array(tuple(values), pa.float64() if pa.types.is_floating(type_) else type_, (field.name,))


def _ascending(texts: pa.Array) -> pa.Array:
    unique = texts.unique()
    return unique.take(pa.array(keys_of([unique]).order()))
