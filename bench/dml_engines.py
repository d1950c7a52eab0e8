"""The engines of `dml.py`, each in a process of its own: the first argument says which.

Engines on Spark have the same settings, as `holdfast.session()` makes them, and a heap of HEAP; Holdfast and
delta-spark are called by the same code. A change is timed from opening the table to the end of its commit; a merge
reads its source from Parquet within that time. Imports of an engine stand inside its function, because a process loads
its own engine only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from engine import DELTA_SPARK, HEAP, serve, timed

SPILLS_ABOVE = 2 << 30  # what deltalake may hold in memory in a merge, as many bytes as the heap of the others

Changes: TypeAlias = Mapping[str, Callable[..., Any]]


def ours() -> Changes:
    import holdfast
    from holdfast.table.delta import DeltaTable

    return _on_spark(holdfast.session("bench", **{"spark.driver.memory": HEAP}), DeltaTable)


def delta_spark(jars: str) -> Changes:
    from delta.tables import DeltaTable

    import holdfast

    return _on_spark(
        holdfast.session("bench", **{"spark.driver.memory": HEAP, "spark.jars": jars}, **DELTA_SPARK), DeltaTable
    )


def deltalake() -> Changes:
    import pyarrow.parquet as pq
    from deltalake import DeltaTable

    def delete(path: str, where: str) -> None:
        DeltaTable(path).delete(where)

    def update(path: str, where: str, values: dict[str, str]) -> None:
        DeltaTable(path).update(values, predicate=where)

    def merge(path: str, source: str, on: str) -> None:
        merging = DeltaTable(path).merge(
            pq.read_table(source),
            on,
            source_alias="s",
            target_alias="t",
            streamed_exec=False,
            max_spill_size=SPILLS_ABOVE,
        )
        merging.when_matched_update_all().when_not_matched_insert_all().execute()

    return {"delete": delete, "update": update, "merge": merge}


def _on_spark(spark: Any, table: Any) -> Changes:
    from pyspark.sql import functions as F

    def delete(path: str, where: str) -> None:
        table.forPath(spark, path).delete(where)

    def update(path: str, where: str, values: dict[str, str]) -> None:
        table.forPath(spark, path).update(where, values)

    def merge(path: str, source: str, on: str) -> None:
        merging = table.forPath(spark, path).alias("t").merge(spark.read.parquet(source).alias("s"), on)
        merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def check(path: str) -> list[str]:
        """What must be the same for all engines after a change: the number of rows, and a sum over all their values."""
        df = table.forPath(spark, path).toDF()
        sums = df.agg(F.count("*"), F.sum(F.xxhash64(*df.columns).cast("decimal(38,0)")))
        return [str(value) for value in sums.first() or ()]

    return {"delete": delete, "update": update, "merge": merge, "check": check, "version": lambda: spark.version}


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
    answers = {"check", "version"}
    serve({name: call if name in answers else timed(call) for name, call in calls.items()})


if __name__ == "__main__":
    main()
