"""Batches in, whole files out."""

from __future__ import annotations

import datetime as dt
import random
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

import holdfast
from holdfast.engines.local.write import write_table
from holdfast.env import fixed, system
from holdfast.errors import Invalid, Unavailable
from holdfast.model.mutation import STAGED
from holdfast.parquet.pages.footer import Node, columns
from holdfast.parquet.read import FileTask, ReadSpec, output_schema, read_batches
from holdfast.parquet.write import WRITTEN, WriteSpec, file_names, write_batches
from holdfast.schema.arrow import arrow_schema
from holdfast.schema.types import LONG, MAPPING_ID, MAPPING_NAME, STRING, Array, Field, Map, Primitive, Struct
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location
from holdfast.storage.sink import LocalSink, open_sink
from tests.parquet.strategies import rows, schemas, stored_value
from tests.support.depth import examples
from tests.support.faulty import Fault, FaultyStore

A = (Field("a", LONG),)
VARIANT = Primitive("variant")


def memory() -> Location:
    return Location(MemoryStore(), "t")


def stored_file(location: Location, key: str) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(location.store.get(location.key(key))))


def read_back(location: Location, staged: pa.Table, fields: tuple[Field, ...], **spec: Any) -> list[dict[str, Any]]:
    wanted = ReadSpec(fields, **spec)
    batches: list[pa.RecordBatch] = []
    for key in staged.column("key").to_pylist():
        source = pa.BufferReader(location.store.get(location.key(key)))
        batches += read_batches(source, wanted, FileTask(key))
    return list(pa.Table.from_batches(batches, output_schema(wanted)).to_pylist())


def counting(rows: int, *, start: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"a": pa.array(range(start, start + rows), pa.int64())})


def group_rows(file: pq.ParquetFile) -> list[int]:
    return [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]


def test_what_is_written_is_what_a_mutation_adds() -> None:
    assert WRITTEN == STAGED


@examples(80)
@given(st.data())
def test_any_nested_schema_reads_back_whatever_the_batches(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    wanted = data.draw(rows(schema))
    group = data.draw(st.integers(1, 6))
    table = pa.Table.from_pylist(wanted, schema=arrow_schema(schema))
    batches = table.to_batches(max_chunksize=data.draw(st.integers(1, 5)))
    location = memory()
    staged = write_table(location, batches, WriteSpec(schema.fields, row_group_rows=group), fixed())
    assert staged.schema == STAGED
    assert staged.num_rows == bool(wanted)
    assert read_back(location, staged, schema.fields) == table.to_pylist()
    assert read_back(location, staged, schema.fields, by_id=True) == table.to_pylist()
    for row in staged.to_pylist():
        file = stored_file(location, row["key"])
        assert row["size"] == location.store.head(location.key(row["key"])).size
        assert row["num_records"] == len(wanted)
        assert group_rows(file) == [min(group, len(wanted) - at) for at in range(0, len(wanted), group)]
        plain = [{f.physical_name: stored_value(r[f.name], f.type) for f in schema.fields} for r in table.to_pylist()]
        assert file.read().to_pylist() == plain
        _same_ids(columns(file.schema_arrow), schema.fields)


def _same_ids(nodes: tuple[Node, ...], fields: tuple[Field, ...]) -> None:
    """Names and ids of the file are those of the table, through structs, lists and maps."""
    for node, field in zip(nodes, fields, strict=True):
        assert (node.name, node.field_id) == (field.physical_name, field.field_id)
        inner, type_ = (node,), field.type
        while isinstance(type_, Array | Map):
            inner, type_ = (inner[0].children[-1],), type_.element if isinstance(type_, Array) else type_.value
        if isinstance(type_, Struct):
            _same_ids(inner[0].children, type_.fields)


def test_ids_inside_lists_and_maps_come_from_the_field_around_them() -> None:
    nested = {"c.element": 7, "c.element.key": 8, "c.element.value": 9}
    meta = {MAPPING_ID: 1, MAPPING_NAME: "c", "delta.columnMapping.nested.ids": nested}
    field = Field("x", Array(Map(STRING, LONG)), metadata=meta)
    location = memory()
    table = pa.Table.from_pylist([{"x": [[("k", 1)]]}], schema=arrow_schema(Struct((field,))))
    staged = write_table(location, table, WriteSpec((field,)), fixed())
    (top,) = columns(stored_file(location, staged["key"][0].as_py()).schema_arrow)
    element = top.children[0]
    assert [n.field_id for n in (top, element, *element.children)] == [1, 7, 8, 9]


def test_no_rows_no_file() -> None:
    location = memory()
    assert write_table(location, [counting(0)], WriteSpec(A), fixed()).num_rows == 0
    assert write_table(location, [], WriteSpec(A), fixed()).schema == STAGED
    assert list(location.store.list_all("")) == []


def test_rows_without_a_column_to_store_are_refused_not_lost() -> None:
    fields = (Field("p", LONG), Field("n", Primitive("void")))
    with pytest.raises(Invalid, match="no column is left"):
        write_table(memory(), pa.table({"p": [1], "n": pa.nulls(1)}), WriteSpec(fields, ("p",)), fixed())


def test_small_batches_make_whole_row_groups_and_large_ones_are_cut() -> None:
    location = memory()
    small = [counting(7, start=7 * i) for i in range(300)]
    for batches in (small, [counting(2100)]):
        staged = write_table(location, batches, WriteSpec(A, row_group_rows=1000), system())
        assert group_rows(stored_file(location, staged["key"][0].as_py())) == [1000, 1000, 100]
    staged = write_table(location, small, WriteSpec(A, row_group_bytes=8 * 500), system())
    sizes = group_rows(stored_file(location, staged["key"][0].as_py()))
    assert sum(sizes) == 2100
    assert all(490 <= size <= 510 for size in sizes[:-1])


def test_files_are_closed_once_they_are_large_enough() -> None:
    rng = random.Random(1)
    location = memory()
    batches = [pa.record_batch({"b": pa.array([rng.randbytes(100) for _ in range(1000)])}) for _ in range(20)]
    field = (Field("b", Primitive("binary")),)
    spec = WriteSpec(field, target_bytes=300_000, row_group_bytes=50_000)
    staged = write_table(location, batches, spec, system())
    assert sum(staged["num_records"].to_pylist()) == 20_000
    *full, last = staged["size"].to_pylist()
    assert len(full) >= 5
    assert all(300_000 <= size < 380_000 for size in full)
    assert last < 380_000
    wanted = [row for batch in batches for row in batch.to_pylist()]
    assert read_back(location, staged, field) == wanted


@examples(30)
@given(st.lists(st.integers(1, 40), max_size=8), st.integers(1, 30), st.integers(1, 20))
def test_no_file_has_more_rows_than_it_may(batches: list[int], most: int, group: int) -> None:
    starts = [sum(batches[:i]) for i in range(len(batches))]
    location, spec = memory(), WriteSpec(A, file_rows=most, row_group_rows=group)
    staged = write_table(
        location, [counting(n, start=at) for at, n in zip(starts, batches, strict=True)], spec, system()
    )
    counts = staged["num_records"].to_pylist()
    assert all(count == most for count in counts[:-1])
    assert sum(counts) == sum(batches)
    assert max(counts, default=0) <= most
    assert [row["a"] for row in read_back(location, staged, A)] == list(range(sum(batches)))


def test_rows_carry_their_ids_and_versions() -> None:
    location = memory()
    ids, versions = [5, None, 9], [None, 1, 2]
    batch = pa.record_batch({"a": [1, 2, 3], "_row_id": ids, "_row_commit_version": versions})
    spec = WriteSpec(A, id_column="_id-col", version_column="_version-col")
    assert [f.name for f in spec.input_fields] == ["a", "_row_id", "_row_commit_version"]
    staged = write_table(location, [batch], spec, fixed())
    stored = stored_file(location, staged["key"][0].as_py()).read()
    assert stored.to_pydict() == {"a": [1, 2, 3], "_id-col": ids, "_version-col": versions}


def test_a_partition_that_comes_back_gets_another_file() -> None:
    fields = (Field("a", LONG), Field("p", STRING))
    batches = [pa.record_batch({"a": [i], "p": [p]}) for i, p in enumerate(["x", "x", "y", "x"])]
    names = iter(f"{i}.parquet" for i in range(9))
    location = memory()
    sink = open_sink(location, lambda: 5)
    got = pa.Table.from_batches(write_batches(batches, WriteSpec(fields, ("p",)), sink, lambda: next(names)))
    assert got["key"].to_pylist() == ["p=x/0.parquet", "p=y/1.parquet", "p=x/2.parquet"]
    assert got["num_records"].to_pylist() == [2, 1, 1]
    assert got["modified_ms"].to_pylist() == [5, 5, 5]
    assert stored_file(location, "p=x/0.parquet").schema_arrow.names == ["a"]


def test_a_table_makes_one_file_for_each_partition_in_the_order_of_its_rows() -> None:
    fields = (Field("p", LONG), Field("a", LONG))
    table = pa.table({"p": [i % 3 for i in range(30)], "a": range(30)})
    location = memory()
    staged = write_table(location, table, WriteSpec(fields, ("p",)), system())
    assert staged["num_records"].to_pylist() == [10, 10, 10]
    assert read_back(location, staged, fields[1:]) == [{"a": i} for p in range(3) for i in range(p, 30, 3)]


def test_partition_columns_are_stored_when_asked_for() -> None:
    fields = (Field("p", LONG), Field("a", LONG))
    location = memory()
    spec = WriteSpec(fields, ("p",), store_partitions=True, random_prefix=3, prefix="data")
    staged = write_table(location, pa.table({"p": [1], "a": [2]}), spec, system())
    data, letters, name = staged["key"][0].as_py().split("/")
    assert (data, len(letters), name[:11]) == ("data", 3, "part-00000-")
    assert stored_file(location, staged["key"][0].as_py()).read().to_pylist() == [{"p": 1, "a": 2}]


def test_variants_are_structs_of_two_binaries_and_voids_are_left_out() -> None:
    inner = Struct((Field("v", VARIANT), Field("n", Primitive("void")), Field("x", LONG)))
    fields = (Field("n", Primitive("void")), Field("v", VARIANT), Field("s", inner))
    value = {"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}
    written = [
        {"n": None, "v": value, "s": {"v": None, "n": None, "x": 1}},
        {"n": None, "v": None, "s": None},
        {"n": None, "v": value, "s": {"v": value, "n": None, "x": None}},
    ]
    location = memory()
    table = pa.Table.from_pylist(written, schema=arrow_schema(Struct(fields)))
    staged = write_table(location, table.slice(1), WriteSpec(fields, stats_leaves=(("v",), ("s", "v"))), fixed())
    file = stored_file(location, staged["key"][0].as_py())
    paths = [file.metadata.schema.column(i).path for i in range(5)]
    assert paths == ["v.value", "v.metadata", "s.v.value", "s.v.metadata", "s.x"]
    assert read_back(location, staged, fields) == written[1:]
    assert staged["stats"][0].as_py().endswith('"nullCount":{"v":1,"s":{"v":1}}}')


def test_other_forms_of_the_same_values_are_taken_and_others_refused() -> None:
    moment = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    forms: list[tuple[Any, pa.Array]] = [
        (STRING, pa.array(["x", None], pa.large_string())),
        (STRING, pa.array(["x", None], pa.string_view())),
        (STRING, pa.array(["x", None]).dictionary_encode()),
        (Primitive("binary"), pa.array([b"x", None], pa.large_binary())),
        (Primitive("timestamp"), pa.array([moment, None], pa.timestamp("us", "Europe/Berlin"))),
        (Array(STRING), pa.array([["x"], None], pa.large_list(pa.large_string()))),
        (LONG, pa.nulls(2)),
    ]
    for type_, array in forms:
        location = memory()
        fields = (Field("c", type_),)
        staged = write_table(location, pa.table({"c": array}), WriteSpec(fields), fixed())
        assert [row["c"] for row in read_back(location, staged, fields)] == array.to_pylist()
    for wrong in (pa.array([1], pa.int32()), pa.array(["1"]), pa.array([1.5]), pa.array([[1]])):
        with pytest.raises(Invalid, match=r"column c comes as .*cast it"):
            write_table(memory(), pa.table({"c": wrong}), WriteSpec((Field("c", LONG),)), fixed())


def test_the_layout_is_the_one_asked_for() -> None:
    location = memory()
    table = pa.table({"a": range(10_000), "t": pa.array(range(10_000), pa.timestamp("us", "UTC"))})
    fields = (*A, Field("t", Primitive("timestamp")))
    for codec, suffix in (("zstd", ".c000.zstd.parquet"), ("none", ".c000.parquet"), ("gzip", ".c000.gz.parquet")):
        staged = write_table(location, table, WriteSpec(fields, codec=codec), system())
        key = staged["key"][0].as_py()
        assert key.endswith(suffix)
        file = stored_file(location, key)
        stored = [file.metadata.row_group(0).column(i) for i in range(2)]
        assert {c.compression for c in stored} == {"UNCOMPRESSED" if codec == "none" else codec.upper()}
        assert all(c.has_offset_index and c.has_column_index for c in stored)
        assert [c.physical_type for c in stored] == ["INT64", "INT64"]
        assert file.schema_arrow.field("t").type == pa.timestamp("us", "UTC")


def broken() -> Iterator[pa.RecordBatch]:
    yield counting(10)
    raise ZeroDivisionError


def test_what_failed_leaves_nothing_to_be_seen(tmp_path: Path) -> None:
    for location in (memory(), open_location(str(tmp_path / "t"))):
        with pytest.raises(ZeroDivisionError):
            write_table(location, broken(), WriteSpec(A, row_group_rows=3), fixed())
        assert list(location.store.list_all(location.directory)) == []
    assert list((tmp_path / "t").iterdir()) == []


def test_a_writer_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    fields = (*A, Field("p", LONG))
    many = (pa.record_batch({"a": [i], "p": [i]}) for i in range(5000))
    sink = LocalSink(str(tmp_path)[1:])
    writing = write_batches(many, WriteSpec(fields, ("p",)), sink, file_names(0, uuid.uuid4, "zstd"))
    first = next(writing)
    writing.close()
    assert first.num_rows == len(list(tmp_path.rglob("*.parquet"))) == 1024
    assert [path for path in tmp_path.rglob("*") if path.name.startswith(".")] == []


def test_a_store_that_fails_says_so_and_keeps_no_half_file() -> None:
    inner = MemoryStore()
    location = Location(FaultyStore(inner, at=1, fault=Fault.BEFORE), "t")
    with pytest.raises(Unavailable):
        write_table(location, [counting(5)], WriteSpec(A), fixed())
    assert list(inner.list_all("")) == []


def test_a_name_in_use_is_never_taken_over(tmp_path: Path) -> None:
    for location in (memory(), open_location(str(tmp_path))):
        first = write_table(location, [counting(5)], WriteSpec(A), fixed(seed=1))
        with pytest.raises(Unavailable, match="exists already"):
            write_table(location, [counting(7)], WriteSpec(A), fixed(seed=1))
        assert len(read_back(location, first, A)) == 5
        assert len(list(location.store.list_all(location.directory))) == 1


WORKER = """
import pickle, sys, uuid
for name in ("holdfast", "obstore", "msgspec", "pyroaring"):
    sys.modules[name] = None  # importing it fails
write, batches, spec, sink, names = pickle.load(open(sys.argv[1], "rb"))
print([row["num_records"] for batch in write(batches, spec, sink, names) for row in batch.to_pylist()])
"""


def test_a_worker_without_holdfast_writes_a_file(tmp_path: Path) -> None:
    fields = (Field("a", Array(Struct((Field("x", LONG),)))), Field("p", Primitive("timestamp")), Field("s", STRING))
    schema = arrow_schema(Struct(fields))
    rows = [{"a": [{"x": i}], "p": dt.datetime(2020, 1, 1 + i, tzinfo=dt.UTC), "s": "x" * 5000} for i in range(3)]
    spec = WriteSpec(fields, ("p",), stats_leaves=(("a",), ("s",)), random_prefix=2)
    sink = LocalSink(str(tmp_path / "t")[1:])
    batches = [pa.RecordBatch.from_pylist(rows, schema=schema)]
    cloudpickle.register_pickle_by_value(holdfast)
    task = (write_batches, batches, spec, sink, file_names(3, uuid.uuid4, "zstd"))
    (tmp_path / "task").write_bytes(cloudpickle.dumps(task))
    done = subprocess.run([sys.executable, "-c", WORKER, str(tmp_path / "task")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[1, 1, 1]"
    assert len(list((tmp_path / "t").rglob("part-00003-*.parquet"))) == 3


FRUGAL = """
import random, resource, sys, uuid
import pyarrow as pa
from holdfast.parquet.write import WriteSpec, file_names, write_batches
from holdfast.schema.types import Field, Primitive
from holdfast.storage.sink import LocalSink

def batches(count):
    for i in range(count):
        data = pa.py_buffer(random.Random(i).randbytes(10_000 * 100))
        yield pa.RecordBatch.from_arrays([pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(100), 10_000, [None, data]).cast(pa.binary())], ["b"])

def peak(count):
    spec = WriteSpec((Field("b", Primitive("binary")),), row_group_bytes=8 << 20, target_bytes=1 << 30)
    sink, names = LocalSink(sys.argv[1]), file_names(0, uuid.uuid4, "zstd")
    files = [r for b in write_batches(batches(count), spec, sink, names) for r in b.to_pylist()]
    assert [f["num_records"] for f in files] == [count * 10_000]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

few, many = peak(20), peak(200)
print(many - few)
"""


def test_memory_is_bounded_by_a_row_group_not_by_the_file(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FRUGAL, str(tmp_path)[1:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 40 * 1024  # KiB more for a file of 200 MB than for one of 20 MB
