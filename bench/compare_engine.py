"""One version of Holdfast, as `compare.py` runs it: whichever is on PYTHONPATH."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any

from engine import HEAP, serve

Case = Callable[[str, int, int], Any]  # the tables' directory, their rows, and the number of the round
CASES: dict[str, Case] = {}


def case(name: str) -> Callable[[Case], Case]:
    """Name a case."""

    def keep(function: Case) -> Case:
        CASES[name] = function
        return function

    return keep


@cache
def session() -> Any:
    """A Spark session, started by the first case that needs one."""
    import holdfast

    return holdfast.session("compare", **{"spark.driver.memory": HEAP, "spark.sql.shuffle.partitions": "4"})


def opened(place: str, name: str = "orders", *, spark: bool = False) -> Any:
    """A table, opened anew."""
    from holdfast import DeltaTable

    return DeltaTable.forPath(session() if spark else None, f"{place}/{name}")


def make(place: str, rows: int) -> None:
    """The tables that the cases copy: rows in ten files, some hidden; many small commits; an index."""
    import pyarrow as pa

    from holdfast import DeltaTable

    columns = pa.schema([("id", pa.int64()), ("g", pa.int64()), ("s", pa.string()), ("x", pa.float64())])
    part = rows // 10
    for name in ("orders", "indexed"):
        table = DeltaTable.create(None).location(f"{place}/{name}").addColumns(columns).execute()
        for start in range(0, part * 10, part):
            ids = range(start, start + part)
            values = [ids, [i * 7919 % 1000 for i in ids], [f"text {i:08d}" for i in ids], [i / 7 for i in ids]]
            table.append(pa.table(values, schema=columns))
        table.delete("g = 5")
    table.createIndex("id")
    table.update("g = 7", {"x": "0.0"})
    small = DeltaTable.create(None).location(f"{place}/small").addColumns(columns).execute()
    for i in range(300):
        small.append(pa.table([[i], [i], [str(i)], [0.5]], schema=columns))


def run(case: str, place: str, rows: int, number: int) -> dict[str, float]:
    """Run a case once: its preparation is not timed."""
    finish = CASES[case](place, rows, number)
    start = perf_counter()
    finish()
    return {"seconds": perf_counter() - start}


@case("open: 300 commits, ten times")
def open_small(place: str, rows: int, number: int) -> Any:
    return lambda: [opened(place, "small").version for _ in range(10)]


@case("local: scan, whole")
def local_scan(place: str, rows: int, number: int) -> Any:
    table = opened(place)
    return lambda: table.toArrow()


@case("local: scan, two columns, condition, row ids")
def local_narrow(place: str, rows: int, number: int) -> Any:
    table = opened(place)
    return lambda: table.toArrow(columns=["id", "x"], where="g < 50", metadata=["_row_id"])


@case("local: delete one row")
def local_delete(place: str, rows: int, number: int) -> Any:
    table = opened(place)
    return lambda: table.delete(f"id = {rows // 3 + number}")


@case("local: update 100 rows")
def local_update(place: str, rows: int, number: int) -> Any:
    table = opened(place)
    return lambda: table.update(f"id BETWEEN {rows // 2} AND {rows // 2 + 99}", {"x": "x + 1"})


@case("local: merge 1,000 rows")
def local_merge(place: str, rows: int, number: int) -> Any:
    table, source = opened(place).alias("t"), _source(rows, 1000)
    return lambda: _merge(table, source)


@case("local: append 1,000 rows")
def local_append(place: str, rows: int, number: int) -> Any:
    table, source = opened(place), _source(rows, 1000)
    return lambda: table.append(source)


@case("local: changes of one commit, min-delta")
def local_changes(place: str, rows: int, number: int) -> Any:
    table = opened(place, "indexed")
    return lambda: table.changes(table.version, kind="min-delta").toArrow()


@case("lookup: one key, 100 times, warm")
def lookup_one(place: str, rows: int, number: int) -> Any:
    table = opened(place, "indexed")
    keys = random.Random(number).sample(range(rows), 101)
    table.lookup(id=keys[0])
    return lambda: [table.lookup(id=key) for key in keys[1:]]


@case("lookup: 1,000 keys")
def lookup_many(place: str, rows: int, number: int) -> Any:
    table = opened(place, "indexed")
    keys = random.Random(number).sample(range(rows), 1000)
    table.lookup(id=keys[0])
    return lambda: table.lookup(id=keys)


@case("take: 1,000 row ids")
def take(place: str, rows: int, number: int) -> Any:
    table = opened(place, "indexed")
    ids = random.Random(number).sample(range(rows), 1000)
    return lambda: table.take(ids, missing="skip")


@case("Spark: sum of one column")
def spark_sum(place: str, rows: int, number: int) -> Any:
    table = opened(place, spark=True)
    return lambda: table.scan(columns=["x"]).groupBy().sum("x").collect()


@case("Spark: all columns with row ids, condition")
def spark_ids(place: str, rows: int, number: int) -> Any:
    table = opened(place, spark=True)
    return lambda: table.scan(where="g < 500", metadata=["_row_id"]).selectExpr("max(s)", "sum(_row_id)").collect()


@case("Spark: delete one row")
def spark_delete(place: str, rows: int, number: int) -> Any:
    table = opened(place, spark=True)
    return lambda: table.delete(f"id = {rows // 3 + number}")


@case("Spark: update 5 % of the rows")
def spark_update(place: str, rows: int, number: int) -> Any:
    table = opened(place, spark=True)
    return lambda: table.update("g BETWEEN 100 AND 149", {"x": "x + 1"})


@case("Spark: merge 1,000 rows")
def spark_merge(place: str, rows: int, number: int) -> Any:
    table = opened(place, spark=True).alias("t")
    source = session().createDataFrame(_source(rows, 1000)).alias("s")
    return lambda: _merge(table, source)


@case("Spark: merge 5 % of the rows")
def spark_merge_many(place: str, rows: int, number: int) -> Any:
    table = opened(place, spark=True).alias("t")
    source = session().range(0, rows, 20).selectExpr("id", "1L AS g", "'new' AS s", "0.5D AS x").alias("s")
    return lambda: _merge(table, source)


def _source(rows: int, count: int) -> Any:
    import pyarrow as pa

    ids = random.Random(1).sample(range(rows + rows // 10), count)
    schema = pa.schema([("id", pa.int64()), ("g", pa.int64()), ("s", pa.string()), ("x", pa.float64())])
    return pa.table([ids, [1] * count, ["new"] * count, [0.5] * count], schema=schema)


def _merge(table: Any, source: Any) -> None:
    table.merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


if __name__ == "__main__":
    serve({"make": make, "run": run})
