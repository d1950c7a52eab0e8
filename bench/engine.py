"""The other end of `harness.Engine`: a loop that answers requests. It loads nothing, so that an engine's process weighs
what the engine weighs.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

HEAP = "2g"  # of engines on Spark, unless a benchmark is about memory
DELTA_SPARK = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # By default it spreads the log of any table over 50 tasks, which for a few files is most of its time.
    "spark.databricks.delta.snapshotPartitions": "2",
}


def serve(calls: Mapping[str, Callable[..., Any]]) -> None:
    """Answer requests from standard input until it ends. What others print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        answers.write(json.dumps(calls[request.pop("call")](**request)) + "\n")
        answers.flush()


def timed(change: Callable[..., None]) -> Callable[..., dict[str, float]]:
    """A call that answers with the time it took."""

    def call(**arguments: Any) -> dict[str, float]:
        start = perf_counter()
        change(**arguments)
        return {"seconds": perf_counter() - start}

    return call
