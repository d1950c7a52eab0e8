"""Statistics as texts and structs: exact values, nulls where unknown, and bounds that cover all rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Number
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.formats.delta.stats.reader import JsonStats, StructStats
from holdfast.model.files import Bounds, FileStats
from holdfast.schema.types import Array, DataType, Decimal, Primitive
from tests.support.depth import examples

LONG, DOUBLE, STRING = Primitive("long"), Primitive("double"), Primitive("string")
TIMESTAMP, NTZ = Primitive("timestamp"), Primitive("timestamp_ntz")


def text(low: Any, high: Any, nulls: Any = 0, records: Any = 5) -> str:
    return json.dumps(
        {"numRecords": records, "minValues": {"c": low}, "maxValues": {"c": high}, "nullCount": {"c": nulls}}
    )


def read(texts: list[str | None], type_: DataType) -> tuple[FileStats, Bounds]:
    stats = JsonStats(pa.array(texts, pa.string())).read({("c",): type_})
    return stats, stats.bounds[("c",)]


def limits(texts: list[str | None], type_: DataType) -> list[tuple[Any, Any]]:
    _, column = read(texts, type_)
    return list(zip(column.low.to_pylist(), column.high.to_pylist(), strict=True))


def number(literal: str) -> str:
    """A text with a bare JSON number on both sides, spelled exactly so."""
    return f'{{"numRecords":1,"minValues":{{"c":{literal}}},"maxValues":{{"c":{literal}}}}}'


def test_a_plain_text_reads_exactly() -> None:
    stats, column = read([text(1, 9, 2), text(-3, 2**62 + 1, 0)], LONG)
    assert stats.num_records.to_pylist() == [5, 5]
    assert stats.tight.to_pylist() == [True, True]
    assert column.low.to_pylist() == [1, -3]
    assert column.high.to_pylist() == [9, 2**62 + 1]
    assert column.null_count.to_pylist() == [2, 0]
    assert (column.low.type, column.null_count.type, stats.num_records.type) == (pa.int64(), pa.int64(), pa.int64())


SILENT = [
    None,
    "",
    "   ",
    "null",
    "[1]",
    "5",
    "nonsense",
    '{"numRecords":1',
    "{}{}",
    '{"numRecords":1} null',
    "{} {}",
    "\x00",
]


@pytest.mark.parametrize("odd", SILENT)
def test_a_text_that_is_no_object_says_nothing_and_moves_nothing(odd: str | None) -> None:
    stats, column = read([text(1, 2), odd, text(3, 4)], LONG)
    assert stats.num_records.to_pylist() == [5, None, 5]
    assert column.low.to_pylist() == [1, None, 3]
    assert stats.tight.to_pylist() == [True, True, True]


def test_texts_that_only_parse_together_say_nothing() -> None:
    stats, _ = read(['{"a":"}', '{","numRecords":1}', '{"numRecords":2}{"numRecords":3}', text(1, 2)], LONG)
    assert stats.num_records.to_pylist() == [None, None, None, 5]


def test_no_texts_at_all() -> None:
    stats = JsonStats(pa.array([], pa.string())).read({("c",): LONG})
    assert len(stats.num_records) == len(stats.bounds[("c",)].low) == 0
    assert JsonStats(pa.chunked_array([], pa.string())).read({}).num_records.to_pylist() == []


def test_a_wrong_value_costs_only_itself() -> None:
    assert limits([text("5", 6), text(1.5, 2.0), text(True, 2), text(2**63, 3), text({"x": 1}, [4])], LONG) == [
        (None, 6),
        (None, 2),
        (None, 2),
        (None, 3),
        (None, None),
    ]
    stats, column = read([text(1, 2, nulls=-1, records=-5), text(1, 2, nulls="0", records=1.0)], LONG)
    assert stats.num_records.to_pylist() == [None, 1]
    assert column.null_count.to_pylist() == [None, None]


def test_the_last_of_repeated_keys_counts() -> None:
    stats, _ = read(['{"numRecords":1,"numRecords":2}'], LONG)
    assert stats.num_records.to_pylist() == [2]


def test_narrow_types_refuse_what_does_not_fit() -> None:
    assert limits([text(1, 127), text(-129, 128)], Primitive("byte")) == [(1, 127), (None, None)]
    assert limits([text(1, 2**31)], Primitive("integer")) == [(1, None)]


def test_tight_bounds() -> None:
    texts = ['{"numRecords":1,"tightBounds":false}', '{"tightBounds":true}', '{"tightBounds":"no"}', '{"numRecords":1}']
    stats, _ = read(texts, LONG)  # type: ignore[arg-type]  # list is invariant
    assert stats.tight.to_pylist() == [False, True, False, True]


def test_floating_points() -> None:
    texts = [text(-1.5, 2.5), text("-Infinity", "Infinity"), text("NaN", "NaN"), text(1, 2), text("1.5", "x")]
    want = [(-1.5, 2.5), (float("-inf"), float("inf")), (None, None), (1.0, 2.0), (None, None)]
    assert limits(texts, DOUBLE) == want
    assert limits(texts, Primitive("float")) == want
    assert limits([number("NaN"), number("1e400"), number("1e-400")], DOUBLE)[:2] == [(None, None), (None, None)]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@examples(200)
def test_a_float_stat_still_bounds_the_column_as_a_double(value: float) -> None:
    literal = str(np.float32(value))  # how a writer with a float column prints it
    ((low, high),) = limits([number(literal)], DOUBLE)
    assert low <= value <= high
    assert limits([number(literal)], Primitive("float")) == [(value, value)]


@given(st.floats(allow_nan=False, allow_infinity=False))
@examples(200)
def test_doubles_are_bounded_closely(value: float) -> None:
    ((low, high),) = limits([number(repr(value))], DOUBLE)
    assert low <= value <= high
    assert high - low <= max(abs(value) * 1e-7, 1e-44)


def test_decimals_are_exact() -> None:
    exact = [
        (Number("1.50"), Number("1.50")),
        (Number("1000.00"), Number("1000.00")),
        (Number("-0.01"), Number("-0.01")),
    ]
    assert limits([number("1.5"), number("1e3"), number("-0.01")], Decimal(10, 2)) == exact
    assert limits([number("1.234"), number("123456789"), number("1.5")], Decimal(10, 2)) == [
        (None, None),
        (None, None),
        (Number("1.50"), Number("1.50")),
    ]
    assert limits([text("1.5", True)], Decimal(10, 2)) == [(None, None)]


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38))
@examples(200)
def test_decimals_survive_a_writer_that_used_doubles(unscaled: int, scale: int) -> None:
    value = Number(unscaled).scaleb(-scale)
    through_double = Number(repr(float(value)))
    for literal in (f"{value:f}", str(value), f"{through_double:f}"):
        ((low, high),) = limits([number(literal)], Decimal(38, scale))
        assert low is None or low <= value
        assert high is None or value <= high


def test_strings_are_bounds_as_they_stand_unless_possibly_cut() -> None:
    cut, emoji = "x" * 32, "😀" * 16  # 32 UTF-16 units
    assert limits([text("a", "b"), text(cut, cut), text(emoji, emoji), text("😀" * 32, "😀" * 32)], STRING) == [
        ("a", "b"),
        (cut, None),
        (emoji, None),
        ("😀" * 32, None),
    ]
    kept = [text(cut, cut + "\x7f"), text("", "x" * 31), text('a}b{"', "}x"), text(3, True)]
    assert limits(kept, STRING) == [(cut, cut + "\x7f"), ("", "x" * 31), ('a}b{"', "}x"), (None, None)]


def test_dates() -> None:
    assert limits(
        [text("2020-01-31", "0001-01-01"), text("2020-02-30", "soon"), text("+10000-01-01", 5)], Primitive("date")
    ) == [
        (date(2020, 1, 31), date(1, 1, 1)),
        (None, None),
        (None, None),
    ]


def at(*args: int) -> datetime:
    return datetime(*args, tzinfo=UTC)  # type: ignore[misc,arg-type]  # the parts of a datetime


def test_timestamps_reach_the_next_millisecond() -> None:
    spelled = [
        "2020-01-01T00:00:00.123Z",
        "2020-01-01T02:00:00.123+02:00",
        "2020-01-01T00:00:00.123",
        "2020-01-01 00:00:00.123Z",
        "2020-01-01T00:00:00.123000999Z",
    ]
    want = (at(2020, 1, 1, 0, 0, 0, 123000), at(2020, 1, 1, 0, 0, 0, 124000))
    assert limits([text(s, s) for s in spelled], TIMESTAMP) == [want] * len(spelled)
    assert limits([text(spelled[0], spelled[0])], TIMESTAMP) == [want]
    assert limits([text("2020-13-01T00:00:00Z", "later"), text(5, None)], TIMESTAMP) == [(None, None)] * 2
    late = "2020-01-01T00:00:00.123456Z"
    assert limits([text(late, late)], TIMESTAMP) == [(at(2020, 1, 1, 0, 0, 0, 123456), at(2020, 1, 1, 0, 0, 0, 124456))]


def test_timestamps_without_zone() -> None:
    day = datetime(2020, 1, 1)
    spelled = ["2020-01-01T00:00:00", "2020-01-01T00:00:00.000Z", "2020-01-01", "2020-01-01 00:00:00.000"]
    assert limits([text(s, s) for s in spelled], NTZ) == [(day, day + timedelta(milliseconds=1))] * 4
    assert limits([text("2020-01-01T00:00:00+02:00", "x")], NTZ) == [(None, None)]


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)))
@examples(100)
def test_a_row_lies_within_its_own_truncated_stat(moment: datetime) -> None:
    cut = moment.replace(microsecond=moment.microsecond // 1000 * 1000).isoformat(timespec="milliseconds")
    ((low, high),) = limits([text(cut, cut)], NTZ)
    assert low <= moment <= high
    ((low, high),) = limits([text(cut + "Z", cut + "Z")], TIMESTAMP)
    assert low <= moment.replace(tzinfo=UTC) <= high


def test_the_last_microsecond_does_not_wrap() -> None:
    end = pa.array([2**63 - 1], pa.int64()).view(pa.timestamp("us", tz="UTC"))
    (high,) = (
        struct({"maxValues": {"c": end}}).read({("c",): TIMESTAMP}).bounds[("c",)].high.view(pa.int64()).to_pylist()
    )
    assert high == 2**63 - 1


def test_kinds_without_limits_still_count_nulls() -> None:
    for type_ in (Primitive("binary"), Array(LONG), Primitive("void"), Primitive("variant")):
        _, column = read([text("a", "b", 3)], type_)
        assert (column.low.to_pylist(), column.high.to_pylist(), column.null_count.to_pylist()) == ([None], [None], [3])
    assert limits([text(False, True), text(0, 1)], Primitive("boolean")) == [(False, True), (None, None)]


def test_names_may_be_anything_and_nest() -> None:
    path, other = ("a.b", "c d", "é😀"), ("a.b", "x")
    raw = {"numRecords": 1, "minValues": {"a.b": {"c d": {"é😀": 7}, "x": "s"}}, "nullCount": {"a.b": None}}
    for spelled in (json.dumps(raw), json.dumps(raw, ensure_ascii=False)):
        columns = JsonStats(pa.array([spelled, '{"minValues":{"a.b":5}}'])).read({path: LONG, other: STRING}).bounds
        assert columns[path].low.to_pylist() == [7, None]
        assert columns[other].low.to_pylist() == ["s", None]


def test_a_text_longer_than_a_slice() -> None:
    raw = json.dumps({"numRecords": 3, "pad": "x" * 3_000_000, "minValues": {"c": 4}})
    stats, column = read([text(1, 2), raw, text(5, 6)], LONG)
    assert stats.num_records.to_pylist() == [5, 3, 5]
    assert column.low.to_pylist() == [1, 4, 5]


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=5),
    st.just("NaN"),
    st.just([1]),
)
objects = st.fixed_dictionaries({}, optional={"numRecords": values, "minValues": st.dictionaries(st.just("c"), values)})


@given(st.lists(st.one_of(objects.map(json.dumps), st.none(), st.text(max_size=8)), max_size=30))
@examples(25)
def test_texts_together_read_as_each_alone(texts: list[str | None]) -> None:
    for type_ in (LONG, STRING, DOUBLE, Decimal(12, 3), TIMESTAMP):
        stats, column = read(texts, type_)
        for i, one in enumerate(texts):
            alone, bounds = read([one], type_)
            assert stats.num_records[i].as_py() == alone.num_records[0].as_py()
            assert column.low[i].as_py() == bounds.low[0].as_py()


def test_many_slices_keep_their_order() -> None:
    count = 30_000
    stats, column = read([text(i, i + 1) if i % 7 else None for i in range(count)], LONG)
    assert column.low.to_pylist() == [i if i % 7 else None for i in range(count)]
    assert len(stats.num_records) == count


def test_filter_and_take_align() -> None:
    for source in (
        JsonStats(pa.array([text(i, i) for i in range(4)])),
        struct({"numRecords": [0, 1, 2, 3], "minValues": {"c": [0, 1, 2, 3]}}),
    ):
        kept = source.filter(pa.array([True, False, True, False]))
        assert kept.read({("c",): LONG}).bounds[("c",)].low.to_pylist() == [0, 2]
        assert len(kept) == 2
        assert source.take(pa.array([3, 0])).read({("c",): LONG}).bounds[("c",)].low.to_pylist() == [3, 0]
        assert len(source) == 4


def struct(parts: Mapping[str, Any], texts: list[str | None] | None = None) -> StructStats:
    return StructStats(_struct(parts), None if texts is None else pa.array(texts, pa.string()))


def _struct(parts: Mapping[str, Any]) -> pa.Array:
    arrays = [
        _struct(p) if isinstance(p, Mapping) else p if isinstance(p, pa.Array) else pa.array(p) for p in parts.values()
    ]
    return pa.StructArray.from_arrays(arrays, names=list(parts))


WIDENED = [
    (pa.array([5], pa.int32()), LONG, 5),
    (pa.array([5], pa.int16()), DOUBLE, 5.0),
    (pa.array([5], pa.int32()), Decimal(12, 2), Number("5.00")),
    (pa.array([5], pa.int64()), Decimal(20, 0), Number(5)),
    (pa.array([1.1], pa.float32()), DOUBLE, float(np.float32(1.1))),
    (pa.array([date(2020, 1, 1)]), NTZ, datetime(2020, 1, 1)),
    (pa.array([Number("1.5")], pa.decimal128(3, 1)), Decimal(10, 3), Number("1.500")),
    (pa.array([-1], pa.int64()).view(pa.timestamp("ns")), NTZ, datetime(1969, 12, 31, 23, 59, 59, 999999)),
    (pa.array(["2020-01-01T00:00:00Z"]), TIMESTAMP, at(2020, 1, 1)),
    (pa.array(["a"]).dictionary_encode(), STRING, "a"),
    (pa.array(["a"]), LONG, None),
    (pa.array([2**40]), Primitive("integer"), None),
    (pa.array([1.5]), Decimal(10, 2), None),
    (pa.array([1.5]), Primitive("float"), None),
    (pa.array([b"a"]), STRING, None),
    (pa.array([date(2020, 1, 1)]), TIMESTAMP, None),
]


@pytest.mark.parametrize(("stored", "type_", "want"), WIDENED)
def test_structs_of_an_older_type(stored: pa.Array, type_: DataType, want: Any) -> None:
    column = struct({"numRecords": [1], "minValues": {"c": stored}}).read({("c",): type_}).bounds[("c",)]
    assert column.low.to_pylist() == [want]
    assert column.high.to_pylist() == [None]
    assert column.null_count.to_pylist() == [None]


def test_a_text_answers_where_the_struct_is_silent() -> None:
    parsed = pa.array(
        [
            {"numRecords": 1, "minValues": {"c": 10}, "maxValues": {"c": 11}, "nullCount": {"c": 0}},
            None,
            {"numRecords": None, "minValues": {"c": None}, "maxValues": {"c": None}, "nullCount": {"c": None}},
            {"numRecords": 4, "minValues": {"c": None}, "maxValues": {"c": None}, "nullCount": {"c": 4}},
            None,
        ]
    )
    loose = '{"numRecords":5,"minValues":{"c":1},"tightBounds":false}'
    stats = StructStats(parsed, pa.array([text(98, 99), loose, text(2, 3), text(98, 99), None])).read({("c",): LONG})
    assert stats.num_records.to_pylist() == [1, 5, 5, 4, None]
    assert stats.bounds[("c",)].low.to_pylist() == [10, 1, 2, None, None]
    assert stats.bounds[("c",)].high.to_pylist() == [11, None, 3, None, None]
    assert stats.bounds[("c",)].null_count.to_pylist() == [0, None, 0, 4, None]
    assert stats.tight.to_pylist() == [True, False, True, True, True]


def test_a_struct_without_anything_known() -> None:
    stats = struct({"other": [1, 2]}, [None, text(1, 2)]).read({("c",): Primitive("void"), ("d", "e"): LONG})
    assert stats.num_records.to_pylist() == [None, 5]
    assert stats.bounds[("d", "e")].low.to_pylist() == [None, None]
    assert stats.bounds[("c",)].null_count.to_pylist() == [None, 0]
