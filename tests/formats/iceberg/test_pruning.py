"""Pruning of files by metrics and partition values never leaves out a file with a matching row."""

from __future__ import annotations

import datetime
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import types as ice
from pyiceberg.transforms import BucketTransform

from holdfast import IcebergTable
from holdfast.formats.iceberg.metadata.types import parse_primitive
from holdfast.plan.scan.buckets import hashed
from holdfast.schema.arrow import arrow_type
from tests.formats.iceberg.smith import Smith, column, identity
from tests.support.depth import examples

NAMES = count()
EPOCH = datetime.date(1970, 1, 1)
COLUMNS = [column(1, "id"), column(2, "day", "date"), column(3, "name", "string")]


def smith(specs: list[list[dict[str, Any]]]) -> Smith:
    return Smith(f"memory://pruning-{next(NAMES)}/t", COLUMNS, specs=specs)


def placed(transform: str, day: int, number: int, name: str) -> Any:
    date = EPOCH + datetime.timedelta(days=day)
    match transform:
        case "year":
            return date.year - 1970
        case "month":
            return (date.year - 1970) * 12 + date.month - 1
        case "day":
            return day
        case "truncate[10]":
            return number // 10 * 10
        case _:
            return name


def files_read(builder: Smith, where: str) -> int:
    return IcebergTable.forMetadata(None, builder.metadata()).explain(where=where).files_read


@pytest.mark.parametrize("transform", ["year", "month", "day"])
def test_days_are_pruned_by_every_calendar_transform(transform: str) -> None:
    builder = smith([[identity(2, "p", transform=transform)]])
    days = [0, 40, 400, 4000]
    files = []
    for day in days:
        entry = builder.data(
            {"id": [day], "day": pa.array([day], pa.int32()).cast(pa.date32())},
            partition={"p": placed(transform, day, 0, "")},
        )
        files.append(entry | {"lower_bounds": None, "upper_bounds": None, "null_value_counts": None})
    builder.commit(files)
    assert files_read(builder, "day >= date'1971-01-01'") == 2
    assert files_read(builder, "day = date'1970-01-01'") == (2 if transform == "year" else 1)
    assert files_read(builder, "day is null") == 0
    assert files_read(builder, "day < date'1960-01-01'") == 0


def test_metrics_prune_without_partitions() -> None:
    builder = smith([[]])
    builder.commit(
        [builder.data({"id": [1, 5], "name": ["a", "c"]}), builder.data({"id": [7, 9], "name": ["k", None]})]
    )
    assert files_read(builder, "id > 6") == 1
    assert files_read(builder, "name = 'b'") == 1
    assert files_read(builder, "name is null") == 1
    assert files_read(builder, "id = 6") == 0


@examples(40)
@given(st.data(), st.sampled_from(["year", "month", "day", "truncate[10]", "truncate[1]", "identity"]))
def test_no_row_is_lost(data: st.DataObject, transform: str) -> None:
    source = 2 if transform in ("year", "month", "day") else 1 if transform == "truncate[10]" else 3
    builder = smith([[identity(source, "p", transform=transform)]])
    rows = data.draw(
        st.lists(
            st.tuples(st.integers(-50, 50), st.integers(-800, 800), st.text("ab\x00é", max_size=3)),
            min_size=1,
            max_size=8,
        )
    )
    files = []
    for number, day, name in rows:
        value = placed(transform, day, number, name[:1] if transform == "truncate[1]" else name)
        content = {"id": [number], "day": pa.array([day], pa.int32()).cast(pa.date32()), "name": [name]}
        entry = builder.data(content, partition={"p": value})
        if data.draw(st.booleans()):
            entry |= {"lower_bounds": None, "upper_bounds": None, "null_value_counts": None}
        files.append(entry)
    builder.commit(files)
    number, day, name = data.draw(st.sampled_from(rows))
    date = EPOCH + datetime.timedelta(days=day)
    op, test = data.draw(st.sampled_from([("<=", int.__le__), (">=", int.__ge__), ("=", int.__eq__)]))
    table = IcebergTable.forMetadata(None, builder.metadata())
    assert table.toArrow(where=f"id {op} {number}").num_rows == sum(test(n, number) for n, _, _ in rows)
    assert table.toArrow(where=f"day {op} date'{date}'").num_rows == sum(test(d, day) for _, d, _ in rows)
    if "\x00" not in name:
        assert table.toArrow(where=f"name >= '{name}'").num_rows == sum(n >= name for _, _, n in rows)


KINDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": (ice.IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    "long": (ice.LongType(), st.integers(-(2**63), 2**63 - 1)),
    "date": (ice.DateType(), st.integers(-100_000, 100_000)),
    "timestamp": (ice.TimestampType(), st.integers(-(10**15), 10**15)),
    "string": (ice.StringType(), st.text(max_size=9)),
    "binary": (ice.BinaryType(), st.binary(max_size=9)),
    "decimal(18, 3)": (ice.DecimalType(18, 3), st.integers(-(10**17), 10**17).map(lambda n: Decimal(n).scaleb(-3))),
}


@pytest.mark.parametrize("kind", KINDS)
@examples(20)
@given(st.data())
def test_buckets_are_those_of_pyiceberg(kind: str, data: st.DataObject) -> None:
    type_, values = KINDS[kind]
    value = data.draw(values)
    target = arrow_type(parse_primitive(kind, column="c", where="t"))
    scalar = pa.scalar(value, pa.int32()).cast(target) if kind == "date" else pa.scalar(value, target)
    found = hashed(scalar)
    assert found is not None
    assert (found & 0x7FFFFFFF) % 16 == BucketTransform(16).transform(type_)(value)


def test_a_condition_on_single_values_reads_their_buckets() -> None:
    builder = smith([[identity(3, "b", transform="bucket[8]")], []])
    bucket = BucketTransform(8).transform(ice.StringType())
    names = [f"name {n}" for n in range(40)]
    files = [
        builder.data({"name": [n for n in names if bucket(n) == number]}, partition={"b": number})
        | {"lower_bounds": None, "upper_bounds": None}
        for number in sorted({bucket(n) for n in names})
    ]
    builder.commit([*files, builder.data({"name": ["name 3"]}, spec=1) | {"lower_bounds": None, "upper_bounds": None}])
    table = IcebergTable.forMetadata(None, builder.metadata())
    assert table.explain(where="name = 'name 3'").files_read == 2
    assert table.toArrow(where="name = 'name 3'").num_rows == 2
    assert table.toArrow(where="name in ('name 3', 'name 7') and id is null").num_rows == 3
    assert table.explain(where="name = 'name 3' or id = 1").files_read == len(files) + 1
    assert "buckets of name" in str(table.explain(where="name = 'name 3'"))
