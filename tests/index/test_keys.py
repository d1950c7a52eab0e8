"""Keys in the order that machines compare: as values compare, for every type, alone and together."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rows.keys import Interval, SortedCodes, SortedTexts, following, is_coded, keys_of
from tests.support.depth import examples

doubles = st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1e-320, -1.5]) | st.floats()
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "byte": (pa.int8(), st.integers(-128, 127)),
    "double": (pa.float64(), doubles),
    "float": (pa.float32(), st.floats(width=32)),
    "text": (
        pa.string(),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(["a", "a\0"]),
    ),
    "binary": (pa.binary(), st.binary(max_size=12) | st.sampled_from([b"", b"\0", b"\0\0", b"\xff", b"\0\xff"])),
    "date": (pa.date32(), st.dates()),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        st.datetimes(timezones=st.just(datetime.UTC)),
    ),
    "small decimal": (pa.decimal128(10, 2), st.decimals(-99999999, 99999999, places=2)),
    "decimal": (pa.decimal128(38, 3), st.decimals(-(10**34), 10**34, places=3, allow_nan=False)),
    "boolean": (pa.bool_(), st.booleans()),
}


def rank(value: Any) -> Any:
    """A value by what it compares as: null first, NaN last, one zero."""
    if value is None:
        return (0, 0)
    if isinstance(value, float):
        return (2, 0) if math.isnan(value) else (1, value + 0.0)
    if isinstance(value, str):
        return (1, value.encode())
    return (1, value)


@pytest.mark.parametrize("name", TYPES)
@examples(30)
@given(data=st.data())
def test_keys_of_one_column_are_in_the_order_of_its_values(name: str, data: st.DataObject) -> None:
    type_, values = TYPES[name]
    given_ = data.draw(st.lists(st.none() | values, max_size=20))
    column = pa.chunked_array([pa.array(given_[:3], type_), pa.array(given_[3:], type_)])
    stored = column.to_pylist()
    order = keys_of([column]).order().tolist()
    assert order == sorted(range(len(stored)), key=lambda row: rank(stored[row]))
    known = keys_of([column]).known.to_pylist()
    for row, key in enumerate(known):
        assert [other == key for other in known] == [rank(value) == rank(stored[row]) for value in stored]


@examples(60)
@given(data=st.data())
def test_keys_of_several_columns_are_in_the_order_of_their_values(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=2, max_size=3))
    rows = data.draw(st.lists(st.tuples(*(st.none() | TYPES[name][1] for name in names)), max_size=15))
    columns = [pa.array([row[n] for row in rows], TYPES[name][0]) for n, name in enumerate(names)]
    stored = list(zip(*(column.to_pylist() for column in columns), strict=True))
    order = keys_of(columns).order().tolist()
    assert order == sorted(range(len(rows)), key=lambda row: tuple(map(rank, stored[row])))


@examples(60)
@given(
    held=st.lists(st.binary(max_size=10).map(lambda tail: b"user-" + tail), max_size=30),
    asked=st.lists(st.binary(max_size=14), max_size=6),
)
def test_texts_are_found_where_they_are(held: list[bytes], asked: list[bytes]) -> None:
    ordered = sorted(held)
    texts = SortedTexts(pa.array(ordered, pa.binary()))
    wanted = [*asked, *held[:3], b"user", b"user-", b"v"]
    lows, highs = texts.equal(pa.array(wanted, pa.binary()))
    for key, low, high in zip(wanted, lows.tolist(), highs.tolist(), strict=True):
        assert ordered[low:high] == [text for text in ordered if text == key]
    for low_key in wanted[:3]:
        for high_key in (None, b"user-\x80", low_key + b"z"):
            low, high = texts.between(Interval(low_key, high_key))
            found = [text for text in ordered if text >= low_key and (high_key is None or text < high_key)]
            assert ordered[low:high] == found


@examples(40)
@given(held=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30), asked=st.integers(-(2**63), 2**63 - 1))
def test_codes_are_found_where_they_are(held: list[int], asked: int) -> None:
    codes = keys_of([pa.array(sorted(held), pa.int64())]).codes
    assert codes is not None
    low, high = SortedCodes(codes).between(Interval(asked, following(asked)))
    assert sorted(held)[low:high] == [value for value in held if value == asked]
    assert SortedCodes(codes).between(Interval(None, None)) == (0, len(held))


def test_decimals_beyond_eighteen_digits_are_texts() -> None:
    assert is_coded([pa.decimal128(18, 2)])
    assert not is_coded([pa.decimal128(19, 2)])
    wide = pa.array([Decimal("-0.5"), Decimal(0), Decimal("0.5")], pa.decimal128(38, 1))
    assert keys_of([wide]).order().tolist() == [0, 1, 2]
