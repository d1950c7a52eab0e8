"""Partition texts as typed values: every spelling in the log, extremes, and what is no value at all."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal as D
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Damaged, Unsupported
from holdfast.model.files import STRINGS
from holdfast.schema.arrow import arrow_type
from holdfast.schema.partition import column, typed
from holdfast.schema.types import Array, DataType, Decimal, Primitive
from tests.support.depth import examples

P = Primitive
UTC = dt.UTC
CASES: list[tuple[DataType, str, Any]] = [
    (P("string"), "a=b/ü", "a=b/ü"),
    (P("binary"), "\x01\x02ü", b"\x01\x02\xc3\xbc"),
    (P("byte"), "-128", -128),
    (P("long"), "9223372036854775807", 2**63 - 1),
    (P("integer"), "+5", 5),
    (P("integer"), "007", 7),
    (P("float"), "3.4028235E38", 3.4028234663852886e38),
    (P("double"), "-1.7976931348623157E308", -1.7976931348623157e308),
    (P("double"), "Infinity", math.inf),
    (P("double"), "-Infinity", -math.inf),
    (P("boolean"), "true", True),
    (P("boolean"), "FALSE", False),
    (Decimal(10, 2), "-0.05", D("-0.05")),
    (Decimal(10, 2), "12", D("12.00")),
    (Decimal(10, 2), "12.3400", D("12.34")),
    (Decimal(38, 18), "12.000000000000000000", D("12.000000000000000000")),
    (P("date"), "2024-02-29", dt.date(2024, 2, 29)),
    (P("date"), "0001-01-01", dt.date(1, 1, 1)),
    (P("timestamp"), "2025-03-31T15:30:00.000000Z", dt.datetime(2025, 3, 31, 15, 30, tzinfo=UTC)),
    (P("timestamp"), "2025-03-31T15:30:00+02:00", dt.datetime(2025, 3, 31, 13, 30, tzinfo=UTC)),
    (P("timestamp"), "2020-01-01 08:09:10.001", dt.datetime(2020, 1, 1, 8, 9, 10, 1000, tzinfo=UTC)),
    (P("timestamp"), "1969-01-01 00:00:00", dt.datetime(1969, 1, 1, tzinfo=UTC)),
    (P("timestamp"), "2020-01-01", dt.datetime(2020, 1, 1, tzinfo=UTC)),
    (P("timestamp_ntz"), "2013-07-05 17:01:00.123456", dt.datetime(2013, 7, 5, 17, 1, 0, 123456)),
    (P("timestamp_ntz"), "2013-07-05T17:01:00", dt.datetime(2013, 7, 5, 17, 1)),
]


@pytest.mark.parametrize(("type_", "text", "value"), CASES)
def test_a_text_is_the_value_it_spells(type_: DataType, text: str, value: Any) -> None:
    values = typed(pa.array([text, "", None, text]), type_, where="column p")
    assert values.type == arrow_type(type_)
    assert values.to_pylist() == [value, None, None, value]


def test_nan_is_a_number() -> None:
    assert math.isnan(typed(pa.array(["NaN"]), P("float"), where="p")[0].as_py())


def test_far_years_keep_their_distance() -> None:
    texts = ["-9999-12-31 23:59:59.999999", "-0001-01-01 00:00:00", "0000-01-01 00:00:00", "+10000-01-01 00:00:00"]
    micros = typed(pa.array(texts), P("timestamp_ntz"), where="p").cast(pa.int64()).to_pylist()
    day = 86_400_000_000
    assert micros[3] == (dt.date(9999, 12, 31) - dt.date(1970, 1, 1)).days * day + day
    assert micros[2] == (dt.date(1, 1, 1) - dt.date(1970, 1, 1)).days * day - 366 * day
    assert micros[1] == micros[2] - 365 * day
    assert micros[0] < micros[1]
    assert typed(pa.array(["+10000-01-01"]), P("date"), where="p").cast(pa.int32())[0].as_py() == 2932897


def test_a_local_timestamp_is_in_the_zone_told_and_others_in_their_own() -> None:
    texts = pa.array(["2020-07-01 12:00:00", "2020-07-01T12:00:00Z"])
    values = typed(texts, P("timestamp"), where="p", zone="Europe/Paris").to_pylist()
    assert values == [dt.datetime(2020, 7, 1, 10, tzinfo=UTC), dt.datetime(2020, 7, 1, 12, tzinfo=UTC)]


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (P("integer"), "0x1F"),
        (P("integer"), "2147483648"),
        (P("byte"), "1.0"),
        (P("double"), "one"),
        (P("boolean"), "yes"),
        (Decimal(4, 2), "123.45"),
        (Decimal(4, 2), "1.234"),
        (P("date"), "2023-02-29"),
        (P("date"), "20230101"),
        (P("timestamp"), "2023-01-01 25:00:00"),
        (P("timestamp_ntz"), "soon"),
    ],
)
def test_a_text_that_is_no_value_is_damage(type_: DataType, text: str) -> None:
    with pytest.raises(Damaged, match="column p of t") as caught:
        typed(pa.array([text, ""]), type_, where="column p of t")
    assert caught.value.found == text


def test_a_type_without_partition_values_is_refused() -> None:
    with pytest.raises(Unsupported, match="array"):
        typed(pa.array(["x"]), Array(P("long")), where="column p")


@examples(30)
@given(st.lists(st.none() | st.datetimes(), max_size=8))
def test_timestamps_of_any_age_come_back(moments: list[dt.datetime | None]) -> None:
    texts = pa.array([None if m is None else m.isoformat(" ") for m in moments], pa.string())
    assert typed(texts, P("timestamp_ntz"), where="p").to_pylist() == moments
    assert typed(texts, P("timestamp"), where="p").to_pylist() == [m and m.replace(tzinfo=UTC) for m in moments]


def test_one_key_of_the_map_over_all_chunks() -> None:
    maps = pa.chunked_array(
        [pa.array([[("a", "1"), ("b", None)], [("b", "x")]], STRINGS), pa.array([None, [], [("b", "")]], STRINGS)]
    )
    assert column(maps, "b").to_pylist() == [None, "x", None, None, ""]
    assert column(maps.chunk(0), "a").to_pylist() == ["1", None]
    assert column(maps.slice(1, 0), "a").to_pylist() == []


def test_many_files_with_few_values_are_quick_to_type() -> None:
    texts = pa.array(["2024-01-01", "2024-01-02", None] * 100_000)
    values = typed(texts, P("date"), where="p")
    assert pc.count_distinct(values, mode="only_valid").as_py() == 2
    assert values.null_count == 100_000
