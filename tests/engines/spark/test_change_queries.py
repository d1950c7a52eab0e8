"""An insert, an update and a delete, in both strategies: the change data feed, the four change queries, and streams."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import DeltaTable

JACK, SARAH, JOHN, BANANA = ("jack", "apple"), ("sarah", "orange"), ("john", "pineapple"), ("jack", "banana")
FULL = [
    (*JACK, "insert", 1, 0),
    (*SARAH, "insert", 1, 1),
    (*JOHN, "insert", 1, 2),
    (*JACK, "update_preimage", 2, 0),
    (*BANANA, "update_postimage", 2, 0),
    (*JOHN, "delete", 3, 2),
]
NET = [(*BANANA, "insert", 3, 0), (*SARAH, "insert", 3, 1)]
SINCE = [
    (*JACK, "update_preimage", 3, 0),
    (*BANANA, "update_postimage", 3, 0),
    (*JOHN, "delete", 3, 2),
]


@pytest.fixture(scope="module", params=["true", "false"], ids=["merge-on-read", "copy-on-write"])
def fruit(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    path = str(tmp_path_factory.mktemp("fruit"))
    table = (
        DeltaTable.create(None)
        .location(path)
        .addColumn("name", "string")
        .addColumn("fruit", "string")
        .property("delta.enableDeletionVectors", request.param)
        .property("delta.enableChangeDataFeed", "true")
        .execute()
    )
    names, fruits = zip(JACK, SARAH, JOHN, strict=True)
    table.append(pa.table({"name": names, "fruit": fruits}))
    table.update("name == 'jack'", {"fruit": "'banana'"})
    table.delete("name == 'john'")
    return DeltaTable.forPath(spark, path)


def shown(changes: DataFrame) -> list[tuple[Any, ...]]:
    order = ["delete", "update_preimage", "update_postimage", "insert"]
    rows = [tuple(row) for row in changes.drop("_commit_timestamp").collect()]
    return sorted(rows, key=lambda row: (row[3], *row[4:], order.index(row[2]), row))


@pytest.mark.everywhere
def test_the_feed_and_every_change(fruit: DeltaTable) -> None:
    feed = fruit.changeFeed(0).toDF()
    assert feed.columns == ["name", "fruit", "_change_type", "_commit_version", "_commit_timestamp"]
    assert sorted(shown(feed)) == sorted(row[:-1] for row in FULL)
    every = fruit.changes(0).toDF()
    assert every.columns == [*feed.columns, "_row_id"]
    assert shown(every) == FULL
    made = {row.version: row.timestamp for row in fruit.history().collect()}
    found = {row._commit_version: row._commit_timestamp for row in every.collect()}
    assert found == {version: made[version] for version in (1, 2, 3)}


def test_net_changes(fruit: DeltaTable) -> None:
    assert shown(fruit.changes(0, kind="min-delta").toDF()) == NET
    assert shown(fruit.changes(2, kind="min-delta").toDF()) == SINCE
    assert shown(fruit.changes(0, kind="upsert").toDF()) == NET
    assert shown(fruit.changes(2, 3, kind="upsert", includeDeleted=True).toDF()) == SINCE[1:]
    assert shown(fruit.changes(2, kind="upsert").toDF()) == SINCE[1:2]


def test_append_only_has_every_insert_that_is_still_there(fruit: DeltaTable) -> None:
    assert shown(fruit.changes(0, kind="append-only").toDF()) == NET
    assert shown(fruit.changes(0, kind="append-only", includeDeleted=True).toDF()) == FULL[:3]
    assert shown(fruit.changes(2, kind="append-only").toDF()) == []


INSERTED = [JACK, SARAH, JOHN]
STREAMS = {  # config 2 is the one that fails
    "config 1": {"ignoreChanges": "false", "skipChangeCommits": "false"},
    "config 3 and 4": {"ignoreChanges": "true", "skipChangeCommits": "false", "startingVersion": "0"},
    "config 5": {"ignoreChanges": "false", "skipChangeCommits": "true", "startingVersion": "0"},
    "feed 1": {"readChangeFeed": "true", "startingVersion": "0"},
    "feed 2": {"readChangeFeed": "true"},
}
PRINTED: dict[str, list[tuple[Any, ...]]] = {
    "config 1": [BANANA, SARAH],
    "config 5": INSERTED,
    "feed 1": [row[:-1] for row in FULL],
    "feed 2": [(*BANANA, "insert", 3), (*SARAH, "insert", 3)],
}
COPIED = {
    "true": [*INSERTED, SARAH, JOHN, BANANA, SARAH],
    "false": [*INSERTED, BANANA, SARAH, JOHN, BANANA, SARAH],
}


def streamed(spark: SparkSession, path: str, options: dict[str, str]) -> DataFrame:
    return spark.readStream.format("holdfast").options(**options).load(path)


def test_every_stream_gives_what_is_printed(fruit: DeltaTable, spark: SparkSession, tmp_path: Path) -> None:
    """All in one query, because starting one takes longer than reading the rows."""
    holdfast.register(spark)
    path = fruit.detailArrow().column("location")[0].as_py()
    vectors = fruit.detailArrow().column("properties")[0].as_py()
    parts = []
    for name, options in STREAMS.items():
        rows = streamed(spark, path, options)
        told = [F.col(c) if c in rows.columns else F.lit(None) for c in ("_change_type", "_commit_version")]
        types = [told[0].cast("string").alias("change"), told[1].cast("long").alias("version")]
        parts.append(rows.select(F.lit(name).alias("config"), "name", "fruit", *types))
    found: list[tuple[Any, ...]] = []

    def keep(batch: DataFrame, number: int) -> None:
        found.extend(tuple(row) for row in batch.collect())

    writer = reduce(DataFrame.unionAll, parts).writeStream.foreachBatch(keep)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    got = {
        name: sorted(tuple(v for v in row[1:] if v is not None) for row in found if row[0] == name) for name in STREAMS
    }
    wanted = {**PRINTED, "config 3 and 4": COPIED[dict(vectors)["delta.enableDeletionVectors"]]}
    assert got == {name: sorted(rows) for name, rows in wanted.items()}


def test_an_update_ends_a_stream_of_appends(fruit: DeltaTable, spark: SparkSession, tmp_path: Path) -> None:
    holdfast.register(spark)
    path = fruit.detailArrow().column("location")[0].as_py()
    rows = streamed(spark, path, {"ignoreChanges": "false", "skipChangeCommits": "false", "startingVersion": "0"})
    found: list[Any] = []
    writer = rows.writeStream.foreachBatch(lambda batch, number: found.append(batch.count()))
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    with pytest.raises(PySparkException, match=r"version 2 \(UPDATE\) .* is an update of data.*skipChangeCommits=true"):
        query.awaitTermination(120)
    assert found == []
