"""Rows get the partition values that pyiceberg computes, for every type and transform."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from holdfast.formats.iceberg.metadata.partition_spec import parse_transform as ours
from holdfast.parquet.partition_transforms import PartitionTransform, rows_by_partition, transformed
from tests.support.depth import examples

_MOMENTS = st.datetimes(datetime.datetime(1600, 1, 1), datetime.datetime(2400, 1, 1))
COLUMNS: dict[str, tuple[pa.DataType, IcebergType, st.SearchStrategy[Any], list[str]]] = {
    "int": (pa.int32(), IntegerType(), st.integers(-(2**31) + 10, 2**31 - 1), ["bucket[7]", "truncate[10]"]),
    "long": (pa.int64(), LongType(), st.integers(-(2**62), 2**62), ["bucket[16]", "truncate[3]"]),
    "string": (pa.string(), StringType(), st.text(max_size=12), ["bucket[5]", "truncate[3]"]),
    "binary": (pa.binary(), BinaryType(), st.binary(max_size=12), ["bucket[5]", "truncate[3]"]),
    "date": (pa.date32(), DateType(), st.dates(datetime.date(1600, 1, 1), datetime.date(2400, 1, 1)),
             ["bucket[9]", "year", "month", "day"]),
    "ntz": (pa.timestamp("us"), TimestampType(), _MOMENTS, ["bucket[9]", "year", "month", "day", "hour"]),
    "tz": (pa.timestamp("us", "UTC"), TimestamptzType(), _MOMENTS.map(lambda m: m.replace(tzinfo=datetime.UTC)),
           ["bucket[9]", "hour"]),
    "decimal": (pa.decimal128(12, 2), DecimalType(12, 2),
                st.decimals(-(10**8), 10**8, places=2), ["bucket[9]", "truncate[50]"]),
}  # fmt: skip


@pytest.mark.parametrize(("name", "transform"), [(n, t) for n, (*_, ts) in COLUMNS.items() for t in ts])
def test_transforms_are_pyicebergs(name: str, transform: str) -> None:
    arrow, iceberg, values, _ = COLUMNS[name]
    made = ours(transform)
    by = PartitionTransform("c", (), made.kind, made.parameter, "1000", "c")
    apply = parse_transform(transform).transform(iceberg)

    @examples(20)
    @given(st.lists(st.none() | values, min_size=1, max_size=8))
    def check(some: list[Any]) -> None:
        array = pa.array(some, arrow)
        expected = [None if v is None else apply(_internal(v)) for v in some]
        assert [_plain(v) for v in transformed(array, by).to_pylist()] == [_plain(v) for v in expected]

    check()


def _internal(value: Any) -> Any:
    """A value as pyiceberg's literals hold it."""
    if isinstance(value, datetime.datetime):
        epoch = datetime.datetime(1970, 1, 1, tzinfo=value.tzinfo)
        return (value - epoch) // datetime.timedelta(microseconds=1)
    return (value - datetime.date(1970, 1, 1)).days if isinstance(value, datetime.date) else value


def _plain(value: Any) -> Any:
    return value.normalize() if isinstance(value, decimal.Decimal) else value


@examples(50)
@given(st.lists(st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]), min_size=1), st.data())
def test_every_row_is_in_one_run(some: list[float | None], data: st.DataObject) -> None:
    others = data.draw(st.lists(st.sampled_from([None, "a", "b"]), min_size=len(some), max_size=len(some)))
    columns = [pa.array(some, pa.float64()), pa.array(others, pa.string())]
    by = [
        PartitionTransform("x", (), "identity", None, "1000", "x"),
        PartitionTransform("y", (), "identity", None, "1001", "y"),
    ]
    runs = list(rows_by_partition(columns, by))
    assert sorted(row for _, rows in runs for row in rows.to_pylist()) == list(range(len(some)))
    assert len({text for text, _ in runs}) == len(runs)
    for (_, y), rows in runs:
        assert {others[row] for row in rows.to_pylist()} == {y}
        assert len({repr(some[row]) for row in rows.to_pylist()}) == 1
