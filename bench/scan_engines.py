"""The engines of `scan.py`, each in a process and a Spark session of its own: the first argument says which.

All sessions have the same settings, as `holdfast.session()` makes them; delta-spark adds its own. A scan is timed from
the request to the last row in a noop sink; delta-spark refuses that sink for a table with deletion vectors ("Cannot
work with a non-pinned table snapshot"), so its rows are made and counted by Spark instead, which costs no more. Tables
stay open between scans: ours looks for new commits at each one, and so does delta-spark; plain Parquet is told the
schema, so that it need not look for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeAlias

import pyspark
from engine import DELTA_SPARK, serve
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tables import ID_COPY

import holdfast
from holdfast.table.delta import DeltaTable

_MEMORY = {"spark.driver.memory": "3g"}
_ROW_ID = "row_id"


Frame: TypeAlias = Callable[[str, list[str], bool], DataFrame]


def ours() -> Frame:
    spark = holdfast.session("bench", **_MEMORY)
    tables: dict[str, DeltaTable] = {}

    def frame(path: str, columns: list[str], ids: bool) -> DataFrame:
        if path not in tables:
            tables[path] = DeltaTable.forPath(spark, path)
        return tables[path].scan(columns, metadata={"_row_id": _ROW_ID} if ids else ())

    return frame


def parquet() -> Frame:
    spark = holdfast.session("bench", **_MEMORY)
    schemas: dict[str, Any] = {}

    def frame(path: str, columns: list[str], ids: bool) -> DataFrame:
        if path not in schemas:
            schemas[path] = spark.read.parquet(path).schema
        df = spark.read.schema(schemas[path]).parquet(path)
        return df.select(*columns, *([F.col(ID_COPY).alias(_ROW_ID)] if ids else []))

    return frame


def delta_spark(jars: str) -> Frame:
    spark = holdfast.session("bench", **_MEMORY, **{"spark.jars": jars}, **DELTA_SPARK)

    def frame(path: str, columns: list[str], ids: bool) -> DataFrame:
        df = spark.read.format("delta").load(path)
        return df.select(*columns, *([F.col("_metadata.row_id").alias(_ROW_ID)] if ids else []))

    return frame


def into_noop(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def into_a_count(df: DataFrame) -> None:
    df._jdf.queryExecution().toRdd().count()


def main() -> None:
    sink = into_noop
    match sys.argv[1:]:
        case ["ours"]:
            frame = ours()
        case ["parquet"]:
            frame = parquet()
        case ["delta-spark", jars]:
            frame, sink = delta_spark(jars), into_a_count
        case other:
            raise SystemExit(f"no engine {other}")

    def run(path: str, columns: list[str], ids: bool) -> dict[str, float]:
        start = perf_counter()
        sink(frame(path, columns, ids))
        return {"seconds": perf_counter() - start}

    def check(path: str, columns: list[str], ids: bool) -> list[str]:
        """What must be the same on all engines: the number of rows, and a sum over all their values."""
        df = frame(path, columns, ids)
        sums = df.agg(F.count("*"), F.sum(F.xxhash64(*df.columns).cast("decimal(38,0)")))
        return [str(value) for value in sums.first() or ()]

    serve({"run": run, "check": check, "start": lambda: {"spark": pyspark.__version__}})


if __name__ == "__main__":
    main()
