"""The engines of `concurrency.py`, each in a process of its own: the first argument says which.

Every engine does the same: writers, each a thread with rows of its own, add one to a row at a time, one thread more
compacts, and whoever is refused counts that and goes on. What an engine repeats by itself is its own business. Imports
of an engine stand inside its function, because a process loads its own engine only.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from time import perf_counter, sleep
from typing import Any, TypeAlias

from engine import DELTA_SPARK, HEAP, serve

PAUSE_S = 0.5  # between two compactions

Attempt: TypeAlias = Callable[[], bool]  # whether it landed; False: it was refused
Opened: TypeAlias = tuple[Callable[[str], Attempt], Attempt]  # an update of rows that a condition names, a compaction


def ours(*, on_spark: bool) -> Callable[[str], Opened]:
    import holdfast
    from holdfast.errors import ConcurrentWrite
    from holdfast.table.delta import DeltaTable

    spark = holdfast.session("bench", **{"spark.driver.memory": HEAP}) if on_spark else None

    def opened(path: str) -> Opened:
        table = DeltaTable.forPath(spark, path)

        def update(where: str) -> Attempt:
            def attempt() -> bool:
                try:
                    table.update(where, {"v": "v + 1"})
                except ConcurrentWrite:
                    return False
                return True

            return attempt

        return update, lambda: not table.optimize().executeCompaction().lost

    return opened


def delta_spark(jars: str) -> Callable[[str], Opened]:
    from delta.tables import DeltaTable
    from pyspark.errors import PySparkException

    import holdfast

    spark = holdfast.session("bench", **{"spark.driver.memory": HEAP, "spark.jars": jars}, **DELTA_SPARK)

    def opened(path: str) -> Opened:
        table = DeltaTable.forPath(spark, path)

        def landed(run: Callable[[], object]) -> bool:
            try:
                run()
            except PySparkException as error:
                if not type(error).__name__.startswith("Concurrent"):
                    raise
                return False
            return True

        def update(where: str) -> Attempt:
            return lambda: landed(lambda: table.update(where, {"v": "v + 1"}))

        return update, lambda: landed(lambda: table.optimize().executeCompaction())

    return opened


def deltalake() -> Callable[[str], Opened]:
    from deltalake import DeltaTable
    from deltalake.exceptions import CommitFailedError

    def opened(path: str) -> Opened:
        def landed(run: Callable[[DeltaTable], object]) -> bool:
            try:
                run(DeltaTable(path))
            except CommitFailedError:
                return False
            return True

        def update(where: str) -> Attempt:
            return lambda: landed(lambda table: table.update({"v": "v + 1"}, predicate=where))

        return update, lambda: landed(lambda table: table.optimize.compact())

    return opened


def run(
    opened: Callable[[str], Opened], *, path: str, writers: int, rows: int, seconds: float, overlaps: bool
) -> dict[str, float]:
    """Let writers write for a while; what landed and what was refused."""
    told: Counter[str] = Counter()
    guard = threading.Lock()
    begun = perf_counter()
    failed: list[BaseException] = []

    def count(what: str, landed: bool) -> None:
        with guard:
            told[what if landed else f"{what} refused"] += 1

    def write(writer: int) -> None:
        update, _ = opened(path)
        turn = 0
        while perf_counter() - begun < seconds:
            key = turn * writers % rows
            count("updates", update(f"k = {key % 8 if overlaps else key + writer}")())
            turn += 1

    def compact() -> None:
        _, compaction = opened(path)
        while perf_counter() - begun < seconds:
            count("compactions", compaction())
            sleep(PAUSE_S)

    def guarded(work: Callable[..., None], *given: int) -> None:
        try:
            work(*given)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=guarded, args=(write, n)) for n in range(writers)]
    threads.append(threading.Thread(target=guarded, args=(compact,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return {"took": perf_counter() - begun, **told}


def main() -> None:
    match sys.argv[1:]:
        case ["ours"]:
            opened = ours(on_spark=True)
        case ["ours, no Spark"]:
            opened = ours(on_spark=False)
        case ["delta-spark", jars]:
            opened = delta_spark(jars)
        case ["deltalake"]:
            opened = deltalake()
        case other:
            raise SystemExit(f"no engine {other}")
    calls: Mapping[str, Callable[..., Any]] = {"run": lambda **given: run(opened, **given)}
    serve(calls)


if __name__ == "__main__":
    main()
