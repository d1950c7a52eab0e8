"""Rows taken by their pages are the rows the plain reader gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Damaged, MissingFile
from holdfast.parquet.pages import splice, take, thrift
from holdfast.parquet.pages.pagemap import _chunk, load_page_map, page_locations
from holdfast.parquet.pages.take import Pick, Taking
from holdfast.parquet.read import FileTask, ReadSpec
from holdfast.schema.types import Array, Field, Primitive, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.local import LocalStore
from holdfast.storage.memory import MemoryStore
from tests.parquet.strategies import rows, schemas, stored_field, stored_value
from tests.parquet.taking import expected, spec_of, stored, taken
from tests.support.depth import examples

ODD = ("null", "empty", "hole", "long")
NUMBERS = (pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("ms", "UTC"))
CODECS = ("none", "snappy", "gzip", "brotli", "zstd", "lz4")
STORES: dict[str, Callable[[], ObjectStore]] = {"local": LocalStore, "memory": MemoryStore}


@pytest.fixture
def only_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read by the plain reader, but files with pages that begin within a row.

    The format forbids these where there is an index of pages; Arrow writes them when it gives up a dictionary halfway
    through a list.
    """
    plain = take._plain

    def refused(spec: ReadSpec, pick: Pick, schema: pa.Schema) -> pa.RecordBatch:
        assert _splits_a_row(pick.store.get(pick.key)), "the pages of this file were not understood"
        return plain(spec, pick, schema)

    monkeypatch.setattr(take, "_plain", refused)
    monkeypatch.setattr(splice, "_LONG_DICTIONARY", 0)


def _splits_a_row(file: bytes) -> bool:
    pages = load_page_map(lambda at, size: file[at : at + size], len(file), guess=len(file))
    assert pages is not None, "the index of this file was not understood"
    indexes = (_chunk(pages.raw, place, pages.index_at)[1] for places in pages.places for place in places)
    return any((np.diff(page_locations(pages.index[index])[2]) == 0).any() for index in indexes)


def test_a_file_with_a_page_that_begins_within_a_row_is_read_whole(only_pages: None) -> None:
    entries = [("", None), ("0", None), ("00", None)]
    table = pa.table({"m": pa.array([entries, entries, []], pa.map_(pa.string(), pa.string()))})
    layout = {"max_rows_per_page": 1, "data_page_size": 100, "write_batch_size": 1}
    file = stored(table, compression="none", dictionary_pagesize_limit=40, **layout)
    assert _splits_a_row(file)
    assert not _splits_a_row(stored(table))
    spec, task, wanted = spec_of(table.schema), FileTask("x", size=len(file)), np.array([2, 1])
    got = taken(MemoryStore(), file, spec, wanted, key="t/x", task=task)
    assert got.equals(expected(file, spec, task, wanted))


def layouts() -> st.SearchStrategy[dict[str, Any]]:
    """How Arrow may write a file."""
    return st.fixed_dictionaries(
        {
            "compression": st.sampled_from(CODECS),
            "use_dictionary": st.booleans(),
            "data_page_version": st.sampled_from(("1.0", "2.0")),
            "max_rows_per_page": st.integers(1, 9),
            "data_page_size": st.sampled_from((100, 1 << 20)),
            "write_batch_size": st.integers(1, 20),
            "row_group_size": st.integers(1, 40),
            "write_statistics": st.booleans(),
            "store_schema": st.booleans(),
            "write_page_checksum": st.booleans(),
            "dictionary_pagesize_limit": st.sampled_from((1, 40, 1 << 20)),
        }
    )


@st.composite
def files(draw: st.DrawFn, schema: Struct) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Some rows many times over, so that there are pages."""
    few = draw(rows(schema).filter(bool))
    order = draw(st.lists(st.integers(0, len(few) - 1), min_size=1, max_size=80))
    fields = [stored_field(f, ids=True) for f in schema.fields]
    arrays = [
        pa.array([stored_value(few[i][f.name], f.type) for i in order], t.type)
        for f, t in zip(schema.fields, fields, strict=True)
    ]
    return pa.table(arrays, schema=pa.schema(fields)), few


def positions(count: int) -> st.SearchStrategy[Any]:
    return st.lists(st.integers(0, count - 1), min_size=1, max_size=20).map(lambda p: np.array(p, np.int64))


@pytest.mark.parametrize("kind", STORES)
@examples(40)
@given(st.data())
def test_any_nested_schema_and_layout(kind: str, only_pages: None, tmp_path: Path, data: st.DataObject) -> None:
    schema = data.draw(schemas())
    table, _ = data.draw(files(schema))
    file = stored(table, **data.draw(layouts()))
    wanted = data.draw(positions(table.num_rows))
    columns = data.draw(st.lists(st.sampled_from(schema.fields), min_size=1, unique_by=lambda f: f.name))
    spec, task = spec_of(Struct(tuple(columns)), by_id=data.draw(st.booleans())), FileTask("x", size=len(file))
    got = taken(STORES[kind](), file, spec, wanted, key=f"{str(tmp_path)[1:]}/{uuid4()}", task=task)
    assert got.equals(expected(file, spec, task, wanted))


@examples(80)
@given(st.data())
def test_numbers_and_vectors_are_gathered_or_refused(only_pages: None, tmp_path: Path, data: st.DataObject) -> None:
    """Uncompressed plain pages, of which some have nulls, empty lists or lists of another length."""
    count, length = data.draw(st.integers(1, 70)), data.draw(st.integers(1, 20))
    odd = data.draw(
        st.lists(st.tuples(st.integers(0, count - 1), st.sampled_from(ODD)), max_size=3, unique_by=lambda o: o[0])
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    numbers: list[Any] = rng.integers(-(2**31), 2**31, count).tolist()
    vectors: list[Any] = rng.random((count, length), np.float32).tolist()
    for at, kind in odd:
        numbers[at] = None if kind == "null" else numbers[at]
        vectors[at] = {"null": None, "empty": [], "hole": [None, *vectors[at][1:]], "long": [*vectors[at], 1.0]}[kind]
    required = not odd and data.draw(st.booleans())
    fields = [
        pa.field("n", data.draw(st.sampled_from(NUMBERS)), nullable=not required),
        pa.field("v", pa.list_(pa.field("element", pa.float32(), nullable=not required)), nullable=not required),
    ]
    table = pa.table(
        [pa.array(numbers, pa.int64()).cast(fields[0].type), pa.array(vectors, fields[1].type)], pa.schema(fields)
    )
    file = stored(table, **{**data.draw(layouts()), "compression": "none", "use_dictionary": False})
    wanted = data.draw(positions(count))
    spec, task = spec_of(table.schema), FileTask("x")
    key = f"{str(tmp_path)[1:]}/{uuid4()}"
    for _ in range(2):  # the second time by what the first has proven
        got = taken(LocalStore(), file, spec, wanted, key=key, task=task)
        assert got.equals(expected(file, spec, task, wanted))


def test_what_is_gathered_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.arange(64_000, dtype=np.float32).reshape(1000, 64)
    table = pa.table({"n": pa.array(range(1000)), "v": pa.array(list(vectors), pa.list_(pa.float32()))})
    file = stored(table, compression="none", use_dictionary=False, max_rows_per_page=128, row_group_size=300)
    monkeypatch.setattr(take, "spliced", lambda *_: pytest.fail("a page was decoded"))
    wanted = np.array([999, 0, 128, 127, 300, 299, 300])
    got = taken(LocalStore(), file, spec_of(table.schema), wanted, key=f"{str(tmp_path)[1:]}/f", task=FileTask("x"))
    assert got.column("n").to_pylist() == wanted.tolist()
    assert np.array_equal(np.array(got.column("v").to_pylist(), np.float32), vectors[wanted])


@pytest.mark.parametrize("kind", STORES)
def test_ids_partitions_constants_and_columns_that_are_not_there(kind: str, only_pages: None, tmp_path: Path) -> None:
    ids = pa.array([None, 7, None, 3] * 50, pa.int64())
    table = pa.table({"a": pa.array(range(200), pa.int32()), "_id": ids, "p": ["stale"] * 200})
    file = stored(table, max_rows_per_page=8, row_group_size=64)
    fields = (Field("p", Primitive("string")), Field("a", Primitive("long")), Field("new", Array(Primitive("string"))))
    names = ("_row_id", "_row_commit_version", "_row_index", "_file", "_partition", "_base_row_id", "_file_number")
    spec = spec_of(
        Struct(fields), partition_fields=fields[:1], id_column="_id", metadata={name: name for name in names}
    )
    task = FileTask(
        "x", {"p": pa.scalar("now")}, base_row_id=1000, default_row_commit_version=4, size=len(file), number=2
    )
    wanted = np.array([150, 3, 0, 1, 199, 3])
    got = taken(STORES[kind](), file, spec, wanted, key=f"{str(tmp_path)[1:]}/f", task=task)
    assert got.equals(expected(file, spec, task, wanted))
    assert got.column("_row_id").to_pylist() == [1150, 3, 1000, 7, 3, 3]
    bare = taken(STORES[kind](), file, spec_of(Struct(())), wanted, key=f"{str(tmp_path)[1:]}/g", task=task)
    assert bare.column("at").to_pylist() == wanted.tolist()


def test_several_files_come_pick_by_pick_in_the_order_asked(tmp_path: Path) -> None:
    store, spec, picks, wanted = LocalStore(), spec_of(pa.schema([("a", pa.int64())]), metadata={}), [], []
    rng = np.random.default_rng(3)
    for number in range(20):
        start = number * 1000
        table = pa.table({"a": pa.array(range(start, start + 500))})
        key = f"{str(tmp_path)[1:]}/{number}"
        store.put(key, stored(table, max_rows_per_page=16, write_page_index=number % 3 > 0))
        at = rng.integers(0, 500, number)  # the first has none
        picks.append(Pick(store, key, FileTask(key), at))
        wanted += (at + start).tolist()
    assert Taking(spec).rows(picks).column("a").to_pylist() == wanted
    assert Taking(spec).rows([]).schema == Taking(spec).rows(picks).schema


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("index", [True, False])
def test_a_row_the_file_does_not_have_is_damage(kind: str, index: bool, tmp_path: Path) -> None:
    file = stored(pa.table({"a": range(10)}), write_page_index=index)
    for at in (10, -1):
        with pytest.raises(Damaged, match=rf"x has 10 rows, but its table refers to row {at}"):
            taken(
                STORES[kind](),
                file,
                spec_of(pa.schema([("a", pa.int64())])),
                np.array([0, at]),
                key=f"{str(tmp_path)[1:]}/f",
                task=FileTask("x", size=len(file)),
            )


@pytest.mark.parametrize("kind", STORES)
def test_a_missing_empty_or_broken_file_is_told_by_name(kind: str, tmp_path: Path) -> None:
    store, spec, key = STORES[kind](), spec_of(pa.schema([("a", pa.int64())])), f"{str(tmp_path)[1:]}/f"
    pick = Pick(store, key, FileTask(key, size=10), np.array([0]))
    with pytest.raises(MissingFile, match=key):
        Taking(spec).rows([pick])
    whole = stored(pa.table({"a": range(1000)}), max_rows_per_page=10, compression="zstd")
    for broken in (b"", b"PAR1", whole[:-4], whole[:200] + bytes(400) + whole[600:]):
        store.put(key, broken)
        with pytest.raises(Damaged, match=key):
            Taking(spec).rows([Pick(store, key, FileTask(key, size=len(broken)), np.arange(1000))])


def test_a_header_with_a_map_of_endless_length_is_damage() -> None:
    """The header of a page that may need its dictionary is looked into; this one claims 2^60 entries of two bytes."""
    rows = pa.table({"s": [f"{i % 2000:032d}" for i in range(8000)]})
    data = bytearray(stored(rows, max_rows_per_page=500, dictionary_pagesize_limit=1 << 20, compression="none"))
    pages = load_page_map(lambda at, size: bytes(data[at : at + size]), len(data), guess=len(data))
    assert pages is not None
    leaf = pages.leaf(0)
    assert leaf is not None
    start = int(leaf.starts[3])
    crafted = b"\x1b" + thrift.unsigned(2**60) + b"\x11"
    data[start : start + len(crafted)] = crafted
    with pytest.raises(Damaged, match=r"memory:.*f\.parquet"):
        taken(
            MemoryStore(),
            bytes(data),
            spec_of(rows.schema),
            np.array([1700]),
            key="f.parquet",
            task=FileTask("memory:/f.parquet"),
        )
