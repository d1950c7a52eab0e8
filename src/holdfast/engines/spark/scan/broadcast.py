"""Turns small Arrow tables into DataFrames for broadcast joins."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.engines.spark.scan.scratch import Scratch

SENT_AT_MOST = 64 * 1024 * 1024  # a Connect server has died of larger messages


def small_table(spark: SparkSession, table: pa.Table, schema: StructType, scratch: Scratch) -> DataFrame:
    """The table as a DataFrame: sent with the plan, or, when it is large for that, read from scratch.

    The schema is given because Spark would take a timestamp without a zone for one of the session's zone.
    """
    if table.nbytes <= SENT_AT_MOST:
        return spark.createDataFrame(table, schema)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    body = sink.getvalue().to_pybytes()
    name = f"{hashlib.sha256(body).hexdigest()[:32]}.parquet"
    scratch.write(name, body)
    return spark.read.schema(schema).parquet(scratch.path(name))
