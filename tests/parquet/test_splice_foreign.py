"""Rows taken out of files that other engines wrote are the rows the plain reader gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import ColumnProperties, WriterProperties, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from holdfast.parquet.pages.pagemap import load_page_map
from holdfast.parquet.pages.take import GUESS, Pick, Taking
from holdfast.parquet.read import FileTask, ReadSpec
from holdfast.schema.types import Array, Field, Map, Primitive, Struct
from holdfast.storage.local import LocalStore
from tests.parquet.taking import expected
from tests.support.depth import examples

FIELDS = (
    Field("n", Primitive("long")),
    Field("i", Primitive("integer")),
    Field("d", Primitive("double")),
    Field("s", Primitive("string")),
    Field("few", Primitive("string")),
    Field("t", Primitive("timestamp")),
    Field("v", Array(Primitive("float"))),
    Field("deep", Array(Struct((Field("x", Primitive("long")), Field("y", Array(Primitive("string"))))))),
    Field("m", Map(Primitive("string"), Primitive("integer"))),
)
SPEC = ReadSpec(FIELDS, metadata={"_row_index": "at"})


def table_of(rows: int, seed: int, *, nulls: float, length: int) -> pa.Table:
    rng = np.random.default_rng(seed)

    def some(values: list[Any]) -> list[Any]:
        gone = rng.random(rows) < nulls
        return [None if g else v for g, v in zip(gone, values, strict=True)]

    numbers = rng.integers(-(2**31), 2**31, rows).tolist()
    lists = [[{"x": i, "y": ["a", None][: i % 3]} for i in range(n % 4)] for n in numbers]
    return pa.table(
        {
            "n": pa.array(some(numbers), pa.int64()),
            "i": pa.array(numbers, pa.int32()),
            "d": pa.array(some(rng.random(rows).tolist()), pa.float64()),
            "s": pa.array(some([f"text {n}" for n in numbers]), pa.string()),
            "few": pa.array(some([f"{n % 5}" for n in numbers]), pa.string()),
            "t": pa.array(some(numbers), pa.timestamp("us", "UTC")),
            "v": pa.array(some(list(rng.random((rows, length), np.float32))), pa.list_(pa.float32())),
            "deep": pa.array(some(lists), pa.list_(pa.struct({"x": pa.int64(), "y": pa.list_(pa.string())}))),
            "m": pa.array(
                some([[(f"{i}", n) for i in range(n % 3)] for n in numbers]), pa.map_(pa.string(), pa.int32())
            ),
        }
    )


def check(path: Path, seed: int, *, paged: bool | None = None) -> None:
    """Any rows of any columns; `paged` says whether the file must be understood by its pages."""
    data, rng = path.read_bytes(), np.random.default_rng(seed)
    rows = pq.read_metadata(path).num_rows
    page_map = load_page_map(lambda at, length: data[at : at + length], len(data), guess=GUESS)
    if paged is not None:
        leaves = [] if page_map is None else [page_map.leaf(i) for i in range(len(page_map.levels))]
        assert (bool(leaves) and None not in leaves) is paged
    for count in (1, 5, 60, rows):
        wanted = rng.integers(0, rows, count)
        fields = tuple(f for f in FIELDS if rng.random() < 0.6)
        spec = ReadSpec(fields, metadata=SPEC.metadata)
        task = FileTask(str(path))
        got = Taking(spec).rows([Pick(LocalStore(), str(path)[1:], task, wanted)])
        got.validate(full=True)
        assert got.equals(expected(data, spec, task, wanted))


shapes = st.fixed_dictionaries(
    {
        "rows": st.integers(1, 900),
        "seed": st.integers(0, 99),
        "nulls": st.sampled_from((0.0, 0.1, 1.0)),
        "length": st.integers(1, 9),
    }
)


@examples(12)
@given(
    shapes,
    st.sampled_from(("UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "LZ4", "LZ4_RAW", "ZSTD")),
    st.integers(1, 300),
    st.booleans(),
)
def test_delta_rs(tmp_path: Path, shape: dict[str, Any], codec: str, page_rows: int, dictionary: bool) -> None:
    properties = WriterProperties(
        compression=codec,
        data_page_row_count_limit=page_rows,
        write_batch_size=min(page_rows, 64),
        max_row_group_size=400,
        default_column_properties=None if dictionary else ColumnProperties(dictionary_enabled=False),
    )
    root = tmp_path / f"{len(list(tmp_path.iterdir()))}"
    write_deltalake(str(root), table_of(**shape), writer_properties=properties)
    for path in root.glob("*.parquet"):
        check(path, shape["seed"], paged=True)


@examples(8)
@given(shapes, st.sampled_from(("uncompressed", "snappy", "gzip", "zstd", "lz4_raw", "brotli")))
def test_duckdb(tmp_path: Path, shape: dict[str, Any], codec: str) -> None:
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
    rows = table_of(**shape)
    connection = duckdb.connect()
    connection.register("rows", rows)
    connection.execute(f"copy rows to '{path}' (format parquet, codec '{codec}', row_group_size 2048)")
    check(path, shape["seed"])


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "lz4_raw"])
def test_spark(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    for number, (dictionary, version) in enumerate([("true", "v1"), ("false", "v2"), ("false", "v1")]):
        rows = table_of(3000, number, nulls=0.1 * number, length=8)
        folder = tmp_path / str(number)
        options = {
            "compression": codec,
            "parquet.enable.dictionary": dictionary,
            "parquet.writer.version": version,
            "parquet.page.row.count.limit": "100",
            "parquet.block.size": "150000",
            "parquet.block.size.row.check.min": "500",
        }
        pq.write_table(rows, tmp_path / f"{number}.parquet")
        frame = spark.read.parquet(str(tmp_path / f"{number}.parquet")).coalesce(1)
        frame.write.options(**options).parquet(str(folder))
        (path,) = folder.glob("*.parquet")
        check(path, number, paged=True)
