"""Rows made and checked with Arrow."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engines.local.constraints import prepare
from holdfast.errors import ConstraintViolated, Invalid, LimitReached, Unsupported
from holdfast.schema.arrow import arrow_schema
from holdfast.schema.constraints import demands
from holdfast.schema.enforce import Assignment, fit
from holdfast.schema.from_arrow import struct_of
from holdfast.schema.identity import identity_metadata
from holdfast.schema.types import LONG, STRING, DataType, Decimal, Field, Primitive, Struct
from tests.support.demanding import BROKEN, DEMANDING, FINE, GOOD, SMALL, schema
from tests.support.depth import examples


def rows(*changes: dict[str, object]) -> pa.Table:
    loose = schema("v long, d string, s struct<a: long, b: string, c: array<struct<x: long, y: int>>>")
    inside = schema("l array<struct<p: int>>, m map<string, struct<q: long>>")
    return pa.Table.from_pylist([{**GOOD, **c} for c in changes], arrow_schema(Struct((*loose.fields, *inside.fields))))


def test_good_rows_pass() -> None:
    incoming = rows(*FINE)
    made = fit(struct_of(incoming.schema), DEMANDING)
    got = prepare(incoming, made, demands(DEMANDING, SMALL, made))
    assert got.table.select(incoming.column_names).to_pylist() == incoming.to_pylist()
    assert got.table.column("n").to_pylist() == [10, 15, 20, 25]
    assert got.marks == {"n": 25}


@pytest.mark.parametrize(("change", "name"), BROKEN)
def test_the_first_bad_row_is_named_and_shown(change: dict[str, object], name: str) -> None:
    incoming = rows({}, {"d": "before"}, change, {"v": 9}) if name != "small" else rows({}, {}, change)
    made = fit(struct_of(incoming.schema), DEMANDING)
    with pytest.raises(ConstraintViolated) as caught:
        prepare(incoming.slice(1), made, demands(DEMANDING, SMALL, made))
    assert caught.value.constraint == name
    assert "n=15" in caught.value.row or "n=20" in caught.value.row
    assert caught.value.row in str(caught.value)


@examples(50)
@given(st.lists(st.sampled_from([None, 1, 9]), max_size=6), st.integers(0, 3))
def test_slices_and_chunks_do_not_matter(values: list[int | None], offset: int) -> None:
    incoming = pa.table({"v": pa.chunked_array([pa.array(values[:2], pa.int32()), pa.array(values[2:], pa.int32())])})
    table = schema("v long not null")
    made = fit(struct_of(incoming.schema), table)
    part = incoming.slice(offset)
    if None in values[offset:]:
        with pytest.raises(ConstraintViolated, match="v=null"):
            prepare(part, made, demands(table, {}, made))
    else:
        assert prepare(part, made, demands(table, {}, made)).table.column("v").to_pylist() == values[offset:]


def test_columns_are_made_as_the_fit_says() -> None:
    inner = pa.struct({"B": pa.string(), "A": pa.int8()})
    incoming = pa.table(
        {
            "L": pa.array([[{"B": "x", "A": 1}, None], None, []], pa.list_(inner)),
            "m": pa.array([[("k", 1)], None, [("j", None)]], pa.map_(pa.string(), pa.int16())),
            "t": pa.array([1000, 2000, None], pa.timestamp("ns")),
            "w": pa.array(["a", "b", "a"]).dictionary_encode(),
        }
    )
    nested = "l array<struct<a: long, b: string, c: date>>, m map<string, long>"
    table = schema(f"w string, {nested}, t timestamp_ntz, x int")
    got = prepare(incoming, fit(struct_of(incoming.schema), table)).table
    assert got.schema == arrow_schema(table)
    assert got.column("l").to_pylist() == [[{"a": 1, "b": "x", "c": None}, None], None, []]
    assert got.column("m").to_pylist() == [[("k", 1)], None, [("j", None)]]
    assert got.column("x").null_count == 3


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (LONG, "42", 42),
        (LONG, "-1", -1),
        (STRING, "'it'", "it"),
        (STRING, "NULL", None),
        (Primitive("date"), "DATE '2024-05-01'", dt.date(2024, 5, 1)),
        (Primitive("double"), "1.5", 1.5),
        (Primitive("boolean"), "true", True),
        (Decimal(5, 2), "1.25", decimal.Decimal("1.25")),
    ],
)
def test_literal_defaults(type_: DataType, text: str, value: object) -> None:
    table = Struct((Field("a", LONG), Field("d", type_, True, {"CURRENT_DEFAULT": text})))
    made = fit(schema("a long"), table)
    assert prepare(pa.table({"a": [1, 2]}), made).table.column("d").to_pylist() == [value, value]


def test_what_only_spark_can_do_is_refused_by_name() -> None:
    incoming = pa.table({"a": [1]})
    default = Struct((Field("a", LONG), Field("d", STRING, True, {"CURRENT_DEFAULT": "current_user()"})))
    with pytest.raises(Unsupported, match=r"default of the column d \(current_user\(\)\)"):
        prepare(incoming, fit(schema("a long"), default))
    generated = Struct((Field("a", LONG), Field("g", LONG, True, {"delta.generationExpression": "a + 1"})))
    with pytest.raises(Unsupported, match=r"generated column g \(a \+ 1\)"):
        prepare(incoming, fit(schema("a long"), generated))
    table = schema("a long")
    with pytest.raises(Unsupported, match=r"CHECK constraint odd \(a % 2 = 1\)"):
        prepare(incoming.slice(1), fit(table, table), demands(table, {"delta.constraints.odd": "a % 2 = 1"}))
    with pytest.raises(Unsupported, match="only Spark converts a"):
        prepare(incoming, fit(table, schema("a string"), assignment=Assignment.ANSI))


def test_a_value_that_does_not_fit_is_refused() -> None:
    incoming = pa.table({"a": [1, 2**40]})
    with pytest.raises(Invalid, match="a value of a does not fit integer"):
        prepare(incoming, fit(schema("a long"), schema("a int"), assignment=Assignment.ANSI))
    nanos = pa.table({"t": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(Invalid, match="a value of t does not fit timestamp_ntz"):
        prepare(nanos, fit(struct_of(nanos.schema), schema("t timestamp_ntz")))


def test_numbers_run_out() -> None:
    metadata = identity_metadata(start=2**63 - 2, step=1, explicit=False)
    table = Struct((Field("n", LONG, True, metadata), Field("a", LONG)))
    made = fit(schema("a long"), table)
    assert prepare(pa.table({"a": [1, 2]}), made).marks == {"n": 2**63 - 1}
    assert prepare(pa.table({"a": pa.array([], pa.int64())}), made).marks == {}
    with pytest.raises(LimitReached, match="no numbers left"):
        prepare(pa.table({"a": [1, 2, 3]}), made)
