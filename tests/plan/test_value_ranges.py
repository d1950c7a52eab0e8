"""Ranges of values: nothing gets lost, and clusters stay apart."""

from __future__ import annotations

import math
from decimal import Decimal as D
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.plan.dml.value_ranges import Ranges
from tests.support.depth import examples

KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 20),
    pa.float64(): st.floats(allow_nan=False).map(lambda x: x + 0.0),
    pa.string(): st.text("ab\x7f\U00010000", max_size=12),
    pa.decimal128(38, 2): st.integers(-(10**38) + 1, 10**38 - 1).map(lambda x: D(f"{x}E-2")),
}


def empty(type_: pa.DataType) -> Ranges:
    return Ranges(pa.array([], type_), pa.array([], type_))


@examples(150)
@given(st.sampled_from(list(KINDS)), st.data())
def test_every_value_stays_in_a_range(type_: pa.DataType, data: st.DataObject) -> None:
    ranges = empty(type_)
    seen: set[Any] = set()
    for _ in range(data.draw(st.integers(1, 3))):
        values = data.draw(st.lists(KINDS[type_], max_size=12))
        limit = data.draw(st.integers(1, 12))
        seen |= set(values)
        ranges = ranges.with_values(pa.array(values, type_)).at_most(limit)
        assert len(ranges) <= limit
        # Ends alternate: a low, its high, the next low, and so on upward.
        ends = sorted((*ranges.lows.to_pylist(), *ranges.highs.to_pylist()), key=_order)
        assert ends[::2] == ranges.lows.to_pylist()
        assert ends[1::2] == ranges.highs.to_pylist()
        assert set(ends) <= seen
        points = pa.array(list(seen), type_)
        assert pc.all(ranges.meet(points, points), min_count=0).as_py()


def _order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=6), st.data())
def test_meeting_is_sharing_a_value(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    starts = sorted(dict(pairs).items())
    disjoint = [
        (low, low + n) for i, (low, n) in enumerate(starts) if i + 1 == len(starts) or low + n < starts[i + 1][0]
    ]
    ranges = Ranges(*(pa.array([d[i] for d in disjoint], pa.int64()) for i in (0, 1)))
    spans = data.draw(st.lists(st.tuples(st.none() | st.integers(-2, 40), st.none() | st.integers(-2, 40)), max_size=8))
    spans = [(a, b) for a, b in spans if a is None or b is None or a <= b]
    lows, highs = (pa.array([a[i] for a in spans], pa.int64()) for i in (0, 1))
    expected = [any((b is None or low <= b) and (a is None or high >= a) for low, high in disjoint) for a, b in spans]
    assert ranges.meet(lows, highs).to_pylist() == expected


@pytest.mark.parametrize(
    ("type_", "values", "apart"),
    [
        (pa.int64(), [-(2**63), -(2**63) + 5, 0, 3, 2**63 - 9, 2**63 - 1], [2, 2, 2]),
        (pa.int64(), [2**62, 2**62 + 1, 2**62 + 30, 2**62 + 31, 2**62 + 90], [2, 2, 1]),
        (pa.float64(), [-math.inf, -1.0, 1.0, math.inf], [1, 2, 1]),
        (pa.decimal128(9, 2), [D("0.01"), D("0.02"), D("5"), D("5.01"), D("9")], [2, 2, 1]),
        (pa.string(), ["id-1a", "id-1b", "id-5", "id-5x", "id-9", "id-9\U00010000"], [2, 2, 2]),
        (pa.string(), ["", "a", "z"], [1, 1, 1]),
    ],
)
def test_the_widest_gaps_stay(type_: pa.DataType, values: list[Any], apart: list[int]) -> None:
    ranges = empty(type_).with_values(pa.array(values, type_)).at_most(3)
    ends = [sum(apart[:i]) for i in range(4)]
    assert ranges.lows.to_pylist() == [values[i] for i in ends[:-1]]
    assert ranges.highs.to_pylist() == [values[i - 1] for i in ends[1:]]
