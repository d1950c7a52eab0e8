"""Columns of the change data feed, which a table that has a feed cannot have."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.errors import Invalid
from holdfast.schema.properties import CHANGE_FEED

_fresh = count()
FEED = {CHANGE_FEED: "true"}
RESERVED = ("_change_type", "_commit_version", "_commit_timestamp", "_Change_Type")


def made(*names: str, feed: bool = True, path: str | None = None) -> DeltaTable:
    builder = DeltaTable.create(None).location(path or f"memory://feed-columns/{next(_fresh)}")
    for name in ("id", *names):
        builder = builder.addColumn(name, "bigint")
    builder = builder.property("delta.columnMapping.mode", "name")
    return (builder.property(CHANGE_FEED, "true") if feed else builder).execute()


def rows(*names: str) -> pa.Table:
    return pa.table({name: [1, 2] for name in ("id", *names)})


WAYS: dict[str, Callable[[DeltaTable, str], Any]] = {
    "append": lambda t, name: t.append(rows(name), mergeSchema=True),
    "overwrite": lambda t, name: t.overwrite(rows(name), overwriteSchema=True),
    "merge": lambda t, name: (
        t.alias("t")
        .merge(rows(name), "t.id = s.id")
        .withSchemaEvolution()
        .whenMatchedUpdateAll()
        .whenNotMatchedInsertAll()
        .execute()
    ),
    "add": lambda t, name: t.addColumns({name: "int"}),
    "rename": lambda t, name: t.renameColumn("v", name),
    "replace": lambda t, name: t.handle.alter.replace_columns([("id", "bigint"), ("v", "bigint"), (name, "int")]),
}


@pytest.mark.parametrize("way", sorted(WAYS))
def test_a_table_with_a_feed_takes_no_column_of_the_feed(way: str) -> None:
    table = made("v")
    table.append(rows("v"))
    before = table.version
    for name in RESERVED:
        with pytest.raises(Invalid, match=f"cannot have {name}") as caught:
            WAYS[way](table, name)
        assert caught.value.condition == "RESERVED_CDC_COLUMNS_ON_WRITE"
    assert table.version == before
    table.update("id = 1", {"v": "5"})
    assert set(table.changeFeed(0).toArrow().column("_change_type").to_pylist()) >= {"insert", "update_postimage"}


@pytest.mark.parametrize("name", RESERVED)
def test_no_feed_begins_where_such_a_column_is(name: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=f"cannot have {name}"):
        made(name)
    table = made(name, feed=False)
    table.append(rows(name))
    with pytest.raises(Invalid, match="rename it, drop it, or leave the feed off") as caught:
        table.setProperties(FEED)
    assert caught.value.condition == "DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS"
    with pytest.raises(Invalid, match=f"cannot have {name}"):
        table.clone(f"memory://feed-columns/{next(_fresh)}", properties=FEED)
    assert table.version == 1
    table.renameColumn(name, "v")
    table.setProperties(FEED)
    with pytest.raises(Invalid, match=f"cannot have {name}"):
        table.renameColumn("v", name)
    (tmp_path / "p").mkdir()
    pq.write_table(rows(name), tmp_path / "p/x.parquet")
    with pytest.raises(Invalid, match=f"cannot have {name}"):
        DeltaTable.convertToDelta(None, f"parquet.`{tmp_path}/p`", properties=FEED)
    assert not (tmp_path / "p/_delta_log").exists()


def test_a_restore_to_such_a_table_is_refused_while_there_is_a_feed_then() -> None:
    table = made("_change_type", feed=False)
    table.dropColumn("_change_type")
    table.setProperties(FEED)
    table.restoreToVersion(0)
    assert CHANGE_FEED not in table.handle.newest().snapshot.properties, "the feed goes with what was then"
    assert table.handle.newest().snapshot.schema.names == ("id", "_change_type")


@pytest.mark.everywhere
def test_frames_and_queries_bring_no_column_of_the_feed(spark: SparkSession, tmp_path: Path) -> None:
    path = f"{tmp_path}/t"
    table = DeltaTable.create(spark).location(path).addColumn("id", "bigint").property(CHANGE_FEED, "true").execute()
    frame = spark.range(2).selectExpr("id", "id AS _commit_version")
    with pytest.raises(Invalid, match="cannot have _commit_version"):
        table.append(frame, mergeSchema=True)
    with pytest.raises(Invalid, match="cannot have _commit_version"):
        table.overwrite(frame, overwriteSchema=True)
    assert (table.version, list((tmp_path / "t").glob("*.parquet"))) == (0, [])
