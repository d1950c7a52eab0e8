"""Converts the arguments of a lookup (values, lists of values, ranges) into a condition.

1. A value must fit the column's type: a value that Arrow cannot convert is refused, with the column's name.
2. None means null. An empty list means no row.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
import pyarrow as pa

from holdfast.errors import Invalid
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.request import refuse_unknown
from holdfast.predicate.parse import compares_as_stored
from holdfast.predicate.records import Compare, Constant, In, IsNull, Not, Op, Or, Predicate, Value, conjunction
from holdfast.rows.keys import is_keyable
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import Field


@dataclass(frozen=True, slots=True)
class Between:
    """A range of values; None is an open end. Null lies in no range."""

    low: object = None
    high: object = None
    includes_low: bool = True
    includes_high: bool = True


def between(low: object = None, high: object = None, *, includeLow: bool = True, includeHigh: bool = True) -> Between:
    """Values from `low` to `high`, for `lookup(day=between(a, b))`; an end that is left out or None is open."""
    return Between(low, high, includeLow, includeHigh)


def condition_of(snapshot: Snapshot, keys: Mapping[str, object]) -> Predicate:
    if not keys:
        raise Invalid("a lookup names columns and their values, as in lookup(id=42) or lookup(id=[1, 2])")
    schema = snapshot.schema
    refuse_unknown(list(keys), schema)
    parts: list[Predicate] = []
    for name, value in keys.items():
        field = schema.find(name)
        assert field is not None, "names that are no columns are refused"
        parts.append(_part(field, value))
    return conjunction(tuple(parts))


def _part(field: Field, wanted: object) -> Predicate:
    column = (field.name,)
    if not is_keyable(arrow_type(field.type)) or not compares_as_stored(field):
        raise Invalid(f"rows cannot be looked up by {field.name}: its values do not compare by themselves")
    if isinstance(wanted, Between):
        ends = [
            Compare(op, column, _values(field, [each])[0])
            for op, each in (
                (Op.GE if wanted.includes_low else Op.GT, wanted.low),
                (Op.LE if wanted.includes_high else Op.LT, wanted.high),
            )
            if each is not None
        ]
        return conjunction(tuple(ends)) if ends else Not(IsNull(column))
    if isinstance(wanted, pa.Array | pa.ChunkedArray):
        wanted = wanted.to_pylist()
    if isinstance(wanted, np.ndarray):
        wanted = wanted.tolist()
    if not isinstance(wanted, list | tuple | set | frozenset | range):
        return IsNull(column) if wanted is None else Compare(Op.EQ, column, _values(field, [wanted])[0])
    some = _values(field, [each for each in wanted if each is not None])
    null = [IsNull(column)] if any(each is None for each in wanted) else []
    alternatives: list[Predicate] = [*([In(column, some)] if some else []), *null]
    if not alternatives:
        return Constant(False)
    return alternatives[0] if len(alternatives) == 1 else Or(tuple(alternatives))


def _values(field: Field, given: Iterable[object]) -> tuple[Value, ...]:
    """Values converted to a column's type."""
    values = list(given)
    type_ = arrow_type(field.type)
    if len(values) == 1 and _is_plain(values[0], type_):
        return (values[0],)
    first_text = f"{values[0]!r}" if values else ""
    if pa.types.is_date(type_) and any(isinstance(v, datetime.datetime) for v in values):
        raise Invalid(f"{field.name} is a date, and {first_text} is a moment: give a date")
    try:
        array = pa.array(values, pa.float64() if pa.types.is_floating(type_) else type_)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise Invalid(f"{field.name} is {type_} and cannot be {first_text}: {error}") from error
    return tuple(array.to_pylist())


def _is_plain(value: object, type_: pa.DataType) -> TypeGuard[int | str]:
    """Whether Arrow would leave a value as it is."""
    if type(value) is int:
        return bool(pa.types.is_int64(type_)) and -(1 << 63) <= value < 1 << 63
    return type(value) is str and bool(pa.types.is_string(type_)) and value.isascii()
