"""How files are laid out: for scans, or for rows read one by one."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.errors import Invalid
from holdfast.model.snapshot import RowIdentity
from holdfast.model.write_spec import write_spec
from holdfast.parquet.pages.pagemap import load_page_map
from holdfast.parquet.write import WriteSpec, file_names, write_batches
from holdfast.schema.requests import requested
from holdfast.schema.types import Array, Decimal, Field, Map, Primitive, Struct
from holdfast.storage.memory import MemoryStore
from holdfast.storage.sink import StoreSink

ROWS = 1000
SCHEMA = Struct(
    (
        Field("id", Primitive("long")),
        Field("day", Primitive("date")),
        Field("price", Decimal(10, 2)),
        Field("s", Primitive("string")),
        Field("vec", Array(Primitive("float"))),
        Field("tags", Array(Primitive("string"))),
        Field("inner", Struct((Field("x", Primitive("long")),))),
        Field("m", Map(Primitive("string"), Primitive("long"))),
    )
)
POINT = {"holdfast.layout": "point"}


def batch() -> pa.RecordBatch:
    count = range(ROWS)
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array(count),
            "day": pa.array(count, pa.int32()).cast(pa.date32()),
            "price": pa.array(count).cast(pa.decimal128(21, 2)).cast(pa.decimal128(10, 2)),
            "s": [f"name {i}" for i in count],
            "vec": pa.array(list(np.ones((ROWS, 16), np.float32)), pa.list_(pa.float32())),
            "tags": [["a"] * (i % 3) for i in count],
            "inner": [{"x": i} for i in count],
            "m": pa.array([[("k", i)] for i in count], pa.map_(pa.string(), pa.int64())),
            "_row_id": pa.array(count),
            "_row_commit_version": pa.array([7] * ROWS),
        }
    )


def written(spec: WriteSpec) -> bytes:
    store = MemoryStore()
    names = file_names(0, lambda: UUID(int=1), spec.codec)
    rows = batch() if spec.id_column else batch().select(range(8))
    (files,) = write_batches([rows], spec, StoreSink(store, "t", lambda: 0), names)
    return store.get(f"t/{files.column('key')[0].as_py()}")


def chunks(file: bytes) -> dict[str, pq.ColumnChunkMetaData]:
    group = pq.read_metadata(pa.BufferReader(file)).row_group(0)
    return {(c := group.column(i)).path_in_schema: c for i in range(group.num_columns)}


def pages(file: bytes) -> set[int]:
    """How many pages each leaf has."""
    page_map = load_page_map(lambda at, length: file[at : at + length], len(file), guess=1 << 20)
    assert page_map is not None, "a file that Holdfast wrote has an index of its pages"
    leaves = [page_map.leaf(i) for i in range(len(page_map.levels))]
    assert None not in leaves
    return {len(leaf.starts) for leaf in leaves if leaf is not None}


def test_every_file_has_an_index_of_its_pages() -> None:
    assert pages(written(write_spec(SCHEMA, (), {}))) == {1}
    assert pages(written(write_spec(SCHEMA, (), POINT))) == {8}


def test_the_point_layout_leaves_numbers_and_vectors_as_they_are() -> None:
    carried = RowIdentity("_rid", "_rcv", 0)
    file = written(write_spec(SCHEMA, (), POINT, carried=carried))
    by_path = chunks(file)
    plain = {path for path, chunk in by_path.items() if chunk.compression == "UNCOMPRESSED"}
    assert plain == {"id", "day", "price", "vec.list.element"}
    assert {chunk.compression for path, chunk in by_path.items() if path not in plain} == {"SNAPPY"}
    assert {path for path, chunk in by_path.items() if chunk.has_dictionary_page} == {"_rcv"}
    stored = pq.read_table(pa.BufferReader(file))
    assert stored.column("_rid").to_pylist() == list(range(ROWS))
    assert stored.column("s").to_pylist() == batch().column("s").to_pylist()


def test_a_codec_that_is_asked_for_counts_in_either_layout() -> None:
    for properties in ({}, POINT):
        by_path = chunks(written(write_spec(SCHEMA, (), {**properties, "delta.parquet.compression.codec": "gzip"})))
        assert by_path["s"].compression == "GZIP"


def test_a_layout_that_does_not_exist_is_refused_by_name() -> None:
    for refuse in (lambda p: write_spec(SCHEMA, (), p), requested):
        with pytest.raises(Invalid, match=r"holdfast\.layout is 'pont'; it must be one of default, point"):
            refuse({"holdfast.layout": "pont"})
    assert requested({"HOLDFAST.Layout": "point"}).properties == POINT


def test_a_table_keeps_its_layout_in_whatever_it_writes(tmp_path: Path) -> None:
    columns = pa.schema([("k", pa.int64()), ("s", pa.string())])
    table = DeltaTable.create(None).location(str(tmp_path / "t")).addColumns(columns)
    table = table.property("holdfast.layout", "point").property("delta.enableRowTracking", "true").execute()
    table.append(pa.table({"k": range(ROWS), "s": ["x"] * ROWS}))
    table.append(pa.table({"k": range(ROWS), "s": ["y"] * ROWS}))
    table.update("k < 10", {"s": "'z'"})
    assert layouts(table) == {("UNCOMPRESSED", "SNAPPY")}
    table.optimize().executeCompaction()
    assert layouts(table) == {("UNCOMPRESSED", "SNAPPY")}
    table.setProperties({"holdfast.layout": "default"})
    table.delete("k = 20")
    table.append(pa.table({"k": [1], "s": ["x"]}))
    assert layouts(table) >= {("ZSTD", "ZSTD")}
    with pytest.raises(Invalid, match=r"holdfast\.layout is 'both'"):
        table.setProperties({"holdfast.layout": "both"})


def layouts(table: DeltaTable) -> set[tuple[str, ...]]:
    """The codecs of both columns, by live file."""
    codecs = set()
    for uri in set(table.toArrow(metadata=["_file"]).column("_file").to_pylist()):
        stored = chunks(Path(uri.removeprefix("file:")).read_bytes())
        codecs.add((stored["k"].compression, stored["s"].compression))
    return codecs


def test_spark_writes_and_reads_the_point_layout(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 3000, 1, 1).selectExpr("id", "concat('s', id) as s", "array(cast(id as float), 2f) as vec")
    table = DeltaTable.create(spark).location(str(tmp_path / "t")).addColumns(frame.schema)
    table = table.property("holdfast.layout", "point").execute()
    table.append(frame)
    (file,) = (tmp_path / "t").glob("*.parquet")
    assert chunks(file.read_bytes())["vec.list.element"].compression == "UNCOMPRESSED"
    assert pages(file.read_bytes()) == {24}
    assert table.toDF().exceptAll(frame).count() == 0
    sums = duckdb.sql(f"select sum(id), count(distinct s), sum(vec[1]) from '{file}'").fetchone()
    assert sums == (4_498_500, 3000, 4_498_500.0)
