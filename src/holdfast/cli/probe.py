"""Start Spark one way, run a task on its Python workers, and stop.

`holdfast doctor --start` runs this in a child process: a classic and a Connect session cannot share one, and a Spark
that fails to start may take its process along.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.spark.session import session

WAYS = {
    "classic": "local[2]",
    "local-cluster": "local-cluster[2,1,1024]",
    "connect": "local[2]",
}


def probe(way: str) -> int:
    """How many rows two Python workers saw: two, when all is well."""
    if way == "connect":
        spark = SparkSession.builder.remote(WAYS[way]).getOrCreate()
    else:
        spark = session("holdfast-doctor", master=WAYS[way])
    try:
        return spark.range(2, numPartitions=2).mapInArrow(_echo, "id long").count()
    finally:
        spark.stop()


def _echo(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    sys.exit(0 if probe(sys.argv[1]) == 2 else f"Spark started ({sys.argv[1]}) but its Python workers lost rows")
