"""One file in, logical batches out."""

from __future__ import annotations

import datetime as dt
import decimal
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from holdfast.errors import Damaged, MissingFile, Unsupported
from holdfast.parquet.read import FileTask, ReadSpec, output_schema, read_batches
from holdfast.schema.arrow import arrow_schema
from holdfast.schema.types import Array, DataType, Decimal, Field, Map, Primitive, Struct
from tests.parquet.strategies import rows, schemas, stored_field, stored_value
from tests.support.depth import examples

URI = "file:/t/part-0.parquet"


def stored(table: pa.Table, **options: Any) -> io.BytesIO:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    sink.seek(0)
    return sink


def read(source: Any, fields: tuple[Field, ...] = (), task: FileTask | None = None, **spec: Any) -> pa.Table:
    wanted = ReadSpec(fields=fields, **spec)
    got = list(read_batches(source, wanted, task or FileTask(URI)))
    return pa.Table.from_batches(got, schema=output_schema(wanted))


def one(type_: DataType, array: pa.Array, **options: Any) -> list[Any]:
    """A single column stored as `array` and read as `type_`."""
    table = read(stored(pa.table({"c": array}), **options), (Field("c", type_),))
    table.validate(full=True)
    return list(table.column("c").to_pylist())


@examples(60)
@given(st.data())
def test_any_nested_schema_reads_as_written_whatever_the_names_or_ids(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    wanted = data.draw(rows(schema))
    by_id = data.draw(st.booleans())
    hidden = data.draw(st.sets(st.integers(0, 12)))
    drop = data.draw(st.integers(0, len(schema) - 1)) if len(schema) > 1 else None
    file_fields = [f for i, f in enumerate(schema.fields) if i != drop]
    arrays = [
        pa.array([stored_value(r[f.name], f.type, names=not by_id) for r in wanted], t.type)
        for f in file_fields
        if (t := stored_field(f, ids=by_id, names=not by_id))
    ]
    table = pa.table(arrays, schema=pa.schema([stored_field(f, ids=by_id, names=not by_id) for f in file_fields]))
    got = read(
        stored(table, row_group_size=data.draw(st.integers(1, 5))),
        schema.fields,
        FileTask(URI, hidden=BitMap64(hidden)),
        by_id=by_id,
        metadata={"_row_index": "at"},
        batch_rows=data.draw(st.integers(1, 7)),
    )
    got.validate(full=True)
    if drop is not None:
        wanted = [r | {schema.fields[drop].name: None} for r in wanted]
    live = [i for i in range(len(wanted)) if i not in hidden]
    expected = pa.Table.from_pylist([wanted[i] for i in live], schema=arrow_schema(schema))
    assert got.column("at").to_pylist() == live
    assert got.drop_columns(["at"]).equals(expected)


@examples(40)
@given(
    st.lists(st.tuples(st.none() | st.integers(0, 10**9), st.none() | st.integers(0, 99)), max_size=30),
    st.sets(st.integers(0, 40)),
    st.integers(1, 9),
    st.booleans(),
)
def test_an_own_id_wins_over_base_plus_position(
    own: list[tuple[int | None, int | None]], hidden: set[int], group: int, with_columns: bool
) -> None:
    table = pa.table({"c": pa.array(range(len(own)), pa.int64())})
    if with_columns:
        table = table.append_column("_id", pa.array([i for i, _ in own], pa.int64()))
        table = table.append_column("_version", pa.array([v for _, v in own], pa.int64()))
    task = FileTask(URI, hidden=BitMap64(hidden).serialize(), base_row_id=1000, default_row_commit_version=7)
    got = read(
        stored(table, row_group_size=group),
        task=task,
        id_column="_id",
        version_column="_version",
        metadata={"_row_commit_version": "v", "_row_id": "_row_id", "_base_row_id": "b", "_file": "f"},
        batch_rows=4,
    )
    expected = [
        {
            "v": 7 if not with_columns or version is None else version,
            "_row_id": 1000 + i if not with_columns or id_ is None else id_,
            "b": 1000,
            "f": URI,
        }
        for i, (id_, version) in enumerate(own)
        if i not in hidden
    ]
    assert got.to_pylist() == expected


def test_ids_that_nobody_gives_are_damage() -> None:
    with pytest.raises(Damaged, match="without a row id"):
        read(stored(pa.table({"c": [1]})), metadata={"_row_id": "_row_id"})


def test_a_hidden_row_may_hold_anything() -> None:
    source = stored(pa.table({"c": pa.array([1, 2**40], pa.int64())}))
    got = read(source, (Field("c", Primitive("integer")),), FileTask(URI, hidden=BitMap64([1])))
    assert got.to_pylist() == [{"c": 1}]
    with pytest.raises(Damaged, match="column c"):
        read(source, (Field("c", Primitive("integer")),))


@pytest.mark.parametrize(
    ("type_", "array", "expected"),
    [
        (Primitive("long"), pa.array([1, None], pa.int8()), [1, None]),
        (Primitive("byte"), pa.array([-128, 127], pa.int32()), [-128, 127]),
        (Primitive("long"), pa.array([2**32 - 1], pa.uint32()), [2**32 - 1]),
        (Primitive("double"), pa.array([2**31 - 1, None], pa.int32()), [2.0**31 - 1, None]),
        (Primitive("double"), pa.array([0.5], pa.float32()), [0.5]),
        (Primitive("float"), pa.array([0.5], pa.float16()), [0.5]),
        (Primitive("timestamp_ntz"), pa.array([dt.date(1500, 1, 1)]), [dt.datetime(1500, 1, 1)]),
        (Decimal(12, 2), pa.array([-7], pa.int32()), [decimal.Decimal("-7.00")]),
        (Decimal(38, 18), pa.array([2**63 - 1], pa.int64()), [decimal.Decimal(2**63 - 1)]),
        (Decimal(4, 2), pa.array([99], pa.int64()), [decimal.Decimal("99.00")]),
        (Decimal(20, 5), pa.array([decimal.Decimal("1.25")], pa.decimal128(5, 2)), [decimal.Decimal("1.25000")]),
        (Decimal(9, 2), pa.array([decimal.Decimal("1.25")], pa.decimal32(5, 2)), [decimal.Decimal("1.25")]),
        (Primitive("string"), pa.array(["x", None], pa.large_string()), ["x", None]),
        (Primitive("string"), pa.array([b"x"], pa.binary()), ["x"]),
        (Primitive("string"), pa.array(["x", "y", "x"]).dictionary_encode(), ["x", "y", "x"]),
        (Primitive("binary"), pa.array([b"ab"], pa.binary(2)), [b"ab"]),
        (Primitive("binary"), pa.array(["ab"], pa.string()), [b"ab"]),
        (Primitive("void"), pa.array([1]), [None]),
        (Primitive("timestamp"), pa.array([-1, 1999], pa.timestamp("ns")), [
            dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.UTC), dt.datetime(1970, 1, 1, 0, 0, 0, 1, dt.UTC)
        ]),
        (Primitive("timestamp"), pa.array([5], pa.timestamp("ms", "Europe/Paris")), [
            dt.datetime(1970, 1, 1, 0, 0, 0, 5000, dt.UTC)
        ]),
        (Primitive("timestamp_ntz"), pa.array([5, None], pa.timestamp("ms")), [
            dt.datetime(1970, 1, 1, 0, 0, 0, 5000), None
        ]),
        (Array(Primitive("long")), pa.array([[1, None], None, []], pa.large_list(pa.int32())), [[1, None], None, []]),
        (Map(Primitive("string"), Decimal(10, 0)), pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())), [
            [("k", decimal.Decimal(1))], None
        ]),
    ],
)  # fmt: skip
def test_what_a_file_may_hold_for_a_type(type_: DataType, array: pa.Array, expected: list[Any]) -> None:
    assert one(type_, array) == expected


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        (Primitive("double"), pa.array([1], pa.int64())),
        (Primitive("integer"), pa.array([1.0])),
        (Primitive("long"), pa.array(["1"])),
        (Primitive("boolean"), pa.array([1])),
        (Primitive("date"), pa.array([1], pa.int32())),
        (Primitive("timestamp"), pa.array([1], pa.int64())),
        (Primitive("timestamp_ntz"), pa.array([1], pa.timestamp("us", "UTC"))),
        (Decimal(5, 2), pa.array([1.0])),
        (Primitive("string"), pa.array([{"a": 1}])),
        (Primitive("variant"), pa.array([{"a": 1}])),
        (Struct((Field("a", Primitive("long")),)), pa.array([1])),
        (Array(Primitive("long")), pa.array([1])),
        (Map(Primitive("string"), Primitive("long")), pa.array([["x"]])),
    ],
)
def test_anything_else_is_refused_with_file_and_column(type_: DataType, array: pa.Array) -> None:
    with pytest.raises(Unsupported, match=rf"{URI} stores its column c as"):
        one(type_, array)


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        (Primitive("byte"), pa.array([128], pa.int32())),
        (Primitive("long"), pa.array([2**63], pa.uint64())),
        (Decimal(3, 2), pa.array([10], pa.int32())),
        (Decimal(5, 1), pa.array([decimal.Decimal("1.25")])),
        (Primitive("string"), pa.array([b"\xff"])),
        (Primitive("timestamp"), pa.array([2**62], pa.timestamp("ms"))),
    ],
)
def test_values_that_do_not_fit_are_damage(type_: DataType, array: pa.Array) -> None:
    with pytest.raises(Damaged, match="column c"):
        one(type_, array)


def test_timestamps_of_96_bits_keep_their_range() -> None:
    wide = [dt.datetime(9999, 12, 31, tzinfo=dt.UTC), dt.datetime(1900, 1, 2, tzinfo=dt.UTC), None]
    # pyarrow stores 96-bit timestamps only from nanoseconds, so the far one is patched to what Spark stores.
    near = pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.UTC), wide[1], None], pa.timestamp("us", "UTC"))
    sink = stored(pa.table({"c": near}), use_deprecated_int96_timestamps=True, compression="none", use_dictionary=False)
    days = (dt.date(2020, 1, 1).toordinal() + 1721425).to_bytes(4, "little")
    far = (dt.date(9999, 12, 31).toordinal() + 1721425).to_bytes(4, "little")
    patched = sink.getvalue().replace(bytes(8) + days, bytes(8) + far)
    assert pq.ParquetFile(io.BytesIO(patched)).metadata.schema.column(0).physical_type == "INT96"
    assert read(io.BytesIO(patched), (Field("c", Primitive("timestamp")),)).column("c").to_pylist() == wide


def test_names_differ_in_case_and_the_exact_one_wins() -> None:
    long = Primitive("long")
    assert read(stored(pa.table({"AbC": [1]})), (Field("abc", long),)).to_pylist() == [{"abc": 1}]
    assert read(stored(pa.table({"abc": [1], "ABC": [2]})), (Field("ABC", long),)).to_pylist() == [{"ABC": 2}]
    with pytest.raises(Damaged, match="abc, ABC"):
        read(stored(pa.table({"abc": [1], "ABC": [2]})), (Field("Abc", long),))


def test_names_with_dots_are_names() -> None:
    table = pa.table({"a.b": [1], "a": [{"b": 2}]})
    assert read(stored(table), (Field("a.b", Primitive("long")),)).to_pylist() == [{"a.b": 1}]


def test_the_log_wins_over_the_file_for_a_partition_column() -> None:
    part = Field("p", Primitive("integer"))
    got = read(
        stored(pa.table({"p": [1, 2], "c": [3, 4], "_change_type": ["x", None]})),
        (part, Field("c", Primitive("long"))),
        FileTask(URI, partition={"p": pa.scalar(9, pa.int32())}),
        partition_fields=(part,),
        metadata={"_partition": "_partition"},
    )
    assert got.to_pylist() == [{"p": 9, "c": 3, "_partition": {"p": 9}}, {"p": 9, "c": 4, "_partition": {"p": 9}}]
    unpartitioned = read(stored(pa.table({"c": [1]})), metadata={"_partition": "_partition"})
    assert unpartitioned.to_pylist() == [{"_partition": {}}]


def test_rows_are_counted_without_columns() -> None:
    source = stored(pa.table({"c": range(10)}), row_group_size=3)
    task = FileTask(URI, hidden=BitMap64([0, 9]))
    assert sum(b.num_rows for b in read_batches(source, ReadSpec((), batch_rows=4), task)) == 8


def test_a_table_that_goes_by_id_needs_ids() -> None:
    field = Field("c", Primitive("long"), True, {"delta.columnMapping.id": 1})
    with pytest.raises(Damaged, match="no field ids"):
        read(stored(pa.table({"c": [1]})), (field,), by_id=True)


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"not parquet at all, but long enough", b"PAR1" + bytes(20) + b"PAR1"]
)
def test_what_is_no_parquet_file_is_named(content: bytes) -> None:
    with pytest.raises(Damaged, match=URI):
        read(io.BytesIO(content), (Field("c", Primitive("long")),))


def test_a_page_that_is_torn_is_named() -> None:
    whole = stored(pa.table({"c": range(1000)}), compression="snappy").getvalue()
    torn = whole[:50] + b"\xff" * 200 + whole[250:]
    with pytest.raises(Damaged, match=URI):
        read(io.BytesIO(torn), (Field("c", Primitive("long")),))


def test_a_missing_file_is_named() -> None:
    with pytest.raises(MissingFile, match=URI):
        read("/nowhere/part-0.parquet", (Field("c", Primitive("long")),))
