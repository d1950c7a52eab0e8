"""Rows by their ids, for users: what comes, in which order, of which version, and what is refused."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable, Invalid, NoRowIdentity, UnknownColumn
from holdfast.errors import Damaged, UnknownRow
from holdfast.index import rowmaps
from holdfast.parquet.pages.find import CandidateFile
from holdfast.parquet.rowmap import CarriedIds
from holdfast.storage.base import ObjectStore
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.index.pinned_readers import Pins
from tests.support.damage import opened
from tests.support.faulty import CountingStore
from tests.support.tablesmith import Tablesmith

COLUMNS = pa.schema([("k", pa.int64()), ("s", pa.string())])
numbers = itertools.count()


def created(path: str | None = None, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(None).location(path or f"memory://lookup/{next(numbers)}").addColumns(COLUMNS)
    settings = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true", **properties}
    for name, value in settings.items():
        builder = builder.property(name, value)
    return builder.execute()


def rows(*keys: int, s: str = "new") -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "s": pa.array([s] * len(keys), pa.string())})


@pytest.fixture
def table() -> DeltaTable:
    """Ten rows of keys and ids 0 to 9 in two files; 3 and 7 were changed and 5 was deleted."""
    table = created()
    table.append(rows(*range(5)))
    table.append(rows(*range(5, 10)))
    table.update("k in (3, 7)", {"s": "'changed'"})
    table.delete("k = 5")
    return table


@pytest.mark.parametrize(
    "ids",
    [
        [7, 0, 7, 3],
        (7, 0, 7, 3),
        np.array([7, 0, 7, 3]),
        np.array([7, 0, 7, 3], np.uint16),
        pa.array([7, 0, 7, 3], pa.int32()),
        pa.chunked_array([[7, 0], [7, 3]]),
        iter([7, 0, 7, 3]),
    ],
    ids=lambda ids: type(ids).__name__,
)
def test_rows_come_in_the_order_asked_and_as_often(table: DeltaTable, ids: Any) -> None:
    got = table.take(ids, metadata={"_row_id": "rid", "_row_commit_version": "since"})
    assert got.to_pydict() == {
        "k": [7, 0, 7, 3],
        "s": ["changed", "new", "changed", "changed"],
        "rid": [7, 0, 7, 3],
        "since": [3, 1, 3, 3],
    }


def test_no_ids_are_no_rows_of_the_right_columns(table: DeltaTable) -> None:
    assert table.take([], ["s"], metadata=["_row_id"]).schema == table.toArrow(["s"], metadata=["_row_id"]).schema
    assert table.take([]).equals(table.toArrow(where="false"))
    assert table.take([1, 2], []).num_rows == 2


def test_what_toArrow_gives_of_metadata_take_gives_too(table: DeltaTable) -> None:
    every = ["_row_id", "_row_commit_version", "_row_index", "_file", "_partition", "_base_row_id"]
    scan = table.toArrow(metadata=every)
    assert table.take(scan.column("_row_id"), metadata=every).equals(scan)


def test_ids_of_no_live_row_are_an_error_unless_said_otherwise(table: DeltaTable) -> None:
    with pytest.raises(UnknownRow, match=r"no row with the id 5, 10: 2 of the ids.*missing=") as told:
        table.take([1, 5, 10, 5])
    assert told.value.row_ids == (5, 10)
    assert table.take([1, 5, 10], missing="skip").to_pydict() == {"k": [1], "s": ["new"]}
    assert table.take([5, 1, 2**70], ["k"], missing="null").to_pydict() == {"k": [None, 1, None]}
    assert table.take(np.array([2**64 - 1], np.uint64), ["k"], missing="null").to_pydict() == {"k": [None]}
    assert table.take([5], missing="null").to_pydict() == {"k": [None], "s": [None]}
    assert table.take([-1], missing="skip").num_rows == 0


@pytest.mark.parametrize(
    "wrong", [5, "12", ["1"], [None], [1.0], [True], np.array([[1]]), np.array([0.5]), pa.array([1, None]), None]
)
def test_what_is_no_list_of_whole_numbers_is_refused(table: DeltaTable, wrong: Any) -> None:
    with pytest.raises(Invalid, match="row ids"):
        table.take(wrong)


def test_other_mistakes_are_refused_as_by_a_scan(table: DeltaTable) -> None:
    with pytest.raises(UnknownColumn, match="kk"):
        table.take([1], ["kk"])
    with pytest.raises(Invalid, match="list of names"):
        table.take([1], "k")
    with pytest.raises(Invalid, match="error, null, skip"):
        table.take([1], missing="ignore")
    plain = DeltaTable.create(None).location(f"memory://lookup/{next(numbers)}").addColumns(COLUMNS)
    with pytest.raises(NoRowIdentity, match=r"enableRowTracking\(\)"):
        plain.property("delta.enableRowTracking", "false").execute().take([1])


def test_a_table_that_begins_to_track_rows_has_them_at_once() -> None:
    plain = created(**{"delta.enableRowTracking": "false", "holdfast.plain": "true"})
    plain.append(rows(1, 2))
    plain.enableRowTracking()
    plain.append(rows(3))
    assert sorted(plain.take([0, 1, 2]).column("k").to_pylist()) == [1, 2, 3]


def test_older_versions_are_read_as_they_were(table: DeltaTable) -> None:
    assert table.take([3, 5], version=2).to_pydict() == {"k": [3, 5], "s": ["new", "new"]}
    assert table.take([3, 5], version=3).column("s").to_pylist() == ["changed", "new"]
    with pytest.raises(UnknownRow, match="version 1 of"):
        table.take([5], version=1)
    table.pin(2, "before")
    assert table.take([5], ["k"], version="before").column("k").to_pylist() == [5]
    table.restoreToVersion(2)
    assert table.take([3, 5]).to_pydict() == {"k": [3, 5], "s": ["new", "new"]}


def test_a_table_looks_rows_up_in_one_version_until_it_does_something_itself() -> None:
    mine = created()
    mine.append(rows(0))
    other = opened_again(mine)
    assert mine.take([0], ["k"]).num_rows == 1
    other.append(rows(1))
    assert mine.take([0, 1], missing="skip").num_rows == 1, "what others commit is seen after refresh()"
    assert mine.take([0, 1], version=2).num_rows == 2
    assert mine.take([0, 1], missing="skip").num_rows == 1, "another version that is asked for moves nothing"
    assert mine.refresh() == 2
    assert mine.take([0, 1]).num_rows == 2
    mine.update("k = 0", {"s": "'mine'"})
    assert mine.take([0]).column("s").to_pylist() == ["mine"], "one sees what one has written"
    with mine.transaction() as t:
        t.append(rows(7))
        assert mine.take([0], ["k"]).num_rows == 1
    assert mine.take([max(ids_of(mine))], ["k"]).to_pydict() == {"k": [7]}
    other.append(rows(8))
    assert mine.toArrow().num_rows == 4
    assert mine.take(ids_of(mine)).num_rows == 4, "and what one has scanned"
    alias = mine.alias("m")
    alias.delete("k = 8")
    assert len(mine.take(ids_of(mine))) == 3


def opened_again(table: DeltaTable) -> DeltaTable:
    location = table.handle.state.snapshot.location
    return DeltaTable.forPath(None, location.url)


def ids_of(table: DeltaTable) -> list[int]:
    found: list[int] = table.toArrow([], metadata=["_row_id"]).column("_row_id").to_pylist()
    return sorted(found)


def test_readers_of_a_few_other_versions_are_kept(table: DeltaTable) -> None:
    for version in range(5):
        table.take([], version=version)
    pins: Pins = table.handle.pins
    assert sorted(pins.past) == [1, 2, 3, 4]


def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose footers are looked at from now on."""
    looks, look = list[str](), rowmaps.read_carried_ids

    def told(store: ObjectStore, file: CandidateFile) -> CarriedIds:
        looks.append(file.key)
        return look(store, file)

    monkeypatch.setattr(rowmaps, "read_carried_ids", told)
    return looks


def test_rows_that_are_where_they_were_written_cost_no_look_at_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    store = CountingStore(MemoryStore("counted"))
    builder = created("memory://counted-source/t")
    for at in range(20):
        builder.append(rows(*range(10 * at, 10 * at + 10)))
    builder.update("k = 150", {"s": "'changed'"})
    inner = builder.handle.state.snapshot.location.store
    for meta in inner.list_all("t"):
        store.inner.put(meta.key, inner.get(meta.key))
    looks = watched(monkeypatch)
    table = opened(store)
    assert table.take([3, 4, 77, 150], ["k"]).column("k").to_pylist() == [3, 4, 77, 150]
    assert looks == [], "notes in the log tell which files carry ids, and small ones which"
    before = sum(store.calls.values())
    table.take([3, 4, 77, 150], ["k"])
    assert sum(store.calls.values()) - before <= 2 * 3, "no look at the log, and a few at the three files"


def test_files_of_other_writers_are_looked_into_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smith = Tablesmith(tmp_path / "t", schema=[("id", "long")])
    smith.append([{"id": i} for i in range(12)], files=4)
    smith.update(0, {1: {"id": 100}})
    smith.rewrite(1, 2)
    smith.hide(0, [0])
    looks = watched(monkeypatch)
    table = DeltaTable.forPath(None, smith.url)
    expected = {row["_row_id"]: row["id"] for row in smith.rows()}
    fresh = next(row["_row_id"] for row in smith.rows() if row["id"] == 11)
    assert table.take([fresh]).column("id").to_pylist() == [11]
    assert len(looks) == 1, "a row that is where it was written is found there"
    assert table.take(list(expected)).column("id").to_pylist() == list(expected.values())
    table.refresh()
    table.take(list(expected))
    assert len(looks) == len(set(looks))
    assert table.take(range(20), missing="skip").num_rows == len(expected)


def test_clones_have_ids_of_their_own() -> None:
    source = created()
    source.append(rows(0, 1, 2))
    source.append(rows(3))
    source.update("k = 1", {"s": "'x'"}, mode="copy-on-write")
    source.optimize().executeCompaction()
    for shallow in (True, False):
        name = f"memory://lookup/{next(numbers)}"
        clone = source.clone(name, isShallow=shallow)
        scan = clone.toArrow(metadata=["_row_id"])
        assert clone.take(scan.column("_row_id"), metadata=["_row_id"]).equals(scan)


def test_an_id_that_two_live_rows_have_is_told(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path / "t", schema=[("id", "long")])
    smith.append([{"id": i} for i in range(4)], files=1)
    smith.rewrite(0)
    smith.rewrite(0)
    older = smith.live(2)[0]
    assert smith.live()[0]["path"] != older["path"]
    smith.commit([{"add": {**older, "dataChange": True}}])
    with pytest.raises(Damaged, match=r"row id 0 of .* is live at position 0 of .* and at position 0 of"):
        DeltaTable.forPath(None, smith.url).take([0])


def test_files_with_other_rows_than_the_log_says_are_not_trusted(tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path / "t", schema=[("id", "long")])
    smith.append([{"id": i} for i in range(4)], files=1)
    add = smith.live()[0]
    smith.commit(
        [{"add": {**add, "dataChange": True, "stats": add["stats"].replace('"numRecords":4', '"numRecords":5')}}]
    )
    with pytest.raises(Damaged, match="has 4 rows where the log has 5"):
        DeltaTable.forPath(None, smith.url).take([0])


@pytest.mark.everywhere
def test_many_rows_as_a_DataFrame(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = created(path)
    table.append(rows(*range(50)))
    table.append(rows(*range(50, 100)))
    table.update("k % 10 = 3", {"s": "'changed'"})
    table.delete("k = 42")
    on_spark = DeltaTable.forPath(spark, path)
    wanted = [99, 3, 3, 13, 60, 0]
    found = on_spark.takeDF(wanted, ["k", "s"], metadata=["_row_id"]).orderBy("k").toArrow().to_pydict()
    assert found["k"] == [0, 3, 13, 60, 99]
    assert found["s"] == ["new", "changed", "changed", "new", "new"]
    assert found["_row_id"] == [0, 3, 13, 60, 99]
    ids = spark.range(40, 50)
    with pytest.raises(UnknownRow, match="no row with the id 42"):
        on_spark.takeDF(ids)
    assert on_spark.takeDF(ids, missing="skip").count() == 9
    assert on_spark.takeDF(ids, version=3).count() == 10
    assert on_spark.takeDF([]).count() == 0
    with pytest.raises(Invalid, match='missing="skip"'):
        on_spark.takeDF([1], missing="null")
    with pytest.raises(Invalid, match="one column of whole numbers"):
        on_spark.takeDF(spark.range(3).selectExpr("id", "id AS b"))
    with pytest.raises(Invalid, match="without a Spark session"):
        table.takeDF([1])


def test_compaction_puts_moved_rows_back_into_the_order_of_their_ids() -> None:
    table = created()
    for at in range(3):
        table.append(rows(*range(10 * at, 10 * at + 10)))
    table.update("k % 4 = 1", {"s": "'a'"})
    table.update("k % 5 = 1", {"s": "'b'"})
    table.optimize().executeCompaction()
    assert table.toArrow([], metadata=["_row_id"]).column("_row_id").to_pylist() == list(range(30))
    known = table.handle.pinned().reader.row_map(0)
    assert [len(segment) for segment in known.ids.segments] == [30]
    table.optimize().executeZOrderBy("s")
    table.update("k = 3", {"s": "'c'"})
    order = [r for r in table.toArrow([], metadata=["_row_id"]).column("_row_id").to_pylist() if r != 3]
    table.optimize(materializeDeletionsThreshold=0).executeCompaction()
    after = [r for r in table.toArrow([], metadata=["_row_id"]).column("_row_id").to_pylist() if r != 3]
    assert after == order, "an order that was asked for stays"
