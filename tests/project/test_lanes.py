"""Spark starts in every lane, and its Python workers are this Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast.engines.spark.session.local_session import session
from holdfast.errors import Invalid

pytestmark = pytest.mark.everywhere


def test_the_session_is_of_the_lane_asked_for(spark: SparkSession, lane: str) -> None:
    assert (".connect." in type(spark).__module__) == (lane == "connect")
    assert spark.conf.get("spark.master") == ("local-cluster[2,1,1024]" if lane == "local-cluster" else "local[2]")


def test_python_workers_answer_with_this_python(spark: SparkSession) -> None:
    def version(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Defined here so that it travels by value: a worker of a cluster has no tests package.
        import platform

        for batch in batches:
            yield pa.RecordBatch.from_arrays([pa.array([platform.python_version()] * batch.num_rows)], ["python"])

    rows = spark.range(4, numPartitions=2).mapInArrow(version, "python string").collect()
    assert [row.python for row in rows] == [sys.version.split()[0]] * 4


def test_an_active_session_is_reused_and_takes_what_it_can(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        same = session(**{"spark.sql.shuffle.partitions": 3})
        assert same.conf.get("spark.sql.shuffle.partitions") == "3"
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))


def test_what_an_active_session_cannot_take_is_refused(spark: SparkSession) -> None:
    with pytest.raises(Invalid, match=r"spark\.driver\.memory"):
        session(**{"spark.driver.memory": "77m"})
    with pytest.raises(Invalid, match=r"already running on local.* not on local\[7\]"):
        session(master="local[7]")
