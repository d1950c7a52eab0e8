"""Document 003 in batch: its three commits, in both strategies, through the feed and through the four kinds."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

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
