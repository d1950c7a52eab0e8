"""Old Spark's calendar: the day of the month stays, the count of days moves."""

from __future__ import annotations

import datetime as dt
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Unsupported
from holdfast.parquet.calendar import FIRST_GREGORIAN_DAY, Calendar, calendar_of, rebased_dates, rebased_micros
from holdfast.parquet.read import FileTask, ReadSpec, read_batches
from holdfast.schema.types import Field, Primitive
from tests.support.depth import examples

EPOCH = dt.date(1970, 1, 1).toordinal()


def julian_day(year: int, month: int, day: int) -> int:
    """Days from 1970 of a date of the Julian calendar, counted month by month."""
    lengths = [31, 29 if year % 4 == 0 else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    before = (year - 1) * 365 + (year - 1) // 4 + sum(lengths[: month - 1]) + day - 1
    return before - 719164  # 1 January of year 1, Julian, is two days before the Gregorian one


@examples(200)
@given(st.integers(1, 1581), st.integers(1, 12), st.integers(1, 28))
def test_a_julian_date_keeps_its_day_and_month(year: int, month: int, day: int) -> None:
    got = rebased_dates(pa.array([julian_day(year, month, day), None], pa.int32()).cast(pa.date32()))
    assert got.to_pylist() == [dt.date(year, month, day), None]


def test_a_day_only_the_old_calendar_has_becomes_the_next() -> None:
    got = rebased_dates(pa.array([julian_day(1500, 2, 29)], pa.int32()).cast(pa.date32()))
    assert got.to_pylist() == [dt.date(1500, 3, 1)]


def test_the_calendars_meet_in_october_1582() -> None:
    days = pa.array([FIRST_GREGORIAN_DAY - 1, FIRST_GREGORIAN_DAY, 0], pa.int32()).cast(pa.date32())
    assert rebased_dates(days).to_pylist() == [dt.date(1582, 10, 4), dt.date(1582, 10, 15), dt.date(1970, 1, 1)]


def test_instants_keep_their_wall_clock() -> None:
    noon = 12 * 3600 * 10**6
    old = julian_day(1001, 1, 1) * 86_400_000_000 + noon
    utc = rebased_micros(pa.array([old, None, 0]), "UTC", where="x")
    assert utc.cast(pa.timestamp("us")).to_pylist() == [dt.datetime(1001, 1, 1, 12), None, dt.datetime(1970, 1, 1)]


def test_another_zone_is_refused_only_where_it_matters() -> None:
    recent = pa.array([0, None])
    assert rebased_micros(recent, None, where="x") is recent
    with pytest.raises(Unsupported, match="x holds timestamps before 1900"):
        rebased_micros(pa.array([-(10**16)]), None, where="x")
    with pytest.raises(Unsupported, match="America/Los_Angeles"):
        rebased_micros(pa.array([-(10**16)]), "America/Los_Angeles", where="x")


@pytest.mark.parametrize(
    ("pairs", "calendar"),
    [
        ({}, Calendar()),
        ({"version": "2.4.8"}, Calendar(dates=True, int96=True)),
        ({"version": "3.0.1"}, Calendar(int96=True)),
        ({"version": "3.1.0"}, Calendar()),
        ({"version": "10.0.0"}, Calendar()),
        ({"version": "3.5.0", "legacyDateTime": "", "timeZone": "UTC"}, Calendar(dates=True, zone="UTC")),
        ({"version": "3.5.0", "legacyINT96": ""}, Calendar(int96=True)),
    ],
)
def test_the_footer_says_which_calendar(pairs: dict[str, str], calendar: Calendar) -> None:
    assert calendar_of({f"org.apache.spark.{k}".encode(): v.encode() for k, v in pairs.items()}) == calendar
    assert calendar_of(None) == Calendar()


@pytest.mark.parametrize("legacy", [False, True])
def test_a_file_is_read_by_its_own_calendar(legacy: bool) -> None:
    day = julian_day(1200, 2, 3)
    table = pa.table({
        "d": pa.array([day], pa.int32()).cast(pa.date32()),
        "t": pa.array(np.array([day]) * 86_400_000_000, pa.timestamp("us", "UTC")),
        "n": pa.array(np.array([day]) * 86_400_000_000, pa.timestamp("us")),
    })  # fmt: skip
    pairs = {"org.apache.spark.legacyDateTime": "", "org.apache.spark.timeZone": "UTC"} if legacy else {}
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(pairs), sink)
    fields = (
        Field("d", Primitive("date")),
        Field("t", Primitive("timestamp")),
        Field("n", Primitive("timestamp_ntz")),
    )
    (got,) = read_batches(sink, ReadSpec(fields), FileTask("file:/x"))
    shown = dt.date.fromordinal(EPOCH + day)
    expected = dt.date(1200, 2, 3) if legacy else shown
    assert got.to_pylist() == [
        {
            "d": expected,
            "t": dt.datetime(*expected.timetuple()[:3], tzinfo=dt.UTC),
            "n": dt.datetime(*shown.timetuple()[:3]),
        }
    ]
