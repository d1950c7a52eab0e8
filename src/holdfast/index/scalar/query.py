"""What of a condition an index can answer: the keys it asks for, and what is left to check on rows.

1. Every row that satisfies the condition has a key the query asks for; so hits are checked only for what is left.
2. Equality of the first columns of an index, and a range or equality of the next, is what a query is made of.
3. A query never asks for keys that no row could have by the condition, other than for columns it leaves open.
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
    """Keys that are asked for: single ones, ascending and each once; intervals; and null, for a single column."""

    points: Numbers | pa.Array | None = None  # codes, or texts
    intervals: tuple[Interval, ...] = ()
    null: bool = False


@dataclass(frozen=True)
class IndexQuery:
    """A query, how many of the index's columns it is about, and the parts of the condition it does not settle."""

    query: KeyQuery
    columns: int
    settled: Predicate
    left: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class _ColumnValues:
    """A column is one of some values, or null where that is asked for."""

    values: tuple[Value, ...]
    null: bool
    parts: tuple[int, ...]  # conjuncts that this settles


@dataclass(frozen=True, slots=True)
class _Range:
    """A column lies between two values, and is not null."""

    low: Value | None
    high: Value | None
    low_in: bool
    high_in: bool
    parts: tuple[int, ...]


_Test: TypeAlias = _ColumnValues | _Range


def asked_of(fields: Sequence[Field], where: Predicate) -> IndexQuery | None:
    """What an index over these columns can be asked for a condition; None where nothing of it helps."""
    parts = conjuncts(where)
    tests = {f.name: test for f in fields if (test := _test((f.name,), parts, f)) is not None}
    taken: list[_Test] = []
    for f in fields:
        test = tests.get(f.name)
        if test is None:
            break
        taken.append(test)
        if isinstance(test, _Range):
            break
    if not taken:
        return None
    while len(taken) > 1 and _points(taken) > MOST_POINTS:
        taken.pop()
    settled = {part for test in taken for part in test.parts}
    left = tuple(part for n, part in enumerate(parts) if n not in settled)
    held = conjunction(tuple(parts[n] for n in sorted(settled)))
    return IndexQuery(_query(fields, taken), len(taken), held, left)


def _points(tests: Sequence[_Test]) -> int:
    return math.prod(len(t.values) + t.null for t in tests if isinstance(t, _ColumnValues))


def _test(column: Column, parts: Sequence[Predicate], field: Field) -> _Test | None:
    """The first equality on a column among parts that all hold; else its range."""
    for n, part in enumerate(parts):
        found = _values(part, column)
        if found is not None:
            return _ColumnValues(*found, (n,))
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
    """The values that a part allows a column, and whether null; None where it is about something else."""
    match part:
        case Compare(Op.EQ | Op.SAME, c, value) if c == column:
            return (value,), False
        case In(c, values) if c == column:
            return values, False
        case IsNull(c) if c == column:
            return (), True
        case Or(parts):
            found = [_values(one, column) for one in parts]
            if any(one is None for one in found):
                return None
            known = [one for one in found if one is not None]
            return tuple(v for values, _ in known for v in values), any(null for _, null in known)
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
    """The values of a test as an array of the column's type, a null last where it is asked for."""
    values = _converted(test.values, field, type_)
    return pa.concat_arrays([values, pa.nulls(1, values.type)]) if test.null else values


def _one(value: Value, field: Field, type_: pa.DataType) -> pa.Array:
    return _converted((value,), field, type_)


def _converted(values: Sequence[Value], field: Field, type_: pa.DataType) -> pa.Array:
    # A column of floats is compared as doubles, so what is asked for may lie between two floats.
    return as_array(tuple(values), pa.float64() if pa.types.is_floating(type_) else type_, (field.name,))


def _ascending(texts: pa.Array) -> pa.Array:
    unique = texts.unique()
    return unique.take(pa.array(keys_of([unique]).order()))
