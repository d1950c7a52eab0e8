"""Which conditions are kept from Spark's Parquet reader, which would skip rows that they are true of."""

from __future__ import annotations

import datetime
from itertools import count

import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.plan.scan.request import Condition, Request, plan_scan
from holdfast.predicate.parse import parse

_fresh = count()
INNER = pa.struct([("D", pa.date32()), ("n", pa.int64())])
LACKING, MODERN = datetime.datetime(1582, 10, 10), datetime.datetime(2024, 2, 3)


def table(*moments: datetime.datetime | None) -> DeltaTable:
    builder = DeltaTable.create(None).location(f"memory://reader-skipping/{next(_fresh)}").addColumn("n", "long")
    for name, type_ in {"d": "date", "ts": "timestamp", "ntz": "timestamp_ntz", "s": "struct<D:date,n:long>"}.items():
        builder = builder.addColumn(name, type_)
    created = builder.execute()
    local = pa.array(moments, pa.timestamp("us"))
    days = local.cast(pa.date32())
    inner = pa.StructArray.from_arrays([days, pa.nulls(len(moments), pa.int64())], fields=list(INNER))
    utc = local.cast(pa.int64()).cast(pa.timestamp("us", "UTC"))
    created.append(
        pa.table({"n": pa.array(range(len(moments)), pa.int64()), "d": days, "ts": utc, "ntz": local, "s": inner})
    )
    return created


def is_kept(subject: DeltaTable, text: str) -> bool:
    snapshot = subject.handle.newest().snapshot
    plan = plan_scan(snapshot, Request(where=Condition(text, text, parse(text, snapshot.schema, zone="UTC"))))
    return plan.may_lose_rows(snapshot.files)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("d = date_sub(DATE '1600-01-01', 6292)", True),
        ("n = 1 AND NOT (D >= date_from_unix_date(-141432))", True),
        ("ts > timestamp_seconds(-12219724800)", True),
        ("s.d = make_date(1500 + 82, 10, 10)", True),
        ("s = named_struct('D', make_date(1500 + 82, 10, 10), 'n', 1)", True),
        ("d = DATE '1582-10-10'", True),
        ("d = DATE '1582-10-15'", False),
        ("ntz > timestamp_ntz(date_from_unix_date(-141432))", False),
        ("s.n + 1 = 2", False),
        ("n % 2 = 1", False),
    ],
)
def test_a_part_that_only_spark_understands_is_kept_where_files_may_have_such_days(text: str, kept: bool) -> None:
    assert is_kept(table(LACKING, MODERN, None), text) is kept
    assert is_kept(table(LACKING + datetime.timedelta(days=14)), text) is kept, "a literal becomes a day after those"
    assert is_kept(table(MODERN, None), text) is (kept and "DATE '1582-10-10'" in text)


def test_without_statistics_any_file_may_have_them() -> None:
    modern = table(MODERN)
    modern.setProperties({"delta.dataSkippingNumIndexedCols": "0"})
    assert not is_kept(modern, "d = date_sub(current_date(), 7)")
    modern.append(pa.table({"n": pa.array([1], pa.int64())}))
    assert is_kept(modern, "d = date_sub(current_date(), 7)")
