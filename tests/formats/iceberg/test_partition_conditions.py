"""Conditions on source columns: every transform of every type, against the rows themselves."""

from __future__ import annotations

import datetime
import decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import types as ice
from pyiceberg.catalog import load_catalog
from pyiceberg.transforms import BucketTransform

from holdfast import IcebergTable, Invalid
from holdfast.errors import Unsupported
from holdfast.formats.iceberg.metadata.partition_bounds import source_bounds
from holdfast.formats.iceberg.metadata.partition_spec import parse_transform
from holdfast.parquet.partition_transforms import PartitionTransform, transformed
from holdfast.plan.scan.buckets import hashed, murmur3
from holdfast.schema.types import Primitive
from tests.formats.iceberg.smith import Smith, column, identity
from tests.support.depth import examples

NAMES = count()
UTC = datetime.UTC
MOMENTS = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)) | st.sampled_from(
    [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), datetime.datetime(1970, 1, 1), datetime.datetime(1600, 2, 29)]
)
CALENDAR = ["year(c)", "month(c)", "day(c)"]
LARGE = 10**38 - 1
# Of each type: its values, how SQL spells one, and the transforms it takes.
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], Any, list[str]]] = {
    "int": (pa.int32(), st.integers(-(2**31) + 100, 2**31 - 1), str, ["c", "bucket(4, c)", "truncate(10, c)"]),
    "long": (pa.int64(), st.integers(-(2**63) + 100, 2**63 - 1), str, ["c", "bucket(4, c)", "truncate(10, c)"]),
    "date": (
        pa.date32(),
        st.dates(datetime.date(1, 1, 2), datetime.date(9999, 12, 30)) | st.just(datetime.date(1969, 12, 31)),
        lambda v: f"DATE'{v}'",
        ["c", "bucket(4, c)", *CALENDAR],
    ),
    "timestamp": (
        pa.timestamp("us"),
        MOMENTS,
        lambda v: f"TIMESTAMP_NTZ'{v.isoformat(' ')}'",
        ["c", "bucket(4, c)", *CALENDAR, "hour(c)"],
    ),
    "timestamptz": (
        pa.timestamp("us", "UTC"),
        MOMENTS.map(lambda v: v.replace(tzinfo=UTC)),
        lambda v: f"TIMESTAMP'{v.replace(tzinfo=None).isoformat(' ')}Z'",
        ["c", "bucket(4, c)", *CALENDAR, "hour(c)"],
    ),
    "string": (
        pa.string(),
        st.text("abü\U0001f600z ", max_size=5),
        lambda v: f"'{v}'",
        ["c", "bucket(4, c)", "truncate(2, c)"],
    ),
    "decimal": (
        pa.decimal128(38, 2),
        (st.integers(-LARGE + 100, LARGE) | st.integers(-500, 500)).map(
            lambda n: decimal.Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -2))
        ),
        lambda v: f"{v:f}BD",
        ["c", "bucket(4, c)", "truncate(50, c)"],
    ),
    "double": (
        pa.float64(),
        st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0]),
        lambda v: f"{v!r}D",
        ["c"],
    ),
    "boolean": (pa.bool_(), st.booleans(), lambda v: str(v).lower(), ["c"]),
    "binary": (
        pa.binary(),
        st.binary(max_size=4),
        lambda v: f"X'{v.hex()}'",
        ["c", "bucket(4, c)", "truncate(2, c)"],
    ),
}  # fmt: skip
OPERATORS = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<>": lambda a, b: a != b,
}


@pytest.mark.parametrize(("kind", "by"), [(kind, by) for kind, (*_, some) in KINDS.items() for by in some])
@examples(1)
@given(st.data())
def test_conditions_find_the_rows_that_satisfy_them(kind: str, by: str, data: st.DataObject) -> None:
    arrow, values, spelled, _ = KINDS[kind]
    rows = data.draw(st.lists(st.none() | values, min_size=1, max_size=6))
    number = next(NAMES)
    catalog = load_catalog(f"placed{number}", type="in-memory", warehouse=f"memory://placed-{number}")
    schema = pa.schema([("id", pa.int64()), ("c", arrow)])
    table = IcebergTable.create(None, catalog, "db.t", schema, partitionedBy=[by])
    table.append(pa.table({"id": pa.array(range(len(rows)), pa.int64()), "c": pa.array(rows, arrow)}))
    metadata = table.handle.newest().metadata_path
    fresh = IcebergTable.forMetadata(None, metadata)
    known = [v for v in rows if v is not None]
    wanted = data.draw(st.sampled_from(known) if known else values)
    for name, test in OPERATORS.items():
        expected = [i for i, v in enumerate(rows) if v is not None and test(v, wanted)]
        where = f"c {name} {spelled(wanted)}"
        unread = IcebergTable.forMetadata(None, metadata)  # so that manifests are left out too
        assert sorted(unread.toArrow(where=where)["id"].to_pylist()) == expected, where
    nulls = [i for i, v in enumerate(rows) if v is None]
    assert sorted(fresh.toArrow(where="c IS NULL")["id"].to_pylist()) == nulls
    assert fresh.toArrow(where="c IS NOT NULL").num_rows == len(rows) - len(nulls)


def placed(transform: str, values: pa.Array) -> pa.Array:
    made = parse_transform(transform)
    return transformed(values, PartitionTransform("c", (), made.kind, made.parameter, "1000", "c"))


def test_decimals_keep_all_of_their_digits() -> None:
    """A number of 38 digits has more than Python's own arithmetic keeps."""
    type_, texts = pa.decimal128(38, 2), [f"{'1234567890' * 3}123456.7{n}" for n in range(5)]
    numbers = [decimal.Decimal(sign + text) for sign in ("", "-") for text in texts]
    values = pa.array([*numbers, None], type_)
    bucket = BucketTransform(1000).transform(ice.DecimalType(38, 2))
    expected = [_by_hand(n) % 1000 for n in numbers]
    assert placed("bucket[1000]", values).to_pylist() == [*expected, None]
    assert [(hashed(v) or 0) & 0x7FFFFFFF for v in values[:-1]] == [_by_hand(n) for n in numbers]
    small = decimal.Decimal("-1.25")
    assert placed("bucket[1000]", pa.array([small], type_)).to_pylist() == [bucket(small)]
    (first, *_), last = placed("truncate[10]", values).to_pylist()[:5], placed("truncate[10]", values)[9].as_py()
    assert (str(first), str(last)) == (f"{texts[0][:-1]}0", f"-{texts[0][:-2]}80")


def _by_hand(number: decimal.Decimal) -> int:
    """The hash of a number, by the bytes that the specification gives it."""
    whole = int(str(number).replace(".", ""))
    size = next(n for n in range(1, 18) if -(1 << 8 * n - 1) <= whole < 1 << 8 * n - 1)
    return murmur3(whole.to_bytes(size, "big", signed=True)) & 0x7FFFFFFF


def test_a_decimal_is_stored_as_it_is(tmp_path: Path) -> None:
    large = [decimal.Decimal("9" * 38), decimal.Decimal("-" + "9" * 38), decimal.Decimal("1" * 33)]
    table = IcebergTable.create(
        None, tmp_path / "c.db", "db.t", pa.schema([("c", pa.decimal128(38, 0))]), partitionedBy=["c"]
    )
    table.append(pa.table({"c": pa.array(large, pa.decimal128(38, 0))}))
    stored = table.toArrow(metadata=["_partition"])
    assert [p["c"] for p in stored["_partition"].to_pylist()] == stored["c"].to_pylist()
    assert table.delete(f"c = {'9' * 38}").metrics["numDeletedRows"] == 1


def test_what_has_no_transform_is_refused(tmp_path: Path) -> None:
    schema = pa.schema([("d", pa.decimal128(3, 2)), ("t", pa.timestamp("us", "UTC"))])
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", schema, partitionedBy=["truncate(50, d)", "hour(t)"])
    table.append(pa.table({"d": [decimal.Decimal("-9.50"), decimal.Decimal("9.99")], "t": [None, None]}, schema))
    with pytest.raises(Invalid, match="a value of d truncated to multiples of 50 is -1000"):
        table.append(pa.table({"d": [decimal.Decimal("-9.99")], "t": [None]}, schema))
    far = pa.array([2**63 - 1], pa.int64()).view(pa.timestamp("us", "UTC"))
    with pytest.raises(Invalid, match="a value of t is more than 2147483647 hours from 1970"):
        table.append(pa.table({"d": pa.nulls(1, pa.decimal128(3, 2)), "t": far}))
    assert table.toArrow(where="d < 0").num_rows == 1


@pytest.mark.parametrize("unit", ["year", "month", "day", "hour"])
@pytest.mark.parametrize("name", ["timestamp", "timestamp_ntz", "date"])
def test_ranges_reach_as_far_as_the_type(unit: str, name: str) -> None:
    """Values are whatever others wrote: where a unit begins or ends at no moment of the type, its end is not known."""
    numbers = pa.array([-(2**31), -(2**31) + 1, -292_279, -1, 0, 1, 292_277, 2**31 - 1], pa.int32())
    values = numbers.cast(pa.date32()) if unit == "day" else numbers
    found = source_bounds(values, parse_transform(unit), Primitive(name))
    if (unit, name) == ("hour", "date"):
        assert found is None
        return
    assert found is not None
    lows, highs = (end.cast(pa.int32() if name == "date" else pa.int64()).to_pylist() for end in found)
    each = {"year": 365.2425, "month": 365.2425 / 12, "day": 1, "hour": 1 / 24}[unit]
    step = each * (1 if name == "date" else 86_400_000_000)
    for number, low, high in zip(numbers.to_pylist(), lows, highs, strict=True):
        assert low is None or (low <= number * step + 2 * step and low >= (number - 2.1) * step)
        assert high is None or (number * step <= high + 2 * step and high <= (number + 2.1) * step)
    assert lows[4] == (0 if (unit, name) == ("day", "date") else lows[3 + 1])
    assert (highs[3], lows[5]) != (None, None)


def test_what_early_writers_rounded_towards_1970_is_found() -> None:
    """A moment before 1970 may stand in the unit after its own."""
    builder = Smith(f"memory://placed-{next(NAMES)}/t", [column(1, "id"), column(2, "t", "timestamptz")],
                 specs=[[identity(2, "t_day", transform="day")]])  # fmt: skip
    moment = pa.array([-3_600_000_000], pa.int64()).view(pa.timestamp("us", "UTC"))
    builder.commit([builder.data({"id": [1], "t": moment}, partition={"t_day": 0})])
    table = IcebergTable.forMetadata(None, builder.metadata())
    assert table.toArrow(where="t < TIMESTAMP'1970-01-01 00:00:00Z'")["id"].to_pylist() == [1]
    assert table.explain(where="t < TIMESTAMP'1969-12-30 00:00:00Z'").files_read == 0


@pytest.mark.parametrize(
    "transform", ["truncate[0]", "bucket[0]", "truncate[2147483648]", "bucket[99999999999999999999]"]
)
def test_parameters_are_positive_and_of_32_bits(transform: str) -> None:
    builder = Smith(
        f"memory://placed-{next(NAMES)}/t", [column(1, "id")], specs=[[identity(1, "p", transform=transform)]]
    )
    with pytest.raises(Unsupported, match="does not know"):
        IcebergTable.forMetadata(None, builder.metadata())
