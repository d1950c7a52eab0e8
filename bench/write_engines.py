"""The engines of `write.py`, each in a process of its own: the first argument says which.

An engine makes an empty table, and then appends all rows of a directory of Parquet files to it, which is what is timed.
The other arguments of a Spark engine are settings of its session, as one JSON object.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow.dataset as ds
from engine import DELTA_SPARK, serve

ZSTD_LEVEL = 1  # what Arrow takes by default; the others are told to do the same

Append = Callable[[str, str, list[str], bool], None]  # source, table, partition columns, whether zstd is asked for


def ours(conf: dict[str, str]) -> tuple[Append, Append]:
    import holdfast
    from holdfast import DeltaTable

    spark = holdfast.session("bench", **conf)

    def create(source: str, path: str, partitions: list[str], zstd: bool) -> None:
        builder = DeltaTable.create(spark).location(path).addColumns(spark.read.parquet(source).schema)
        builder.partitionedBy(*partitions).execute()

    def append(source: str, path: str, partitions: list[str], zstd: bool) -> None:
        DeltaTable.forPath(spark, path).append(spark.read.parquet(source))

    return create, append


def delta_spark(conf: dict[str, str]) -> tuple[Append, Append]:
    import holdfast

    zstd = {"spark.hadoop.parquet.compression.codec.zstd.level": str(ZSTD_LEVEL)}
    spark = holdfast.session("bench", **conf, **DELTA_SPARK, **zstd)

    def write(frame: Any, path: str, partitions: list[str]) -> None:
        frame.write.format("delta").mode("append").partitionBy(*partitions).save(path)

    def create(source: str, path: str, partitions: list[str], zstd: bool) -> None:
        write(spark.read.parquet(source).limit(0), path, partitions)

    def append(source: str, path: str, partitions: list[str], zstd: bool) -> None:
        spark.conf.set("spark.sql.parquet.compression.codec", "zstd" if zstd else "snappy")
        write(spark.read.parquet(source), path, partitions)

    return create, append


def deltalake() -> tuple[Append, Append]:
    from deltalake import DeltaTable, WriterProperties, write_deltalake

    def create(source: str, path: str, partitions: list[str], zstd: bool) -> None:
        DeltaTable.create(path, ds.dataset(source).schema, partition_by=partitions or None)

    def append(source: str, path: str, partitions: list[str], zstd: bool) -> None:
        properties = WriterProperties(compression="ZSTD", compression_level=ZSTD_LEVEL) if zstd else None
        rows = ds.dataset(source).scanner().to_reader()
        write_deltalake(path, rows, mode="append", partition_by=partitions or None, writer_properties=properties)

    return create, append


def main() -> None:
    match sys.argv[1:]:
        case ["ours", conf]:
            create, append = ours(json.loads(conf))
        case ["delta-spark", conf]:
            create, append = delta_spark(json.loads(conf))
        case ["deltalake"]:
            create, append = deltalake()
        case other:
            raise SystemExit(f"no engine {other}")

    def run(source: str, path: str, partitions: list[str], zstd: bool) -> dict[str, float]:
        shutil.rmtree(path, ignore_errors=True)
        create(source, path, partitions, zstd)
        start = perf_counter()
        append(source, path, partitions, zstd)
        seconds = perf_counter() - start
        files = list(Path(path).rglob("*.parquet"))
        return {"seconds": seconds, "files": len(files), "mb": sum(f.stat().st_size for f in files) / 1e6}

    def check(source: str, path: str) -> list[str]:
        """What must be the same of all tables: the number of rows, and a sum over all their values."""
        from pyspark.sql import functions as F

        import holdfast

        spark = holdfast.session("bench")
        names = ds.dataset(source).schema.names
        df = holdfast.read(spark, path).select(*names)
        maps = [name for name, type_ in df.dtypes if type_.startswith("map")]
        values = [F.map_entries(name) if name in maps else F.col(name) for name in names]
        sums = df.agg(F.count("*"), F.sum(F.xxhash64(*values).cast("decimal(38,0)")))
        return [str(value) for value in sums.first() or ()]

    serve({"run": run, "check": check, "start": lambda: {}})


if __name__ == "__main__":
    main()
