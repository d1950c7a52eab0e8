"""Clustering: rows with near values lie in the same files, and every row is as it was."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import DeltaTable
from holdfast.env import system
from holdfast.errors import Invalid, UnknownColumn
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.state import DeltaState, load
from holdfast.plan.maintain.cluster import CUBE, CUBE_COLUMNS, LEVEL
from holdfast.storage.open import open_location

IDS = ["_row_id", "_row_commit_version"]
ROWS = 4_096
_fresh = count()


def _path() -> str:
    return f"memory://clustering/{next(_fresh)}"


def _data(rows: int, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": random.permutation(rows),
            "text": [f"store {n:04}" for n in random.integers(0, 5_000, rows)],
            "price": random.random(rows),
        }
    )


def _clustered(path: str, *columns: str) -> DeltaTable:
    table = DeltaTable.create(None).location(path).addColumns(_data(1).schema).clusterBy(*columns).execute()
    for seed in range(4):
        table.append(_data(ROWS // 4, seed))
    return table


def _state(path: str) -> DeltaState:
    return load(open_location(path))


def _rows(path: str) -> pa.Table:
    return DeltaTable.forPath(None, path).toArrow(metadata=IDS).sort_by("_row_id")


def _kept(table: DeltaTable, where: str) -> int:
    return int(table.explain(where=where).steps[-1].kept)


def _tags(path: str) -> list[dict[str, str]]:
    return [dict(tags or ()) for tags in _state(path).snapshot.files.column("tags").to_pylist()]


def _commit(path: Path, version: int) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, (path / "_delta_log" / f"{version:020}.json").read_text().splitlines())


def test_every_clustering_column_prunes() -> None:
    path = _path()
    table = _clustered(path, "id", "text", "price")
    before = _rows(path)
    done = table.optimize(targetRows=ROWS // 64).executeCompaction()
    assert done.metrics["numAddedFiles"] == 64
    assert _rows(path).equals(before)
    for point in ("id = 17", "text = 'store 0100'", "price = 0.42"):
        assert _kept(table, point) <= 24, point  # a curve through three columns at its best: 16 of 64
    for wide in ("id BETWEEN 20 AND 200", "text < 'store 0500'", "price < 0.1"):
        assert _kept(table, wide) <= 24, wide
    assert _kept(table, "id < 250 AND price < 0.1 AND text < 'store 0500'") <= 4
    plan = table.alias("t").merge(pa.table({"id": [3, 9], "v": [1.0, 2.0]}), "t.id = s.id").whenMatchedDelete().plan()
    assert plan.files <= 24
    assert "clustered by id" in str(table.explain(where="id = 3"))


def test_only_what_is_new_is_put_in_order() -> None:
    path = _path()
    table = _clustered(path, "id", "price")
    table.optimize(targetRows=256).executeCompaction()
    assert not table.optimize(targetRows=256).plan().bins
    old = set(_state(path).snapshot.files.column("key").to_pylist())
    table.append(_data(200, 9))
    before = _rows(path)
    (one,) = table.optimize(targetRows=256).plan().bins
    assert one.rows == 200
    table.optimize(targetRows=256).executeCompaction()
    assert old < set(_state(path).snapshot.files.column("key").to_pylist())
    assert len({tags[CUBE] for tags in _tags(path)}) == 2
    assert _rows(path).equals(before)
    table.optimize(full=True, targetRows=256).executeCompaction()
    assert len({tags[CUBE] for tags in _tags(path)}) == 1
    assert _rows(path).equals(before)


def test_files_say_how_they_lie_and_go_on_saying_it(tmp_path: Path) -> None:
    path = str(tmp_path)
    table = _clustered(path, "price", "id")
    done = table.optimize().executeCompaction()
    info, *actions = _commit(tmp_path, done.versions[0])
    parameters = info["commitInfo"]["operationParameters"]
    assert (info["commitInfo"]["operation"], parameters["clusterBy"]) == ("OPTIMIZE", '["price","id"]')
    adds = [a["add"] for a in actions if "add" in a]
    assert {a["clusteringProvider"] for a in adds} == {"liquid"}
    assert {(a["tags"][CUBE_COLUMNS], a["tags"][LEVEL]) for a in adds} == {('["price","id"]', "1")}
    assert not any(a["dataChange"] for a in adds)
    assert info["commitInfo"]["tags"] == {"delta.rowTracking.preserved": "true"}
    table.delete("id = 3")
    write_checkpoint(_state(path), system())
    files = DeltaTable.forPath(None, path)
    assert _state(path).snapshot.files.column("clustering_provider").to_pylist() == ["liquid"] * len(adds)
    assert {tags[CUBE] for tags in _tags(path)} == {adds[0]["tags"][CUBE]}
    assert not files.optimize().plan().bins


def test_rows_that_changed_are_put_in_order_again() -> None:
    path = _path()
    table = _clustered(path, "id")
    table.optimize(targetRows=512).executeCompaction()
    table.update("id % 7 = 0", {"price": "price + 1"})
    table.delete("id % 5 = 0")
    before = _rows(path)
    table.optimize(targetRows=512).executeCompaction()
    assert _rows(path).equals(before)
    files = _state(path).snapshot.files
    assert files.column("dv").null_count == len(files)
    assert files.column("clustering_provider").null_count == 0


def test_what_others_do_meanwhile_is_not_undone() -> None:
    path = _path()
    table = _clustered(path, "id", "price")
    begun = table.optimize(targetRows=512)
    table.append(_data(50, 8))
    before = _rows(path)
    assert begun.executeCompaction().versions
    assert _rows(path).equals(before)
    begun = table.optimize(full=True, targetRows=512)
    table.delete("id % 3 = 0")
    table.update("id % 3 = 1", {"price": "2.0"})
    before = _rows(path)
    begun.executeCompaction()
    assert _rows(path).equals(before)


def test_a_purge_leaves_rows_in_order() -> None:
    path = _path()
    table = _clustered(path, "id", "price")
    table.optimize(targetRows=256).executeCompaction()
    table.delete("id % 50 = 0")
    before = _rows(path)
    done = table.purge()
    assert _rows(path).equals(before)
    files = _state(path).snapshot.files
    assert files.column("dv").null_count == len(files)
    assert files.column("clustering_provider").null_count == 0
    assert len(done.versions) == 1
    assert not table.optimize(targetRows=256).plan().bins
    assert table.historyArrow(1).to_pylist()[0]["operation"] == "REORG"


def test_columns_can_be_chosen_later_and_given_up() -> None:
    path = _path()
    table = DeltaTable.create(None).location(path).addColumns(_data(1).schema).execute()
    for seed in range(3):
        table.append(_data(100, seed))
    table.clusterBy("price")
    assert {"clustering", "domainMetadata"} <= set(_state(path).protocol.writer_features or ())
    table.optimize().executeCompaction()
    assert {tags[CUBE_COLUMNS] for tags in _tags(path)} == {'["price"]'}
    table.clusterBy("id", "text")
    assert not table.optimize().plan().bins  # old files stay as they lie until all is asked for
    table.optimize(full=True).executeCompaction()
    assert {tags[CUBE_COLUMNS] for tags in _tags(path)} == {'["id","text"]'}
    table.clusterBy()
    table.append(_data(10))
    (one,) = table.optimize().plan().bins or (None,)
    assert one is None or one.order is None
    with pytest.raises(Invalid, match="not clustered"):
        table.optimize(full=True)


def test_statistics_of_clustering_columns_are_kept_wherever_they_stand() -> None:
    path = _path()
    names = [f"c{n}" for n in range(40)]
    data = pa.table({name: np.arange(64) * 7 % 64 for name in names})
    table = DeltaTable.create(None).location(path).addColumns(data.schema).clusterBy("c39").execute()
    table.append(data)
    table.optimize(targetRows=8).executeCompaction()
    assert _kept(table, "c39 = 5") <= 2
    assert _kept(table, "c38 = 5") == 8


def test_nested_and_renamed_columns() -> None:
    path = _path()
    schema = pa.schema([("n", pa.int64()), ("s", pa.struct([("day", pa.date32()), ("x.y", pa.string())]))])
    builder = DeltaTable.create(None).location(path).addColumns(schema).clusterBy("s.day")
    table = builder.property("delta.columnMapping.mode", "name").execute()
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=n * 37 % 200) for n in range(200)]
    table.append(pa.table({"n": range(200), "s": [{"day": d, "x.y": None} for d in days]}, schema))
    table.renameColumn("s.day", "date")
    with pytest.raises(Invalid, match="clustered by it"):
        table.dropColumn("s.date")
    before = _rows(path)
    table.optimize(targetRows=20).executeCompaction()
    assert _rows(path).equals(before)
    assert {tags[CUBE_COLUMNS] for tags in _tags(path)} == {'["s.date"]'}
    assert _kept(table, "s.date = DATE '2024-01-20'") <= 2


@pytest.mark.parametrize("written", ['["a","b"]', '[["a"],["b"]]'])
def test_flat_and_nested_lists_of_columns_are_read(tmp_path: Path, written: str) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    table = DeltaTable.create(None).location(str(tmp_path)).addColumns(schema).clusterBy("a").execute()
    table.append(pa.table({"a": range(100), "b": range(100)}))
    body = {"domain": "delta.clustering", "configuration": f'{{"clusteringColumns":{written}}}', "removed": False}
    (tmp_path / "_delta_log" / f"{2:020}.json").write_text(json.dumps({"domainMetadata": body}) + "\n")
    table.optimize().executeCompaction()
    assert {tags[CUBE_COLUMNS] for tags in _tags(str(tmp_path))} == {'["a","b"]'}


def test_what_makes_no_sense_is_refused_with_a_way_out() -> None:
    table = _clustered(_path(), "id")
    with pytest.raises(Invalid, match="maxBytes"):
        table.optimize().where("id > 3")
    with pytest.raises(Invalid, match="executeCompaction"):
        table.optimize().executeZOrderBy("price")
    with pytest.raises(UnknownColumn, match="nothing"):
        table.clusterBy("nothing")
    split = DeltaTable.create(None).location(_path()).addColumns(_data(1).schema).partitionedBy("text").execute()
    with pytest.raises(Invalid, match="partitioned by text"):
        split.clusterBy("id")
    with pytest.raises(Invalid, match="partitioned by text"):
        split.optimize().executeZOrderBy("text")
    with pytest.raises(Invalid, match="name the columns"):
        split.optimize().executeZOrderBy()
    with pytest.raises(Invalid, match="not clustered"):
        split.optimize(full=True)
    with pytest.raises(Invalid, match="leave maxBytes out"):
        table.optimize(full=True, maxBytes=10)
    unindexed = DeltaTable.create(None).location(_path()).addColumns(_data(1).schema)
    with pytest.raises(Invalid, match="dataSkippingStatsColumns"):
        unindexed.property("delta.dataSkippingNumIndexedCols", "1").execute().optimize().executeZOrderBy("price")


def test_z_order_keeps_partitions_apart() -> None:
    path = _path()
    schema = pa.schema([*_data(1).schema, ("p", pa.string())])
    table = DeltaTable.create(None).location(path).addColumns(schema).partitionedBy("p").execute()
    for seed in range(3):
        table.append(_data(1_000, seed).append_column("p", pa.array(["x", "y"] * 500)))
    before = _rows(path)
    assert len(table.optimize(targetRows=50).plan(zOrderBy=["id", "price"]).bins) == 2
    done = table.optimize(targetRows=50).executeZOrderBy("id", "price")
    assert (len(done.versions), done.bins) == (1, 2)
    assert _rows(path).equals(before)
    assert _kept(table, "p = 'x' AND id = 7") <= 12  # of 30
    assert _kept(table, "p = 'x' AND price < 0.01") <= 12
    assert done.metrics["numAddedFiles"] == 60
    assert not table.optimize(targetRows=50).executeZOrderBy("id", "price").versions
    assert table.historyArrow(1).column("operationParameters").to_pylist()[0] is not None


@pytest.mark.everywhere
def test_clustering_on_spark_lays_rows_as_it_does_without(spark: SparkSession, tmp_path: Path) -> None:
    """Every type that can be clustered by, nulls and NaN among them."""
    n = 600
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    moments = [start + datetime.timedelta(minutes=i * 61) for i in range(n)]
    data = pa.table(
        {
            "text": [None if i % 50 == 0 else f"t{i * 37 % 100:03}" for i in range(n)],
            "day": [m.date() for m in moments],
            "moment": pa.array(moments, pa.timestamp("us", "UTC")),
            "amount": pa.array([Decimal(i * 7919 % 1000).scaleb(-2) for i in range(n)], pa.decimal128(12, 2)),
            "share": [float("nan") if i % 40 == 0 else i * 31 % 97 / 97 for i in range(n)],
            "s": pa.array([{"small": i % 100} for i in range(n)], pa.struct([("small", pa.int8())])),
        }
    )
    layouts: list[list[int]] = []
    for session, columns in (
        (None, ("day", "s.small")),
        (None, ("text", "moment", "amount", "share")),
        (spark, ("text", "moment", "amount", "share")),
    ):
        path = str(tmp_path / f"{len(layouts)}")
        DeltaTable.create(None).location(path).addColumns(data.schema).clusterBy(*columns).execute().append(data)
        before = _rows(path)
        done = DeltaTable.forPath(session, path).optimize(targetRows=200).executeCompaction()
        assert done.metrics["numAddedFiles"] == 3
        assert str(_rows(path).to_pylist()) == str(before.to_pylist())
        files = _state(path).snapshot.files
        assert files.column("clustering_provider").to_pylist() == ["liquid"] * 3
        layouts.append(sorted(files.num_records.to_pylist()))
    assert layouts[1] == layouts[2]


def test_z_order_on_spark_as_on_its_first_version(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(F, "arrow_udf", raising=False)  # PySpark 4.0 has none
    path = str(tmp_path / "table")
    schema = pa.schema([*_data(1).schema, ("p", pa.string())])
    DeltaTable.create(None).location(path).addColumns(schema).partitionedBy("p").execute().append(
        _data(1_000).append_column("p", pa.array(["x", "y"] * 500))
    )
    table = DeltaTable.forPath(spark, path)
    table.delete("id % 9 = 4")
    before = _rows(path)
    done = table.optimize(targetRows=220).executeZOrderBy(["id", "price"])
    assert done.metrics["numAddedFiles"] == 4
    assert _rows(path).equals(before)
    assert _kept(table, "p = 'x' AND id = 7") == 1
