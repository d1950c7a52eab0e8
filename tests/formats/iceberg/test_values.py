"""Bounds and partition values, against pyiceberg's own serialization and transforms."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import transforms as theirs
from pyiceberg import types as ice
from pyiceberg.conversions import to_bytes

from holdfast.formats.iceberg.metadata.partition_bounds import source_bounds
from holdfast.formats.iceberg.metadata.partition_spec import parse_transform
from holdfast.formats.iceberg.metadata.single_values import decode_bounds, default_value
from holdfast.formats.iceberg.metadata.types import parse_primitive
from holdfast.schema.arrow import arrow_type
from tests.support.depth import examples

DAYS, MICROS = st.integers(-200_000, 200_000), st.integers(-(10**16), 10**16)
KINDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": (ice.IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    "long": (ice.LongType(), st.integers(-(2**63), 2**63 - 1)),
    "float": (ice.FloatType(), st.floats(width=32, allow_nan=False)),
    "double": (ice.DoubleType(), st.floats(allow_nan=False)),
    "date": (ice.DateType(), DAYS),
    "timestamp": (ice.TimestampType(), MICROS),
    "timestamptz": (ice.TimestamptzType(), MICROS),
    "string": (ice.StringType(), st.text()),
    "decimal(18, 3)": (ice.DecimalType(18, 3), st.integers(-(10**17), 10**17).map(lambda n: Decimal(n).scaleb(-3))),
}


def plain(value: pa.Scalar) -> Any:
    if not value.is_valid:
        return None
    if pa.types.is_timestamp(value.type):
        return value.cast(pa.int64()).as_py()
    return value.cast(pa.int32()).as_py() if pa.types.is_date(value.type) else value.as_py()


@pytest.mark.parametrize("kind", KINDS)
@examples(20)
@given(st.data())
def test_bounds_read_as_they_were_written(kind: str, data: st.DataObject) -> None:
    type_, values = KINDS[kind]
    wanted = data.draw(st.lists(st.none() | values, max_size=6))
    blobs = pa.array([None if v is None else to_bytes(type_, v) for v in wanted], pa.binary())
    # A slice, because columns of manifests come as such.
    padded = pa.concat_arrays([pa.array([b"xx"], pa.binary()), blobs]).slice(1)
    got = decode_bounds(padded, kind, parse_primitive(kind, column="c", where="t"))
    assert got.type == arrow_type(parse_primitive(kind, column="c", where="t"))
    assert [plain(v) for v in got] == wanted


def test_bounds_from_before_a_promotion() -> None:
    narrow = pa.array([to_bytes(ice.IntegerType(), -5), to_bytes(ice.LongType(), 2**40)], pa.binary())
    assert decode_bounds(narrow, "long", parse_primitive("long", column="c", where="t")).to_pylist() == [-5, 2**40]
    floats = pa.array([to_bytes(ice.FloatType(), 1.5), to_bytes(ice.DoubleType(), 0.1)], pa.binary())
    assert decode_bounds(floats, "double", parse_primitive("double", column="c", where="t")).to_pylist() == [1.5, 0.1]


def test_what_cannot_be_a_bound_is_not_known() -> None:
    odd = pa.array([b"", b"abc", b"\x01" * 20], pa.binary())
    assert decode_bounds(odd, "int", parse_primitive("int", column="c", where="t")).null_count == 3
    assert (
        decode_bounds(odd, "decimal(9, 2)", parse_primitive("decimal(9, 2)", column="c", where="t"))
        .is_null()[2]
        .as_py()
    )
    assert (
        decode_bounds(pa.array([b"\xff"]), "string", parse_primitive("string", column="c", where="t")).null_count == 1
    )


@pytest.mark.parametrize(
    ("kind", "transform"),
    [
        *(("date", t) for t in ("year", "month", "day", "identity")),
        *(("timestamp", t) for t in ("year", "month", "day", "hour", "identity")),
        *(("int", t) for t in ("identity", "truncate[7]")),
        *(("long", t) for t in ("identity", "truncate[10]")),
        *(("string", t) for t in ("identity", "truncate[2]")),
        ("decimal(18, 3)", "identity"),
    ],
)
@examples(20)
@given(st.data())
def test_a_partition_value_encloses_what_it_was_made_of(kind: str, transform: str, data: st.DataObject) -> None:
    type_, values = KINDS[kind]
    # Writers wrap around below the smallest number, and pyiceberg does not.
    value = data.draw(
        values.filter(lambda v: kind not in ("int", "long") or v > -(2 ** (31 if kind == "int" else 63)) + 10)
    )
    placed = theirs.parse_transform(transform).transform(type_)(value)
    parsed = parse_transform(transform)
    ours = parse_primitive(kind, column="c", where="t")
    result = arrow_type(parse_primitive(parsed.result(kind), column="c", where="t"))
    stored = (
        pa.array([placed, None], pa.int64()).cast(pa.int32()) if pa.types.is_date(result) else pa.array([placed, None])
    )
    stored = stored.cast(pa.int64()).view(result) if pa.types.is_timestamp(result) else stored.cast(result)
    found = source_bounds(stored, parsed, ours)
    assert found is not None
    low, high = found
    assert not low[1].is_valid
    assert not high[1].is_valid
    assert not low[0].is_valid or plain(low[0]) <= value
    assert not high[0].is_valid or plain(high[0]) >= value


def test_defaults() -> None:
    def read(raw: Any, kind: str) -> Any:
        value = default_value(
            raw, kind, parse_primitive(kind, column="c", where="t"), "initial-default", column="c", where="t"
        )
        return pa.scalar(value, arrow_type(parse_primitive(kind, column="c", where="t"))).as_py()

    assert read("2003-10-20", "date") == datetime.date(2003, 10, 20)
    assert read("00:00:00.012345", "time") == datetime.time(0, 0, 0, 12345)
    assert read("1970-01-01T00:00:00.012345", "timestamp") == datetime.datetime(1970, 1, 1, 0, 0, 0, 12345)
    assert read("1970-01-01T00:00:00+00:00", "timestamptz") == datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert read("12345.00", "decimal(16, 2)") == Decimal("12345.00")
    assert (read("010203ff03", "fixed[5]"), read(True, "boolean"), read(3, "double")) == (
        b"\x01\x02\x03\xff\x03",
        True,
        3.0,
    )
