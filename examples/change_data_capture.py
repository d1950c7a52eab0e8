"""Change data capture: from a database's change log to a dashboard, by way of bronze, silver and gold.

    python examples/change_data_capture.py [DIRECTORY]

    landing    files of change events, as a capture tool drops them: out of order, some of them twice
    bronze     every event as it came                                        a stream of files, appended
    silver     orders as they are now                                        a stream of bronze, merged by key
    gold       revenue by customer                                           a stream of silver's changes, added up
    by day     revenue by day                                                the same in a nightly batch, without Spark

Gold is never computed anew: a change query tells which orders appeared, went or changed, with the values before and
after, and that is all a sum needs. Silver is compacted in between, which tells gold nothing, because no row changed.
Every step may die and be run again: each commit notes which batch it was, and takes none twice.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import DeltaTable

NOW = ("insert", "update_postimage")  # what a change adds; the others take away
EVENT = "op string, order long, customer string, day string, cents long, lsn long"


@dataclass(frozen=True)
class Ended:
    """What the example ends with: the tables, as dictionaries."""

    orders: dict[int, int]
    by_customer: dict[str, tuple[int, int]]
    by_day: dict[str, tuple[int, int]]
    told_by_compaction: int


@dataclass
class Source:
    """Stands for the capture tool: writes what a database did into files, one file per call."""

    landing: Path
    lsn: count[int] = field(default_factory=lambda: count(1))

    def did(self, *events: tuple[str, int, str, str, int]) -> None:
        self.landing.mkdir(parents=True, exist_ok=True)
        names = ("op", "order", "customer", "day", "cents")
        lines = [json.dumps({**dict(zip(names, event, strict=True)), "lsn": next(self.lsn)}) for event in events]
        shuffled = [*reversed(lines), lines[0]]  # such tools promise every event at least once, and no order
        (self.landing / f"{next(self.lsn):06}.json").write_text("\n".join(shuffled))


def main(spark: SparkSession, where: Path) -> Ended:
    holdfast.register(spark)  # makes format("holdfast") known; sessions of holdfast.session() know it already
    source = Source(where / "landing")
    pipeline = Pipeline(spark, where)

    print("\nMonday: four orders come in.")
    source.did(("c", 1, "Ada", "Mon", 1200), ("c", 2, "Ben", "Mon", 850))
    source.did(("c", 3, "Cleo", "Mon", 4100), ("c", 4, "Ada", "Mon", 990))
    pipeline.run()
    pipeline.run_nightly()

    print("Tuesday: Ben's order grows twice, Cleo's is cancelled, Dov orders and cancels at once, Ada orders again.")
    source.did(("u", 2, "Ben", "Mon", 900), ("d", 3, "Cleo", "Mon", 4100), ("c", 5, "Dov", "Tue", 2500))
    source.did(("u", 2, "Ben", "Mon", 950), ("d", 5, "Dov", "Tue", 2500), ("c", 6, "Ada", "Tue", 7300))
    pipeline.run()

    print("At night silver is compacted, which is no change of any row, and the batch goes on where it was.")
    before = pipeline.silver.version + 1
    pipeline.silver.optimize().executeCompaction()
    told = pipeline.silver.changes(before).toArrow().num_rows
    pipeline.run_nightly()

    for table, key in ((pipeline.silver, "order"), (pipeline.gold, "customer"), (pipeline.gold_by_day, "day")):
        table.toDF().orderBy(key).show()
    return Ended(
        {row.order: row.cents for row in pipeline.silver.toDF().collect()},
        {row.customer: (row.orders, row.cents) for row in pipeline.gold.toDF().collect()},
        {row.day: (row.orders, row.cents) for row in pipeline.gold_by_day.toDF().collect()},
        told,
    )


class Pipeline:
    """Three streams and a batch job; each knows how far it has come."""

    def __init__(self, spark: SparkSession, where: Path) -> None:
        self._spark = spark
        self._where = where
        self.bronze = self._table("bronze", EVENT)
        self.silver = self._table("silver", "order long, customer string, day string, cents long, lsn long")
        self.gold = self._table("gold", "customer string, orders long, cents long")
        self.gold_by_day = self._table("gold_by_day", "day string, orders long, cents long")

    def run(self) -> None:
        """One round of the streams, each taking what is there; in production they run all the time."""
        self.land()
        self.refine()
        self.add_up()

    def land(self) -> None:
        events = self._spark.readStream.schema(EVENT).json(str(self._where / "landing"))
        writer = events.writeStream.format("holdfast").option("checkpointLocation", self._checkpoint("bronze"))
        writer.trigger(availableNow=True).start(str(self._where / "bronze")).awaitTermination()

    def refine(self) -> None:
        """The last event of an order in a batch counts, and only if it is newer than what silver has."""
        merge = self.silver.alias("t").mergeStream(
            "t.order = s.order",
            lambda merge: (
                merge.whenMatchedDelete("s.op = 'd' AND s.lsn > t.lsn")
                .whenMatchedUpdateAll("s.op != 'd' AND s.lsn > t.lsn")
                .whenNotMatchedInsertAll("s.op != 'd'")
            ),
            appId="silver",
            duplicates="last",
            orderBy="lsn",
        )
        events = self._spark.readStream.format("holdfast").load(str(self._where / "bronze"))
        writer = events.writeStream.foreachBatch(merge).option("checkpointLocation", self._checkpoint("silver"))
        writer.trigger(availableNow=True).start().awaitTermination()

    def add_up(self) -> None:
        def fold(changes: DataFrame, batch: int) -> None:
            sign = F.when(F.col("_change_type").isin(*NOW), 1).otherwise(-1)
            sums = changes.groupBy("customer").agg(F.sum(sign), F.sum(sign * F.col("cents")))
            add(self.gold, sums.toDF("customer", "orders", "cents"), txn=("gold", batch))

        self.silver.streamChanges(
            "min-delta", fold, checkpointLocation=self._checkpoint("gold"), availableNow=True
        ).awaitTermination()

    def run_nightly(self) -> None:
        """The batch job: from the token it left last night to the newest version, in this process alone."""
        note = self._where / "nightly.token"
        since = {"resume": note.read_text()} if note.exists() else {"start": 1}
        changes = DeltaTable.forPath(None, self._where / "silver").changes(kind="min-delta", **since)
        rows = changes.toArrow()
        sign = pc.if_else(pc.is_in(rows["_change_type"], pa.array(NOW)), 1, -1)
        signed = pa.table({"day": rows["day"], "orders": sign, "cents": pc.multiply(sign, rows["cents"])})
        sums = signed.group_by("day").aggregate([("orders", "sum"), ("cents", "sum")])
        totals = DeltaTable.forPath(None, self._where / "gold_by_day")
        add(totals, sums.rename_columns(["day", "orders", "cents"]), txn=("nightly", changes.endVersion))
        note.write_text(changes.resumeToken)

    def _table(self, name: str, columns: str) -> DeltaTable:
        builder = DeltaTable.createIfNotExists(self._spark).location(str(self._where / name))
        for column in columns.split(", "):
            builder = builder.addColumn(*column.split())
        return builder.execute()

    def _checkpoint(self, name: str) -> str:
        return str(self._where / "checkpoints" / name)


def add(totals: DeltaTable, sums: DataFrame | pa.Table, *, txn: tuple[str, int]) -> None:
    """Add sums of what changed to what there is of each key, which is the first column; a key without orders goes."""
    key = sums.column_names[0] if isinstance(sums, pa.Table) else sums.columns[0]
    (
        totals.alias("t")
        .merge(sums, f"t.{key} = s.{key}", txn=txn)
        .whenMatchedDelete("t.orders + s.orders = 0")
        .whenMatchedUpdate(set={"orders": "t.orders + s.orders", "cents": "t.cents + s.cents"})
        .whenNotMatchedInsertAll("s.orders > 0")
        .execute()
    )


if __name__ == "__main__":
    main(holdfast.session(), Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="holdfast-")))
