"""Starts Spark in one way, runs a task on its Python workers, reads files by a list, and stops.

`holdfast doctor --start` runs this in a child process: a classic and a Connect session cannot share one, and a Spark
that fails to start may take its process along.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from holdfast.engines.spark.scan.file_list import NAMED_AT_MOST, ListedFile, read_files
from holdfast.engines.spark.scan.scratch import scratch_for
from holdfast.engines.spark.session.local_session import session
from holdfast.storage.open import open_location

LISTED = NAMED_AT_MOST + 1  # the fewest files that are read by a list

WAYS = {
    "classic": "local[2]",
    "local-cluster": "local-cluster[2,1,1024]",
    "connect": "local[2]",
}


def probe(way: str) -> str | None:
    """What is wrong with Spark started this way; None when all is well."""
    if way == "connect":
        spark = SparkSession.builder.remote(WAYS[way]).getOrCreate()
    else:
        spark = session("holdfast-doctor", master=WAYS[way])
    try:
        if spark.range(2, numPartitions=2).mapInArrow(_echo, "id long").count() != 2:
            return "its Python workers lost rows"
        if _listed_rows(spark) != LISTED:
            return "it does not read files by a list, so tables of many files cannot be read"
        return None
    finally:
        spark.stop()


def _echo(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _listed_rows(spark: SparkSession) -> int:
    """The number of rows that Spark reads from one-row files given as a list."""
    with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as directory:
        files = []
        for i in range(LISTED):
            path = Path(directory, f"{i}.parquet")
            pq.write_table(pa.table({"id": [i]}), path)
            files.append(ListedFile(f"file:{path}", f"file:{path}", path.stat().st_size, 0))
        schema = StructType([StructField("id", LongType())])
        return read_files(spark, files, schema, scratch_for(open_location(directory))).count()


if __name__ == "__main__":
    wrong = probe(sys.argv[1])
    sys.exit(f"Spark started ({sys.argv[1]}) but {wrong}" if wrong else 0)
