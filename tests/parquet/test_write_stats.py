"""Statistics of written files: against all rows, against the reader, against the protocol's rules for strings."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal as Dec
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engines.local.write import write_table
from holdfast.env import fixed
from holdfast.formats.delta.stats.reader import JsonStats
from holdfast.parquet.stats import truncated_maximum, truncated_minimum
from holdfast.parquet.write import WriteSpec
from holdfast.schema.arrow import arrow_schema
from holdfast.schema.stats_leaves import LeafPath, stats_leaves
from holdfast.schema.types import Array, DataType, Decimal, Field, Map, Primitive, Struct, leaves
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from tests.parquet.strategies import rows, schemas
from tests.support import smith_values
from tests.support.depth import examples

HIGHEST = "\U0010ffff"
LETTERS = st.sampled_from(["a", "\x7f", "é", "\uffff", "😀", HIGHEST])
TEXTS = st.text(LETTERS, max_size=80) | st.text(max_size=80)
NO_BOUNDS = ("boolean", "binary")


def written(schema: Struct, wanted: list[dict[str, Any]], **spec: Any) -> str:
    table = pa.Table.from_pylist(wanted, schema=arrow_schema(schema))
    leaves = stats_leaves(schema, (), {"delta.dataSkippingNumIndexedCols": "-1"})
    staged = write_table(
        Location(MemoryStore(), "t"), table, WriteSpec(schema.fields, stats_leaves=leaves, **spec), fixed()
    )
    assert staged.num_rows == 1
    return str(staged["stats"][0].as_py())


def column(type_: DataType, values: list[Any], **spec: Any) -> dict[str, Any]:
    schema = Struct((Field("c", type_),))
    return dict(json.loads(written(schema, [{"c": value} for value in values], **spec), parse_float=Dec))


def at(tree: dict[str, Any], path: LeafPath) -> Any:
    value: Any = tree
    for name in path:
        value = value.get(name, {}) if isinstance(value, dict) else {}
    return None if value == {} else value


def values_at(wanted: list[dict[str, Any]], path: tuple[Field, ...]) -> list[Any]:
    values: list[Any] = list(wanted)
    for f in path:
        values = [None if value is None else value[f.name] for value in values]
    return values


@examples(60)
@given(st.data())
def test_bounds_hold_every_row_and_nulls_are_counted(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    wanted = data.draw(rows(schema).filter(bool))
    text = written(schema, wanted, row_group_rows=data.draw(st.integers(1, 5)), tight_bounds=True)
    stats = json.loads(text, parse_float=Dec)
    assert (stats["numRecords"], stats["tightBounds"]) == (len(wanted), True)
    types = {tuple(f.physical_name for f in path): type_ for path, type_ in leaves(schema)}
    read = JsonStats(pa.array([text])).read(types)
    for path, type_ in leaves(schema):
        physical = tuple(f.physical_name for f in path)
        known = [value for value in values_at(wanted, path) if value is not None]
        assert at(stats["nullCount"], physical) == len(wanted) - len(known)
        low, high = at(stats["minValues"], physical), at(stats["maxValues"], physical)
        if isinstance(type_, Array | Map) or getattr(type_, "name", "") in NO_BOUNDS or not known:
            assert (low, high) == (None, None)
            continue
        floats = isinstance(known[0], float)
        assert (low is None) == (floats and math.isinf(min(known)))
        assert (high is None) == (floats and math.isinf(max(known)))
        bounds = read.bounds[physical]
        assert read_low(bounds.low) is None or all(read_low(bounds.low) <= order(value) for value in known)
        assert read_low(bounds.high) is None or all(order(value) <= read_low(bounds.high) for value in known)
        if isinstance(known[0], int | Dec):
            assert (low, high) == (min(known), max(known))
        if isinstance(known[0], dt.date) and not isinstance(known[0], dt.datetime):
            assert (low, high) == (min(known).isoformat(), max(known).isoformat())


def read_low(bound: pa.Array) -> Any:
    return order(bound[0].as_py())


def order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("type_", "values", "low", "high"),
    [
        (Primitive("timestamp"), [-1, 1_999], "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.001Z"),
        (Primitive("timestamp_ntz"), [-1, 1_999], "1969-12-31T23:59:59.999", "1970-01-01T00:00:00.001"),
        (Decimal(5, 2), [Dec("-0.05"), Dec("100.10")], Dec("-0.05"), Dec("100.10")),
        (Decimal(38, 0), [Dec(-(10**37)), Dec(10**37 + 1)], -(10**37), 10**37 + 1),
        (Decimal(38, 10), [Dec("-12345678901234567890.0123456789")], *[Dec("-12345678901234567890.0123456789")] * 2),
        (Primitive("float"), [1.1, 2.5], Dec("1.1"), Dec("2.5")),
        (Primitive("byte"), [-128, 127], -128, 127),
        (Primitive("date"), [dt.date(1, 1, 1), dt.date(9999, 12, 31)], "0001-01-01", "9999-12-31"),
    ],
)
def test_bounds_are_spelled_as_the_protocol_says(type_: DataType, values: list[Any], low: Any, high: Any) -> None:
    if isinstance(values[0], int) and "timestamp" in getattr(type_, "name", ""):
        zone = dt.UTC if type_ == Primitive("timestamp") else None
        epoch = dt.datetime(1970, 1, 1, tzinfo=zone)
        values = [epoch + dt.timedelta(microseconds=micros) for micros in values]
    stats = column(type_, [*values, None])
    assert (stats["minValues"], stats["maxValues"]) == ({"c": low}, {"c": high})
    assert stats["nullCount"] == {"c": 1}
    assert "tightBounds" not in stats


def test_nothing_is_claimed_beside_nan_or_at_infinity() -> None:
    nan, inf = math.nan, math.inf
    for type_ in (Primitive("float"), Primitive("double")):
        for values, low, high in [
            ([1.5, nan, 2.5], {"c": Dec("1.5")}, {}),
            ([nan, nan, 1.5], {"c": Dec("1.5")}, {}),
            ([nan, None], {}, {}),
            ([-inf, 2.5], {}, {"c": Dec("2.5")}),
            ([2.5, inf], {"c": Dec("2.5")}, {}),
        ]:
            for group in (1, 10):
                stats = column(type_, values, row_group_rows=group)
                assert (stats["minValues"], stats["maxValues"]) == (low, high)


def test_years_without_a_spelling_are_left_out() -> None:
    schema = Struct((Field("d", Primitive("date")), Field("t", Primitive("timestamp"))))
    table = pa.table(
        {"d": pa.array([0, 3_000_000], pa.date32()), "t": pa.array([-(2**62), 0], pa.timestamp("us", "UTC"))}
    )
    spec = WriteSpec(schema.fields, stats_leaves=(("d",), ("t",)))
    staged = write_table(Location(MemoryStore(), "t"), table, spec, fixed())
    stats = json.loads(staged["stats"][0].as_py())
    assert stats["minValues"] == {"d": "1970-01-01"}
    assert stats["maxValues"] == {"t": "1970-01-01T00:00:00.000Z"}


@examples(150)
@given(st.lists(TEXTS, min_size=1, max_size=5), st.integers(1, 3))
def test_cut_strings_still_bound_every_row(texts: list[str], group: int) -> None:
    stats = column(Primitive("string"), texts, row_group_rows=group)
    least, most = min(texts, key=str.encode), max(texts, key=str.encode)
    low, high = stats["minValues"]["c"], stats["maxValues"].get("c")
    assert least.startswith(low)
    assert high is None or high.encode() >= most.encode()
    assert len(low.encode("utf-16-le")) <= 2 * 33
    assert high is None or high == most or len(high.encode("utf-16-le")) <= 2 * 67


@given(st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=80))
def test_strings_without_surrogates_are_cut_as_the_oracle_cuts(text: str) -> None:
    assert truncated_minimum(text, 32) == smith_values.cut_low(text)
    assert truncated_maximum(text, 32) == smith_values.cut_high(text)


def test_surrogate_pairs_stay_whole() -> None:
    text = "a" * 31 + "😀😀"
    assert truncated_minimum(text, 32) == "a" * 31 + "😀"
    assert truncated_maximum(text, 32) == "a" * 31 + "😀" + HIGHEST
    assert truncated_maximum("a" * 32 + HIGHEST + "b" * 9, 32) == "a" * 32 + HIGHEST + "\x7f"
    assert truncated_maximum("a" * 32 + HIGHEST * 20, 32) == "a" * 32 + HIGHEST * 20
    assert truncated_maximum("a" * 32 + HIGHEST * 20 + "b", 32) is None


def test_strings_too_long_for_a_footer_have_bounds_too() -> None:
    for group in (1, 5):
        stats = column(Primitive("string"), ["b" * 9000, "c", "d" * 5000, None], row_group_rows=group)
        assert (stats["minValues"], stats["maxValues"]) == ({"c": "b" * 32}, {"c": "d" * 32 + "\x7f"})


def test_the_length_of_prefixes_is_a_setting() -> None:
    stats = column(Primitive("string"), ["abcdef"], string_prefix=3)
    assert (stats["minValues"], stats["maxValues"]) == ({"c": "abc"}, {"c": "abc\x7f"})


WIDE = Struct(
    (
        Field("p", Primitive("string")),
        Field("s", Struct((Field("x", Primitive("long")), Field("a.b", Array(Primitive("long")))))),
        *(Field(f"c{i}", Primitive("long")) for i in range(40)),
        Field("nothing", Primitive("void")),
    )
)


def leaf_names(clustering: tuple[LeafPath, ...] = (), **properties: str) -> list[str]:
    named = {f"delta.dataSkipping{name}": value for name, value in properties.items()}
    return ["/".join(path) for path in stats_leaves(WIDE, ("p",), named, clustering)]


def test_the_first_leaves_have_statistics() -> None:
    assert leaf_names() == ["s/x", "s/a.b", *(f"c{i}" for i in range(30))]
    assert leaf_names(NumIndexedCols="1") == ["s/x"]
    assert leaf_names(NumIndexedCols="0") == []
    assert len(leaf_names(NumIndexedCols="-1")) == 42
    assert leaf_names((("c39",), ("s", "x")), NumIndexedCols="0") == ["s/x", "c39"]


def test_or_those_the_table_lists() -> None:
    assert leaf_names(StatsColumns="c39, S.X ,gone, p") == ["s/x", "c39"]
    assert leaf_names(StatsColumns="s") == ["s/x", "s/a.b"]
    assert leaf_names(StatsColumns="`s`.`a.b`,`c1`", NumIndexedCols="3") == ["s/a.b", "c1"]
