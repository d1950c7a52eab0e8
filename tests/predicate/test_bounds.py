"""A file with a matching live row is never masked out, whatever its statistics leave unsaid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.predicate.bounds import ColumnBounds, Range, Single, may_match
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
from holdfast.schema.arrow import arrow_type
from tests.predicate import model
from tests.support.depth import examples

NAMES = tuple(model.TYPES)


@dataclass(frozen=True)
class File:
    """Rows of a file, which of them are hidden, and what its writer told of each column."""

    rows: list[dict[str, Any]]
    hidden: list[bool]
    stats: dict[str, tuple[Any, Any, int | None]]
    count: int | None

    def live(self) -> list[dict[str, Any]]:
        return [r for r, gone in zip(self.rows, self.hidden, strict=True) if not gone]


@st.composite
def files(draw: st.DrawFn, names: tuple[str, ...]) -> File:
    rows = draw(st.lists(st.fixed_dictionaries({n: st.none() | model.VALUES[n] for n in names}), max_size=4))
    hidden = draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    stats = {}
    for name in names:
        exact = sum(r[name] is None for r in rows)
        inexact = st.integers(1, len(rows) - 1) if 0 < exact < len(rows) else st.just(exact)
        nulls = draw(st.sampled_from([exact, None]) | inexact)
        stats[name] = (*draw(_bounds(name, [r[name] for r in rows if r[name] is not None])), nulls)
    return File(rows, hidden, stats, draw(st.sampled_from([len(rows), len(rows), None])))


@st.composite
def _bounds(draw: st.DrawFn, name: str, values: list[Any]) -> tuple[Any, Any]:
    """Bounds as some writer may state them: lost, widened, with or without regard to NaN."""
    if name not in model.ORDERED or not values or draw(st.integers(0, 5)) == 0:
        return None, None
    nan_counts = draw(st.booleans())
    seen = values if nan_counts else [v for v in values if v == v]
    if not seen:
        return draw(st.sampled_from([(None, None), (math.nan, math.nan), (math.inf, -math.inf)]))
    widening = draw(st.lists(model.VALUES[name].filter(lambda v: v == v), max_size=2))
    ordered = sorted([*seen, *widening], key=model.order)
    lost = draw(st.integers(0, 7))
    return None if lost == 0 else ordered[0], None if lost == 1 else ordered[-1]


def known(given: list[File], names: tuple[str, ...]) -> dict[Column, ColumnBounds]:
    def statistic(name: str, at: int, type_: pa.DataType) -> pa.Array:
        return pa.array([f.stats[name][at] for f in given], type_)

    return {
        (n,): Range(statistic(n, 0, arrow_type(t)), statistic(n, 1, arrow_type(t)), statistic(n, 2, pa.int64()))
        for n, t in model.TYPES.items()
        if n in names
    }


@st.composite
def _situations(draw: st.DrawFn) -> tuple[list[File], tuple[str, ...], Predicate]:
    names = tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)))
    given = draw(st.lists(files(names), min_size=1, max_size=3))
    return given, names, draw(model.predicates(names, Opaque("f(x)")))


@examples(120)
@given(_situations(), st.booleans())
def test_a_file_with_a_matching_live_row_is_kept(
    situation: tuple[list[File], tuple[str, ...], Predicate], all_told: bool
) -> None:
    given, names, predicate = situation
    counts = pa.array([f.count for f in given], pa.int64())
    mask = may_match(predicate, known(given, names if all_told else names[1:]), counts)
    assert mask.null_count == 0
    for file, kept in zip(given, mask.to_pylist(), strict=True):
        for opaque in (True, False, None):
            assert kept or not any(model.truth(predicate, row, opaque) is True for row in file.live())


@examples(60)
@given(
    st.lists(st.fixed_dictionaries({n: st.none() | model.VALUES[n] for n in NAMES}), min_size=1, max_size=5),
    model.predicates(NAMES),
)
def test_single_values_are_decided_exactly(values: list[dict[str, Any]], predicate: Predicate) -> None:
    singles: dict[Column, ColumnBounds] = {
        (n,): Single(pa.array([v[n] for v in values], arrow_type(t))) for n, t in model.TYPES.items()
    }
    mask = may_match(predicate, singles, pa.nulls(len(values), pa.int64()))
    assert mask.to_pylist() == [model.truth(predicate, v) is True for v in values]


def one(
    low: Any, high: Any, nulls: int | None = 0, count: int | None = 10
) -> tuple[dict[Column, ColumnBounds], pa.Array]:
    return {("v",): Range(pa.array([low]), pa.array([high]), pa.array([nulls], pa.int64()))}, pa.array(
        [count], pa.int64()
    )


V = ("v",)
PRECISE = [
    (Compare(Op.GT, V, 9), (1, 9), False),
    (Compare(Op.GE, V, 9), (1, 9), True),
    (Compare(Op.LT, V, 1), (1, 9), False),
    (Compare(Op.EQ, V, 0), (1, 9), False),
    (Compare(Op.NE, V, 5), (5, 5), False),
    (Compare(Op.NE, V, 5), (5, 6), True),
    (Compare(Op.EQ, V, 5), (1, 9, 10, 10), False),
    (Compare(Op.EQ, V, 5), (1, 9, 10, None), True),
    (Compare(Op.SAME, V, 5), (1, 9, 10, 10), False),
    (Not(Compare(Op.SAME, V, 5)), (5, 5, 0), False),
    (Not(Compare(Op.SAME, V, 5)), (5, 5, 1), True),
    (IsNull(V), (1, 9, 0), False),
    (IsNull(V), (1, 9, None), True),
    (Not(IsNull(V)), (1, 9, 10, 10), False),
    (In(V, (0, 10)), (1, 9), False),
    (In(V, (0, 5, 10)), (1, 9), True),
    (In(V, ()), (1, 9), False),
    (Not(In(V, (5, 7))), (5, 5), False),
    (Not(In(V, (5, 7))), (5, 7), True),
    (StartsWith(V, "b"), ("ba", "bz"), True),
    (StartsWith(V, "bb"), ("c", "d"), False),
    (StartsWith(V, "c"), ("a", "bz"), False),
    (StartsWith(V, "b"), ("a", "c"), True),
    (Not(StartsWith(V, "b")), ("ba", "bz"), False),
    (Compare(Op.GT, V, 9.0), (1.0, 5.0), True),
    (Compare(Op.LT, V, 1.0), (1.0, 5.0), False),
    (Compare(Op.EQ, V, 9.0), (1.0, 5.0), False),
    (Compare(Op.EQ, V, -0.0), (0.0, 5.0), True),
    (Compare(Op.EQ, V, math.nan), (1.0, 5.0), True),
    (Compare(Op.GT, V, math.nan), (1.0, math.nan), False),
    (In(V, (9.0, 10.0)), (1.0, 5.0), False),
    (In(V, (9.0, math.nan)), (1.0, 5.0), True),
    (And((Compare(Op.GT, V, 9), Opaque("f(v)"))), (1, 9), False),
    (Or((Compare(Op.GT, V, 9), Opaque("f(v)"))), (1, 9), True),
    (Not(Or((Compare(Op.LE, V, 9), Opaque("f(v)")))), (1, 9), False),
    (Constant(None), (1, 9), False),
    (Compare(Op.EQ, V, "\uffff"), ("\U00010000", "\U00010001"), False),
]


@pytest.mark.parametrize(("predicate", "stats", "kept"), PRECISE)
def test_bounds_say_as_much_as_they_can(predicate: Predicate, stats: tuple[Any, ...], kept: bool) -> None:
    low, high = stats[:2]
    nulls = stats[2] if len(stats) > 2 else 0
    count = stats[3] if len(stats) > 3 else 10
    known: dict[Column, ColumnBounds] = {V: Range(pa.array([low]), pa.array([high]), pa.array([nulls], pa.int64()))}
    assert may_match(predicate, known, pa.array([count], pa.int64())).to_pylist() == [kept]


def test_a_long_list_is_one_test_over_many_files() -> None:
    count = 100_000
    low = pa.array(range(0, count * 10, 10), pa.int64())
    ranges: dict[Column, ColumnBounds] = {
        V: Range(low, pa.array(range(5, count * 10 + 5, 10), pa.int64()), pa.nulls(count, pa.int64()))
    }
    wanted = In(V, tuple(range(3, 10_000, 20)) + tuple(range(7, 10_000, 20)))
    assert may_match(wanted, ranges, pa.nulls(count, pa.int64())).true_count == 500
