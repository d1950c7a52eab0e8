"""Data files in a bucket: uploaded in parts, seen whole or not at all."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from holdfast.engines.local.write import write_table
from holdfast.engines.spark.dml.write import write_frame
from holdfast.env import system
from holdfast.errors import Invalid
from holdfast.parquet.write import WriteSpec
from holdfast.schema.types import LONG, Field, Primitive
from holdfast.storage.location import Location
from holdfast.storage.open import open_location
from holdfast.storage.sink import open_sink
from tests.s3.conftest import Place
from tests.support.s3 import SECRET_KEY, S3Server

pytestmark = pytest.mark.s3

BYTES = (Field("b", Primitive("binary")),)


def noise(megabytes: int) -> Iterator[pa.RecordBatch]:
    rng = random.Random(megabytes)
    for _ in range(megabytes):
        yield pa.record_batch({"b": pa.array([rng.randbytes(1 << 20)])})


def stored(location: Location, key: str) -> pa.Table:
    return pq.read_table(pa.BufferReader(location.store.get(location.key(key))))


def test_files_larger_than_a_part_arrive_whole(place: Place) -> None:
    location = place()
    staged = write_table(location, noise(20), WriteSpec(BYTES, row_group_bytes=4 << 20), system())
    key = staged["key"][0].as_py()
    assert location.store.head(location.key(key)).size == staged["size"][0].as_py() > 20 << 20
    assert stored(location, key)["b"].to_pylist() == [b for batch in noise(20) for b in batch["b"].to_pylist()]


def test_what_failed_is_not_there(place: Place) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from noise(12)
        raise ZeroDivisionError

    location = place()
    with pytest.raises(ZeroDivisionError):
        write_table(location, broken(), WriteSpec(BYTES, row_group_bytes=1 << 20), system())
    assert list(location.store.list_all(location.directory)) == []


def test_a_refusal_is_an_error_of_ours_without_secrets(s3: S3Server) -> None:
    location = open_location("s3://no-such-bucket/t", storage_options=s3.options)
    with pytest.raises(Invalid, match="does not exist") as refused:
        write_table(location, noise(1), WriteSpec(BYTES), system())
    assert SECRET_KEY not in str(refused.value)


def test_spark_tasks_write_through_the_store(spark: SparkSession, place: Place) -> None:
    location = place()
    fields = (Field("id", LONG), Field("p", LONG))
    df = spark.range(0, 100, 1, 2).selectExpr("id", "id % 2 as p")
    staged = write_frame(df, WriteSpec(fields, ("p",)), location)
    assert staged.num_rows == 4
    found = [i for key in staged["key"].to_pylist() for i in stored(location, key)["id"].to_pylist()]
    assert sorted(found) == list(range(100))
    assert sorted(meta.key for meta in location.store.list_all(location.directory)) == sorted(
        location.key(key) for key in staged["key"].to_pylist()
    )


def test_an_upload_takes_memory_of_any_item_type(place: Place) -> None:
    location, numbers = place(), np.arange(5, dtype=np.int64)
    output = open_sink(location, system().now_ms).open("numbers")
    output.file.write(numbers)
    output.file.write(memoryview(numbers))
    output.close()
    assert location.store.get(location.key("numbers")) == numbers.tobytes() * 2
