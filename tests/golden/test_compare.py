"""The judge of golden tables: what it takes for equal, and that it sees the rest."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.schema.arrow import arrow_schema
from tests.parquet.strategies import rows, schemas
from tests.support.compare import assert_same_rows, describe_difference
from tests.support.depth import examples


@examples(60)
@given(st.data())
def test_order_does_not_count_and_multiplicity_does(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    found = data.draw(rows(schema))
    shuffled = data.draw(st.permutations(found))
    columns = data.draw(st.permutations(schema.names))
    table = pa.Table.from_pylist(found, schema=arrow_schema(schema))
    other = pa.Table.from_pylist(shuffled, schema=arrow_schema(schema)).select(columns)
    assert describe_difference(table, other) is None
    if found:
        twice = pa.concat_tables([table, table.slice(0, 1)])
        assert "only found" in (describe_difference(twice, table) or "")


def column(values: list[Any], type_: pa.DataType | None = None) -> pa.Table:
    return pa.table({"c": pa.array(values, type_)})


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (column([math.nan, 1.0]), column([1.0, math.nan])),
        (column([[("a", 1), ("b", 2)]], pa.map_(pa.string(), pa.int32())),
         column([[("b", 2), ("a", 1)]], pa.map_(pa.string(), pa.int32()))),
        (column(["x", "y"]), pa.table({"C": pa.array(["y", "x"]).dictionary_encode()})),
        (column(["x"], pa.large_string()), column(["x"])),
        (column([1000], pa.timestamp("ns", "UTC")), column([1], pa.timestamp("us", "Etc/UTC"))),
        (column([{"a": 1, "b": 2}]), column([{"b": 2, "a": 1}], pa.struct([("b", pa.int64()), ("a", pa.int64())]))),
        (column([{"value": b"\x0c\x07", "metadata": b"\x01\x00\x00"}]),
         column([{"metadata": b"\x01\x00\x00", "value": b"\x10\x07\x00"}])),
    ],
)  # fmt: skip
def test_what_only_storage_tells_apart_is_the_same(left: pa.Table, right: pa.Table) -> None:
    assert_same_rows(left, right)
    assert_same_rows(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (column([1], pa.int32()), column([1], pa.int64())),
        (column([0.0]), column([-0.0])),
        (column([0.1]), column([0.1], pa.float32())),
        (column([None], pa.string()), column([""], pa.string())),
        (column([[None]], pa.list_(pa.int32())), column([None], pa.list_(pa.int32()))),
        (column([1], pa.timestamp("us", "UTC")), column([1], pa.timestamp("us"))),
        (column([decimal.Decimal("1.0")], pa.decimal128(5, 1)), column([decimal.Decimal("1.0")], pa.decimal128(5, 2))),
        (column([dt.date(2020, 1, 1)]), column([dt.date(2020, 1, 2)])),
        (column([{"value": b"\x0c\x07", "metadata": b"\x01\x00\x00"}]),
         column([{"value": b"\x0c\x08", "metadata": b"\x01\x00\x00"}])),
        (column([{"a": None}], pa.struct([("a", pa.int64())])), column([None], pa.struct([("a", pa.int64())]))),
        (pa.table({"c": [1]}), pa.table({"d": [1]})),
    ],
)  # fmt: skip
def test_what_differs_is_said(left: pa.Table, right: pa.Table) -> None:
    assert describe_difference(left, right)
    with pytest.raises(AssertionError):
        assert_same_rows(right, left)
