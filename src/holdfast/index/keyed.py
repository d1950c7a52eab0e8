"""What a lookup asks for, as a condition: values of columns, lists of them, ranges.

1. A value must be one of the column's type: what Arrow cannot make one of is refused, with the column's name.
2. None asks for null. An empty list asks for no row.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.errors import Invalid
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.request import refuse_unknown
from holdfast.predicate.parse import by_value
from holdfast.predicate.records import Compare, Constant, In, IsNull, Not, Op, Or, Predicate, Value, conjunction
from holdfast.rows.keys import is_keyable
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import Field


@dataclass(frozen=True, slots=True)
class Between:
    """A range of values; None is an open end. Null lies in no range."""

    low: Any = None
    high: Any = None
    includes_low: bool = True
    includes_high: bool = True


def between(low: Any = None, high: Any = None, *, includeLow: bool = True, includeHigh: bool = True) -> Between:
    """Values from `low` to `high`, for `lookup(day=between(a, b))`; an end that is left out or None is open."""
    return Between(low, high, includeLow, includeHigh)


def condition_of(snapshot: Snapshot, keys: Mapping[str, Any]) -> Predicate:
    """The condition that a lookup by these columns is."""
    if not keys:
        raise Invalid("a lookup names columns and their values, as in lookup(id=42) or lookup(id=[1, 2])")
    known = snapshot.schema
    refuse_unknown(list(keys), known)
    parts: list[Predicate] = []
    for name, asked in keys.items():
        field = known.find(name)
        assert field is not None, "names that are no columns are refused"
        parts.append(_part(field, asked))
    return conjunction(tuple(parts))


def _part(field: Field, asked: Any) -> Predicate:
    column = (field.name,)
    if not is_keyable(arrow_type(field.type)) or not by_value(field):
        raise Invalid(f"rows cannot be looked up by {field.name}: its values do not compare by themselves")
    if isinstance(asked, Between):
        ends = [
            Compare(op, column, _values(field, [value])[0])
            for op, value in (
                (Op.GE if asked.includes_low else Op.GT, asked.low),
                (Op.LE if asked.includes_high else Op.LT, asked.high),
            )
            if value is not None
        ]
        return conjunction(tuple(ends)) if ends else Not(IsNull(column))
    if isinstance(asked, pa.Array | pa.ChunkedArray):
        asked = asked.to_pylist()
    if isinstance(asked, np.ndarray):
        asked = asked.tolist()
    if not isinstance(asked, list | tuple | set | frozenset | range):
        return IsNull(column) if asked is None else Compare(Op.EQ, column, _values(field, [asked])[0])
    some = _values(field, [value for value in asked if value is not None])
    null = [IsNull(column)] if any(value is None for value in asked) else []
    found: list[Predicate] = [*([In(column, some)] if some else []), *null]
    if not found:
        return Constant(False)
    return found[0] if len(found) == 1 else Or(tuple(found))


def _values(field: Field, given: Iterable[Any]) -> tuple[Value, ...]:
    """Values of a column's type."""
    values = list(given)
    type_ = arrow_type(field.type)
    if len(values) == 1 and _is_plain(values[0], type_):
        return tuple(values)
    shown = f"{values[0]!r}" if values else ""
    if pa.types.is_date(type_) and any(isinstance(v, datetime.datetime) for v in values):
        raise Invalid(f"{field.name} is a date, and {shown} is a moment: give a date")
    try:
        made = pa.array(values, pa.float64() if pa.types.is_floating(type_) else type_)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise Invalid(f"{field.name} is {type_} and cannot be {shown}: {error}") from error
    return tuple(made.to_pylist())


def _is_plain(value: Any, type_: pa.DataType) -> bool:
    """Whether a value is what Arrow would make of it, without asking Arrow."""
    if type(value) is int:
        return bool(pa.types.is_int64(type_)) and -(1 << 63) <= value < 1 << 63
    return type(value) is str and bool(pa.types.is_string(type_)) and value.isascii()
