"""Conditions on rows in plain Python: the model that the vectorised code is held against."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Mapping
from decimal import Decimal as D
from typing import Any

from hypothesis import strategies as st

from holdfast.predicate.records import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Op,
    Opaque,
    Or,
    Predicate,
    StartsWith,
)
from holdfast.schema.types import DataType, Decimal, Primitive

TYPES: dict[str, DataType] = {
    "i": Primitive("integer"),
    "n": Decimal(6, 2),
    "f": Primitive("float"),
    "x": Primitive("double"),
    "s": Primitive("string"),
    "d": Primitive("date"),
    "t": Primitive("timestamp"),
    "l": Primitive("timestamp_ntz"),
    "flag": Primitive("boolean"),
    "raw": Primitive("binary"),
}
ORDERED = ("i", "n", "f", "x", "s", "d", "t", "l")


def single(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


_DOUBLES = st.sampled_from([-math.inf, -1.5, -0.1, -0.0, 0.0, 0.1, 1.5, 2.0, math.inf, math.nan])
_MOMENT = dt.datetime(2020, 1, 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.one_of(st.integers(-3, 6), st.sampled_from([-(2**31), 2**31 - 1])),
    "n": st.integers(-30, 30).map(lambda v: (D(v) / 10).quantize(D("0.01"))),
    "f": _DOUBLES.map(single),
    "x": _DOUBLES,
    "s": st.one_of(st.text("ab\x7f\uffff\U00010000", max_size=3), st.sampled_from(["", "a" * 33])),
    "d": st.integers(0, 6).map(lambda v: dt.date(2020, 1, 1) + dt.timedelta(v)),
    "t": st.integers(0, 6).map(lambda v: _MOMENT.replace(tzinfo=dt.UTC) + dt.timedelta(microseconds=v)),
    "l": st.integers(0, 6).map(lambda v: _MOMENT + dt.timedelta(microseconds=v)),
    "flag": st.booleans(),
    "raw": st.binary(max_size=2),
}
# A float column is compared with doubles, which need not be floats.
WANTED = {**VALUES, "f": _DOUBLES}


def leaves(columns: tuple[str, ...]) -> st.SearchStrategy[Predicate]:
    def of(name: str) -> st.SearchStrategy[Predicate]:
        column = (name,)
        tests: list[st.SearchStrategy[Predicate]] = [
            st.builds(Compare, st.sampled_from(Op), st.just(column), WANTED[name]),
            st.builds(In, st.just(column), st.lists(WANTED[name], max_size=4).map(tuple)),
            st.just(IsNull(column)),
        ]
        if name == "s":
            tests.append(st.builds(StartsWith, st.just(column), VALUES["s"]))
        return st.one_of(tests)

    return st.sampled_from(columns).flatmap(of)


def predicates(columns: tuple[str, ...], *extra: Predicate) -> st.SearchStrategy[Predicate]:
    constants = st.sampled_from([Constant(True), Constant(False), Constant(None), *extra])
    return st.recursive(
        st.one_of(leaves(columns), leaves(columns), leaves(columns), constants),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda p: And(tuple(p))),
            st.lists(inner, max_size=3).map(lambda p: Or(tuple(p))),
            inner.map(Not),
        ),
        max_leaves=5,
    )


def truth(predicate: Predicate, row: Mapping[str, Any], opaque: bool | None = None) -> bool | None:
    """The truth value of a predicate on one row; every opaque part is taken to be `opaque`."""
    match predicate:
        case And(parts):
            truths = [truth(p, row, opaque) for p in parts]
            return False if False in truths else None if None in truths else True
        case Or(parts):
            truths = [truth(p, row, opaque) for p in parts]
            return True if True in truths else None if None in truths else False
        case Not(part):
            inner = truth(part, row, opaque)
            return None if inner is None else not inner
        case Constant(value):
            return value
        case Opaque():
            return opaque
        case IsNull(column):
            return _at(row, column) is None
        case StartsWith(column, prefix):
            value = _at(row, column)
            return None if value is None else bool(value.startswith(prefix))
        case In(column, values):
            value = _at(row, column)
            return None if value is None else any(order(value) == order(v) for v in values)
        case Compare(op, column, wanted):
            value = _at(row, column)
            if value is None:
                return False if op is Op.SAME else None
            left, right = order(value), order(wanted)
            found_by: dict[Op, bool] = {
                Op.EQ: left == right,
                Op.SAME: left == right,
                Op.NE: left != right,
                Op.LT: left < right,
                Op.LE: left <= right,
                Op.GT: left > right,
                Op.GE: left >= right,
            }
            return found_by[op]


def _at(row: Mapping[str, Any], column: Column) -> Any:
    value: Any = row
    for name in column:
        value = None if value is None else value[name]
    return value


def order(value: Any) -> Any:
    """A key that sorts as Spark does."""
    match value:
        case str():
            return value.encode()
        case float():
            return (1, 0.0) if math.isnan(value) else (0, value)
        case _:
            return value
