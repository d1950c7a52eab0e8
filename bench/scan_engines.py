"""The engines of `scan.py`, each in a process and a Spark session of its own: the first argument says which.

All sessions have the same settings, as `holdfast.session()` makes them; delta-spark adds its own. A scan is timed from
the request to the last row in a noop sink. Tables stay open between scans: ours looks for new commits at each one, and
so does delta-spark; plain Parquet is told the schema, so that it need not look for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import pyspark
from engine import serve
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tables import ID_COPY

import holdfast
from holdfast.table.delta import DeltaTable

_MEMORY = {"spark.driver.memory": "3g"}
_ROW_ID = "row_id"


def ours() -> tuple[SparkSession, Callable[..., DataFrame]]:
    spark = holdfast.session("bench", **_MEMORY)
    tables: dict[str, DeltaTable] = {}

    def frame(path: str, columns: list[str], ids: bool) -> DataFrame:
        if path not in tables:
            tables[path] = DeltaTable.forPath(spark, path)
        return tables[path].scan(columns, metadata={"_row_id": _ROW_ID} if ids else ())

    return spark, frame


def parquet() -> tuple[SparkSession, Callable[..., DataFrame]]:
    spark = holdfast.session("bench", **_MEMORY)
    schemas: dict[str, Any] = {}

    def frame(path: str, columns: list[str], ids: bool) -> DataFrame:
        if path not in schemas:
            schemas[path] = spark.read.parquet(path).schema
        df = spark.read.schema(schemas[path]).parquet(path)
        return df.select(*columns, *([F.col(ID_COPY).alias(_ROW_ID)] if ids else []))

    return spark, frame


def delta_spark(jars: str) -> tuple[SparkSession, Callable[..., DataFrame]]:
    delta = {
        "spark.jars": jars,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    spark = holdfast.session("bench", **_MEMORY, **delta)

    def frame(path: str, columns: list[str], ids: bool) -> DataFrame:
        df = spark.read.format("delta").load(path)
        return df.select(*columns, *([F.col("_metadata.row_id").alias(_ROW_ID)] if ids else []))

    return spark, frame


def main() -> None:
    match sys.argv[1:]:
        case ["ours"]:
            _, frame = ours()
        case ["parquet"]:
            _, frame = parquet()
        case ["delta-spark", jars]:
            _, frame = delta_spark(jars)
        case other:
            raise SystemExit(f"no engine {other}")

    def run(path: str, columns: list[str], ids: bool) -> dict[str, float]:
        start = perf_counter()
        frame(path, columns, ids).write.format("noop").mode("overwrite").save()
        return {"seconds": perf_counter() - start}

    def check(path: str, columns: list[str], ids: bool) -> list[str]:
        """What must be the same on all engines: rows, sums and, where asked for, ids."""
        df = frame(path, columns, ids)
        sums = [F.sum(F.xxhash64(*columns).cast("decimal(38,0)")), F.count("*")]
        sums += [F.sum(_ROW_ID), F.countDistinct(_ROW_ID)] if ids else []
        return [str(value) for value in df.agg(*sums).first() or ()]

    serve(
        {"run": run, "check": check, "start": lambda: {"spark": pyspark.__version__, "python": Path(sys.prefix).name}}
    )


if __name__ == "__main__":
    main()
