"""The engines of `maintain.py`, each in a process of its own: the first argument says which.

Engines on Spark have the same settings, as `holdfast.session()` makes them, and a heap of HEAP. What is timed begins
with opening the table and ends with the last commit. Imports of an engine stand inside its function, because a process
loads its own engine only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from engine import DELTA_SPARK, HEAP, serve, timed

Calls: TypeAlias = Mapping[str, Callable[..., Any]]


def ours() -> Calls:
    import holdfast
    from holdfast.table.delta import DeltaTable

    spark = holdfast.session("bench", **{"spark.driver.memory": HEAP})

    def compact(path: str) -> None:
        DeltaTable.forPath(spark, path).optimize().executeCompaction()

    def delete(path: str, where: str) -> None:
        DeltaTable.forPath(spark, path).delete(where, mode="merge-on-read")

    def purge(path: str) -> None:
        DeltaTable.forPath(spark, path).purge()

    def cluster(path: str, target: int) -> None:
        DeltaTable.forPath(spark, path).optimize(targetBytes=target).executeCompaction()

    def append(path: str, source: str) -> None:
        DeltaTable.forPath(spark, path).append(spark.read.parquet(source).coalesce(1))

    calls = {"compact": compact, "delete": delete, "purge": purge, "cluster": cluster, "append": append}
    return {**calls, "version": lambda: spark.version}


def delta_spark(jars: str) -> Calls:
    from delta.tables import DeltaTable

    import holdfast

    spark = holdfast.session("bench", **{"spark.driver.memory": HEAP, "spark.jars": jars}, **DELTA_SPARK)

    def compact(path: str) -> None:
        DeltaTable.forPath(spark, path).optimize().executeCompaction()

    def delete(path: str, where: str) -> None:
        DeltaTable.forPath(spark, path).delete(where)

    def purge(path: str) -> None:
        spark.sql(f"REORG TABLE delta.`{path}` APPLY (PURGE)")

    def cluster(path: str, target: int) -> None:
        spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(target))
        DeltaTable.forPath(spark, path).optimize().executeCompaction()
        spark.conf.unset("spark.databricks.delta.optimize.maxFileSize")

    def append(path: str, source: str) -> None:
        spark.read.parquet(source).coalesce(1).write.format("delta").mode("append").save(path)

    return {"compact": compact, "delete": delete, "purge": purge, "cluster": cluster, "append": append}


def deltalake() -> Calls:
    import pyarrow.parquet as pq
    from deltalake import DeltaTable, write_deltalake
    from maintain_tables import CLUSTERED_BY

    def compact(path: str) -> None:
        DeltaTable(path).optimize.compact()

    def cluster(path: str, target: int) -> None:
        DeltaTable(path).optimize.z_order(list(CLUSTERED_BY), target_size=target)

    def append(path: str, source: str) -> None:
        write_deltalake(path, pq.read_table(source), mode="append")

    return {"compact": compact, "cluster": cluster, "append": append}


def main() -> None:
    match sys.argv[1:]:
        case ["ours"]:
            calls = ours()
        case ["delta-spark", jars]:
            calls = delta_spark(jars)
        case ["deltalake"]:
            calls = deltalake()
        case other:
            raise SystemExit(f"no engine {other}")
    serve({name: call if name == "version" else timed(call) for name, call in calls.items()})


if __name__ == "__main__":
    main()
