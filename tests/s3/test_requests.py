"""What reading costs in requests. The numbers are upper bounds: a change that asks more often must say so here."""

from __future__ import annotations

import os
from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from tests.s3.conftest import Place
from tests.support.s3 import S3Server
from tests.support.tablesmith import Tablesmith

pytestmark = pytest.mark.s3


@pytest.fixture(scope="module")
def small(place: Place) -> Tablesmith:
    """One small file, two commits."""
    smith = Tablesmith(place(), schema=[("a", "long")])
    smith.append([{"a": 1}, {"a": 2}])
    return smith


def asked(s3: S3Server) -> Counter[str]:
    """The requests since the last call, by what they asked for."""
    kinds: Counter[str] = Counter()
    for request in s3.requests:
        kinds["list" if "list-type=2" in request else "log" if "_delta_log/" in request else "data"] += 1
    s3.requests.clear()
    return kinds


def test_opening_refreshing_and_reading_one_small_file(s3: S3Server, small: Tablesmith) -> None:
    s3.requests.clear()
    table = DeltaTable.forPath(None, small.url, storage_options=s3.options)
    assert asked(s3) <= Counter(list=1, log=3), "_last_checkpoint, a listing, two commits"
    assert table.version == 1
    assert asked(s3) <= Counter(list=1)
    assert table.toArrow().num_rows == 2
    assert asked(s3) <= Counter(list=1, data=1)
    assert DeltaTable.isDeltaTable(None, small.url, storage_options=s3.options)
    assert asked(s3) <= Counter(list=1)


def test_spark_asks_no_more(spark: SparkSession, s3: S3Server, small: Tablesmith) -> None:
    table = DeltaTable.forPath(spark, small.url, storage_options=s3.options)
    asked(s3)
    df = table.toDF()
    assert asked(s3) <= Counter(list=1), "nothing of the data before the DataFrame is used"
    assert df.count() == 2
    assert asked(s3) <= Counter(data=1)


def test_a_table_with_a_checkpoint_and_hidden_rows(s3: S3Server, whole: Tablesmith) -> None:
    s3.requests.clear()
    table = DeltaTable.forPath(None, whole.url, storage_options=s3.options)
    opening = asked(s3)
    assert opening["list"] == 1
    assert opening["log"] <= 7, "_last_checkpoint, the checkpoint, two sidecars looked at and read, one commit"
    assert opening["data"] == 0
    table.toArrow(where="id > 1000000")
    assert asked(s3) <= Counter(list=1), "pruned files and their vectors are not touched"
    table.toArrow()
    vectors = 3  # the inline one costs none; the update stored another
    assert asked(s3) <= Counter(list=1, data=len(whole.live()) + vectors)


def test_a_column_of_a_large_file_is_fetched_by_ranges(s3: S3Server, place: Place) -> None:
    smith = Tablesmith(place(), schema=[("a", "long"), ("b", "binary"), ("c", "binary")])
    smith.append(pa.table({"a": [1, 2], "b": [os.urandom(3 << 20)] * 2, "c": [os.urandom(1 << 20)] * 2}))
    assert smith.live()[0]["size"] > 4 << 20
    table = DeltaTable.forPath(None, smith.url, storage_options=s3.options)
    asked(s3)
    assert table.toArrow(columns=["a"])["a"].to_pylist() == [1, 2]
    assert asked(s3)["data"] <= 3, "its size, its end, and the column"
    assert table.toArrow().num_rows == 2
    assert asked(s3)["data"] <= 5
