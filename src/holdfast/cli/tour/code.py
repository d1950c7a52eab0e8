"""The code of the tour: the tour prints each function and runs it.

1. The tour prints the body of a function. It works when it is typed after IMPORTS; parameters are names that earlier
   steps defined. A last line that returns names defines them for later steps and is not printed.
2. Any other returned value is printed without the word `return`, as a user would type it.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from timeit import timeit
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.cli.tour.sample_rows import corrections, day, ref_of
from holdfast.errors import ConcurrentWrite
from holdfast.plan.changefeed.biography import Biography
from holdfast.table.delta import DeltaTable
from holdfast.verbs.dml.delete_update import Changed
from holdfast.verbs.dml.write import Written
from holdfast.verbs.index.maintain import IndexInfo
from holdfast.verbs.maintain.erasure import Erased, ErasureStatus
from holdfast.verbs.maintain.optimize import Compacted
from holdfast.verbs.stream.source import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

IMPORTS = """\
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from timeit import timeit

from holdfast import ConcurrentWrite, DeltaTable
from holdfast.cli.tour.sample_rows import corrections, day, ref_of  # made-up orders"""
SPARK_IMPORTS = "from holdfast import session"


def create() -> DeltaTable:
    orders = (
        DeltaTable.create()
        .location("orders")
        .addColumn("order", "long")
        .addColumn("ref", "string")
        .addColumn("customer", "string")
        .addColumn("status", "string")
        .addColumn("cents", "long")
        .execute()
    )
    return orders


def append(orders: DeltaTable, days: int, rows: int) -> pa.Table:
    for number in range(days):
        orders.append(day(number, rows))
    return orders.toArrow(where="order BETWEEN 16 AND 19", metadata=["_row_id"])


def choose_and_look_up(orders: DeltaTable, days: int, rows: int) -> tuple[list[str], float]:
    refs = [ref_of(order) for order in range(17, days * rows, days * rows // 20)]
    seconds = timeit(lambda: [orders.lookup(ref=ref) for ref in refs], number=1) / len(refs)
    return refs, seconds


def look_up(orders: DeltaTable, refs: list[str]) -> float:
    return timeit(lambda: [orders.lookup(ref=ref) for ref in refs], number=1) / len(refs)


def make_index(orders: DeltaTable) -> IndexInfo:
    return orders.createIndex("ref")


def upsert(orders: DeltaTable, days: int, rows: int) -> tuple[int, pa.Table, Changed]:
    start = orders.version + 1
    late = corrections(days, rows)
    merged = (
        orders.alias("t")
        .merge(late, "t.order = s.order")
        .whenMatchedUpdate(set={"cents": "s.cents"})
        .whenNotMatchedInsertAll()
        .execute()
    )
    return start, late, merged


def delete(orders: DeltaTable) -> Changed:
    deleted = orders.delete("order BETWEEN 100 AND 199")
    return deleted


def race() -> tuple[Future[Written], Future[Written], Future[Written]]:
    meet = Barrier(3, timeout=60)  # nobody commits before all three have read the same version
    one, two, three = (DeltaTable.forPath(None, "orders") for _ in range(3))
    with ThreadPoolExecutor(3) as pool:
        shipping = pool.submit(
            one.transact,
            lambda t: (t.update("order = 17", {"status": "'shipped'"}), meet.wait()),
        )
        billing = pool.submit(
            two.transact,
            lambda t: (t.update("order = 18", {"cents": "cents - 100"}), meet.wait()),
        )
        support = pool.submit(
            three.transact,
            lambda t: (t.delete("order = 19"), meet.wait()),
        )
    return shipping, billing, support


def clash(orders: DeltaTable) -> ConcurrentWrite:
    somebody = DeltaTable.forPath(None, "orders")
    try:
        with orders.transaction() as t:
            t.update("order = 17", {"cents": "0"})
            somebody.update("order = 17", {"cents": "4200"})
    except ConcurrentWrite as error:
        conflict = error
    return conflict


def compact(orders: DeltaTable) -> tuple[pa.Table, Compacted, pa.Table, bool]:
    ids = ["_row_id", "_row_commit_version"]
    before = orders.toArrow(metadata=ids).sort_by("_row_id")
    compacted = orders.optimize().executeCompaction()
    after = orders.toArrow(metadata=ids).sort_by("_row_id")
    same = after.equals(before)
    return before, compacted, after, same


def four_kinds(orders: DeltaTable, start: int) -> dict[str, Counter[str]]:
    told = {}
    for kind in ("append-only", "upsert", "min-delta", "full-delta"):
        changes = orders.changes(start, kind=kind)
        told[kind] = Counter(changes.toArrow()["_change_type"].to_pylist())
    return told


def biography(orders: DeltaTable) -> Biography:
    return orders.biography(17)


def on_spark() -> DataFrame:
    spark = session()  # or any that you have, classic or Connect
    table = DeltaTable.forPath(spark, "orders").alias("t")
    paid = spark.sql("SELECT id AS order, 'paid' AS status FROM range(20, 22)").alias("s")
    table.merge(paid, "t.order = s.order").whenMatchedUpdate(set={"status": "s.status"}).execute()
    ids = ["_row_id", "_row_commit_version"]
    return table.scan(where="order BETWEEN 16 AND 21", metadata=ids).orderBy("order")


def erase(orders: DeltaTable) -> Erased:
    erased = orders.erase("customer = 'customer 5'")
    return erased


def prove(orders: DeltaTable, erased: Erased) -> ErasureStatus:
    orders.rebuildIndex("ref")  # entries of an index hold keys of rows
    orders.vacuum(0, enforceRetention=False)  # nobody else reads this table
    return orders.erasureStatus(erased)
