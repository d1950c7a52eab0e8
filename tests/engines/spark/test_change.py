"""DELETE, UPDATE and MERGE on Spark: rows, ids and versions, in both strategies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import DeltaTable
from holdfast.engines.spark.dml import change, matching
from holdfast.errors import AmbiguousMatch, ConstraintViolated, Invalid, UnknownColumn
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.state import load
from holdfast.storage.open import open_location

MODES = ("merge-on-read", "copy-on-write")


def _table(
    spark: SparkSession, path: Path, rows: Sequence[tuple[Any, ...]], schema: str, **properties: str
) -> DeltaTable:
    builder = DeltaTable.create(spark).location(str(path)).addColumns(spark.createDataFrame([], schema).schema)
    for name, value in properties.items():
        builder = builder.property("delta." + name, value)
    table = builder.execute()
    table.append(spark.createDataFrame(list(rows), schema).coalesce(1))
    return table


def _rows(table: DeltaTable, *columns: str) -> list[tuple[Any, ...]]:
    df = table.scan(metadata=["_row_id", "_row_commit_version"])
    names = [*(columns or [c for c in df.columns if not c.startswith("_row")]), "_row_id", "_row_commit_version"]
    return sorted(map(tuple, df.select(*names).collect()), key=lambda row: row[-2])


def _live(path: Path) -> dict[str, list[int]]:
    """Hidden positions of every live file."""
    location = open_location(str(path))
    files = load(location).snapshot.files
    hidden = load_hidden(location, files).positions
    return {key: list(hidden.get(key, ())) for key in files.column("key").to_pylist()}


def _materialized(path: Path, file: str) -> list[tuple[Any, ...]]:
    """The rows of a file with the ids and versions that are stored in it."""
    table = pq.read_table(path / file)
    names = [n for n in table.column_names if not n.startswith("_row-")]
    ids = [n for n in table.column_names if n.startswith("_row-id")]
    versions = [n for n in table.column_names if n.startswith("_row-commit")]
    return list(zip(*(table.column(n).to_pylist() for n in (*names, *ids, *versions)), strict=True))


@pytest.mark.everywhere
def test_an_insert_an_update_and_a_delete_merge_on_read(spark: SparkSession, tmp_path: Path) -> None:
    people = [("jack", "apple"), ("sarah", "kiwi"), ("john", "fig")]
    table = _table(spark, tmp_path, people, "name string, fruit string")
    (a,) = _live(tmp_path)
    table.update("name = 'jack'", {"fruit": "'banana'"})
    second = _live(tmp_path)
    (b,) = second.keys() - {a}
    assert second == {a: [0], b: []}
    assert _materialized(tmp_path, b) == [("jack", "banana", 0, None)]
    table.delete("name = 'john'")
    assert _live(tmp_path) == {a: [0, 2], b: []}
    assert _rows(table) == [("jack", "banana", 0, 2), ("sarah", "kiwi", 1, 1)]


def test_an_insert_an_update_and_a_delete_copy_on_write(spark: SparkSession, tmp_path: Path) -> None:
    people = [("jack", "apple"), ("sarah", "kiwi"), ("john", "fig")]
    table = _table(spark, tmp_path, people, "name string, fruit string", enableDeletionVectors="false")
    table.update("name = 'jack'", {"fruit": "'banana'"})
    (b,) = _live(tmp_path)
    assert _materialized(tmp_path, b) == [
        ("jack", "banana", 0, None),
        ("sarah", "kiwi", 1, 1),
        ("john", "fig", 2, 1),
    ]
    table.delete("name = 'john'")
    (c,) = _live(tmp_path)
    assert _materialized(tmp_path, c) == [("jack", "banana", 0, 2), ("sarah", "kiwi", 1, 1)]
    assert _rows(table) == [("jack", "banana", 0, 2), ("sarah", "kiwi", 1, 1)]


@pytest.mark.everywhere
@pytest.mark.parametrize("mode", MODES)
def test_a_merge_with_every_kind_of_clause(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    table = _table(spark, tmp_path, [(i, f"a{i}", 1) for i in range(10)], "id long, v string, n int")
    source = spark.createDataFrame([(3, "x3"), (4, "x4"), (20, "x20"), (21, "x21")], "id long, v string")
    done = (
        table.alias("t")
        .merge(source.alias("s"), "t.id = s.id", mode=mode)
        .whenMatchedDelete("s.v = 'x4'")
        .whenMatchedUpdate(set={"v": F.concat(F.col("s.v"), F.col("t.v")), "t.n": "t.n + 1"})
        .whenNotMatchedInsertAll("s.id <> 21")
        .whenNotMatchedBySourceUpdate("t.id = 9", {"n": "t.n + 41"})
        .whenNotMatchedBySourceDelete("id = 0")
        .execute()
    )
    assert _rows(table, "id", "v", "n")[:-1] == [
        *[(i, f"a{i}", 1, i, 1) for i in (1, 2)],
        (3, "x3a3", 2, 3, 2),
        *[(i, f"a{i}", 1, i, 1) for i in (5, 6, 7, 8)],
        (9, "a9", 42, 9, 2),
    ]
    new = _rows(table, "id", "v", "n")[-1]
    assert new[:3] == (20, "x20", None)
    assert new[3] >= 10
    assert new[4] == 2
    counted = ("Inserted", "Updated", "Deleted", "Copied")
    assert [done.metrics[f"numTargetRows{what}"] for what in counted] == [1, 2, 2, 0 if mode == MODES[0] else 6]
    ids = {(row["_row_id"], row["_change_type"]) for row in done.rowIds().collect()}
    assert ids == {(3, "update"), (9, "update"), (4, "delete"), (0, "delete"), (new[3], "insert")}
    assert not list(tmp_path.glob("_holdfast/stage/*"))


@pytest.mark.parametrize("how", ["broadcast", "keys", "shuffle"])
def test_every_way_to_join_gives_the_same(
    spark: SparkSession, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how != "broadcast":
        monkeypatch.setattr(matching, "BROADCAST_ROWS", 0)
    if how == "shuffle":
        monkeypatch.setattr(matching, "BROADCAST_KEYS", 0)
    table = _table(spark, tmp_path, [(i, i % 3, f"a{i}", 1.5) for i in range(50)], "id long, k int, v string, d double")
    source = spark.range(40, 60).selectExpr("id", "cast(id % 3 as int) k", "concat('s', id) v", "2.5D d")
    (
        table.alias("t")
        .merge(source.alias("s"), "t.id = s.id AND t.k = s.k")
        .whenMatchedUpdate("s.id < 45", {"v": "s.v", "d": "t.d + s.d"})
        .whenMatchedDelete("s.id = 49")
        .whenNotMatchedInsertAll()
        .execute()
    )
    rows = _rows(table, "id", "v", "d")
    assert [row[:3] for row in rows if row[0] < 50] == [
        (i, f"s{i}", 4.0) if 40 <= i < 45 else (i, f"a{i}", 1.5) for i in range(49)
    ]
    assert sorted(row[:3] for row in rows if row[0] >= 50) == [(i, f"s{i}", 2.5) for i in range(50, 60)]
    assert {row[3] for row in rows if row[0] < 50} == set(range(49))


@pytest.mark.everywhere
def test_two_rows_that_change_one_are_refused_wherever_they_meet(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _table(spark, tmp_path, [(i, "a") for i in range(5)], "id long, v string")
    source = spark.createDataFrame([(3, "one"), (4, "x")], "id long, v string").unionAll(
        spark.createDataFrame([(3, "two")], "id long, v string")
    )
    # In tasks of their own, whatever Spark makes of the join: half of the rows come from each side of a union.
    for rows in (source.repartition(7), source.coalesce(1)):
        with pytest.raises(AmbiguousMatch) as caught:
            table.alias("t").merge(rows.alias("s"), "t.id = s.id").whenMatchedUpdateAll().execute()
        assert '"v":"one"' in str(caught.value)
        assert '"v":"two"' in str(caught.value)
    assert table.version == 1
    deleted = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedDelete().execute()
    assert deleted.metrics["numTargetRowsDeleted"] == 2


def test_duplicates_are_settled_where_that_is_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(spark, tmp_path, [(1, "a")], "id long, v string")
    source = spark.createDataFrame(
        [(1, "old", 1), (1, "new", 2), (2, "p", 9), (2, "q", 8)], "id long, v string, at int"
    )
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id", duplicates="last", orderBy="at")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert sorted(row[:2] for row in _rows(table)) == [(1, "new"), (2, "p")]
    with pytest.raises(Invalid, match="orderBy"):
        table.merge(source, "true", duplicates="last")


def test_a_source_is_evaluated_once(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(spark, tmp_path, [(i, 0.0) for i in range(20)], "id long, r double")
    source = spark.range(10, 30).select("id", F.rand().alias("r"))
    merged = table.alias("t").merge(source.alias("s"), "t.id = s.id AND s.r >= 0")
    merged.whenMatchedUpdate("s.r < 0.5", {"r": "s.r"}).whenMatchedUpdate(
        set={"r": "s.r"}
    ).whenNotMatchedInsertAll().execute()
    values = {row[0]: row[1] for row in _rows(table)}
    assert len(values) == 30
    assert all(0 < values[i] < 1 for i in range(10, 30))
    assert len({values[i] for i in range(10, 30)}) == 20


@pytest.mark.parametrize("mode", MODES)
def test_a_row_moves_between_partitions_and_keeps_its_id(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    places = ["a b", "c/d=e%", "ü", None]
    df = spark.createDataFrame([(i, places[i % 4]) for i in range(8)], "id long, place string")
    table = DeltaTable.create(spark).location(str(tmp_path)).addColumns(df.schema).partitionedBy("place").execute()
    table.append(df)
    ids = {row[0]: row[2] for row in _rows(table)}
    table.update("place = 'a b'", {"place": "'c/d=e%'"}, mode=mode)
    source = spark.createDataFrame([(1, "c/d=e%"), (3, None)], "id long, place string")
    table.alias("t").merge(source.alias("s"), "t.id = s.id AND t.place <=> s.place", mode=mode).whenMatchedUpdate(
        set={"place": "'x y'"}
    ).execute()
    rows = {row[0]: (row[1], row[2]) for row in _rows(table)}
    expected = {0: "c/d=e%", 1: "x y", 2: "ü", 3: "x y", 4: "c/d=e%", 5: "c/d=e%", 6: "ü", 7: None}
    assert rows == {i: (place, ids[i]) for i, place in expected.items()}


def test_whole_files_go_unread(spark: SparkSession, tmp_path: Path) -> None:
    df = spark.range(20).selectExpr("id", "cast(id % 2 as int) p")
    table = DeltaTable.create(spark).location(str(tmp_path)).addColumns(df.schema).partitionedBy("p").execute()
    table.append(df)
    for file in tmp_path.glob("p=1/*.parquet"):
        file.write_bytes(b"not parquet")
    done = table.delete("p = 1")
    assert done.metrics["numDeletedRows"] == 10
    assert done.metrics["numScannedFiles"] == 0
    assert {row["_change_type"] for row in done.strategies and [{"_change_type": s.how} for s in done.strategies]} == {
        "removed"
    }
    for file in tmp_path.glob("p=0/*.parquet"):
        file.write_bytes(b"not parquet")
    assert table.delete("id >= 0").metrics["numDeletedRows"] == 10
    assert table.toDF().count() == 0


def test_auto_moves_the_rest_of_files_that_would_mostly_hide(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(spark, tmp_path, [(i, "a") for i in range(10)], "id long, v string")
    few = table.delete("id < 2", mode="auto")
    assert [s.how for s in few.strategies] == ["vector"]
    many = table.delete("id < 6", mode="auto")
    assert [s.how for s in many.strategies] == ["rewritten"]
    assert "60%" in many.strategies[0].why
    assert list(_live(tmp_path).values()) == [[]]
    assert _rows(table) == [(i, "a", i, 1) for i in range(6, 10)]
    updated = table.update("id < 9", {"v": "'b'"}, mode="auto")
    assert updated.metrics["numCopiedRows"] == 1
    assert _rows(table) == [*[(i, "b", i, 4) for i in range(6, 9)], (9, "a", 9, 1)]


@pytest.mark.parametrize("mode", MODES)
def test_the_change_feed_tells_every_change(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    table = _table(spark, tmp_path, [(i, "a") for i in range(6)], "id long, v string", enableChangeDataFeed="true")
    source = spark.createDataFrame([(1, "x"), (2, "y"), (9, "z")], "id long, v string")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id", mode=mode)
    merge.whenMatchedDelete("s.id = 2").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert _feed(spark, tmp_path, 2) == [
        (1, "a", "update_preimage"),
        (1, "x", "update_postimage"),
        (2, "a", "delete"),
        (9, "z", "insert"),
    ]
    table.delete("id = 3", mode=mode)
    assert _feed(spark, tmp_path, 3) == ([] if mode == MODES[0] else [(3, "a", "delete")])


def _feed(spark: SparkSession, path: Path, version: int) -> list[tuple[Any, ...]]:
    lines = (path / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    files = [json.loads(line)["cdc"] for line in lines if "cdc" in json.loads(line)]
    assert all(not file["dataChange"] and file["path"].startswith("_change_data/cdc-") for file in files)
    rows = [row for file in files for row in pq.read_table(path / file["path"]).to_pylist()]
    return sorted(((r["id"], r["v"], r["_change_type"]) for r in rows), key=lambda r: (r[0], r[2] != "update_preimage"))


def test_columns_of_structs_are_set_one_by_one(spark: SparkSession, tmp_path: Path) -> None:
    schema = "id long, s struct<a: int, b: struct<c: string, d: int>>"
    table = _table(spark, tmp_path, [(1, (1, ("x", 2))), (2, None)], schema)
    table.update("id = 1", {"s.b.c": "'y'", "s.a": "s.a + 1"})
    assert [row[1].asDict(True) for row in _rows(table)[:1]] == [{"a": 2, "b": {"c": "y", "d": 2}}]
    source = spark.createDataFrame([(1, (7,))], "id long, s struct<a: int>")
    table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().execute()
    assert [row[1].asDict(True) for row in _rows(table)[:1]] == [{"a": 7, "b": {"c": "y", "d": 2}}]
    with pytest.raises(Invalid, match="both set"):
        table.update(None, {"s": "null", "s.a": "1"})
    with pytest.raises(UnknownColumn, match="nope"):
        table.update(None, {"s.nope": "1"})


def test_a_schema_evolves_in_the_same_commit(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(spark, tmp_path, [(1, "a"), (2, "b")], "id long, v string")
    source = spark.createDataFrame([(2, "B", 0.5), (3, "C", 1.5)], "id long, v string, w double")
    plan = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().withSchemaEvolution().plan()
    assert plan.schema_changes == ("new column w",)
    assert table.toDF().columns == ["id", "v"]
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").withSchemaEvolution()
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert table.version == 2
    assert sorted(map(tuple, table.toDF().collect())) == [(1, "a", None), (2, "B", 0.5), (3, "C", 1.5)]


@pytest.mark.parametrize("mode", MODES)
def test_constraints_hold_for_changed_rows_only(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    table = _table(spark, tmp_path, [(1, 5), (2, 6)], "id long, n int")
    table.addConstraint("small", "n < 10")
    with pytest.raises(ConstraintViolated, match="small"):
        table.update("id = 1", {"n": "n * 2"}, mode=mode)
    source = spark.createDataFrame([(7, 70)], "id long, n int")
    with pytest.raises(ConstraintViolated, match="small"):
        table.alias("t").merge(source.alias("s"), "t.id = s.id", mode=mode).whenNotMatchedInsertAll().execute()
    with pytest.raises(Invalid, match="n"):
        table.update("id = 1", {"n": "99999999999L"}, mode=mode)
    assert table.version == 2
    table.update("id = 1", {"n": "9"}, mode=mode)
    assert [row[:2] for row in _rows(table)] == [(1, 9), (2, 6)]


def test_generated_columns_follow_what_they_are_made_of(spark: SparkSession, tmp_path: Path) -> None:
    builder = DeltaTable.create(spark).location(str(tmp_path)).addColumn("id", "long")
    table = builder.addColumn("twice", "long", generatedAlwaysAs="id * 2").execute()
    table.append(spark.range(3))
    table.update("id = 2", {"id": "id + 10"})
    assert [row[:2] for row in _rows(table)] == [(0, 0), (1, 2), (12, 24)]
    with pytest.raises(ConstraintViolated, match="twice"):
        table.update("id = 1", {"twice": "5"})


def test_a_table_merges_into_itself_and_with_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(spark, tmp_path, [(i, "a") for i in range(5)], "id long, v string")
    own = table.toDF().where("id > 2").withColumn("v", F.lit("self"))
    table.alias("t").merge(own.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert [row[:3] for row in _rows(table)] == [(i, "self" if i > 2 else "a", i) for i in range(5)]
    empty = table.toDF().where("false")
    nothing = table.alias("t").merge(empty.alias("s"), "t.id = s.id")
    assert nothing.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute().version is None
    gone = table.alias("t").merge(empty.alias("s"), "t.id = s.id").whenNotMatchedBySourceDelete("t.id < 2").execute()
    assert gone.metrics["numTargetRowsDeleted"] == 2
    assert [row[0] for row in _rows(table)] == [2, 3, 4]


def test_keys_that_compare_otherwise_than_they_look(spark: SparkSession, tmp_path: Path) -> None:
    nan = float("nan")
    table = _table(spark, tmp_path, [(0.0, 1), (nan, 2), (None, 3), (5.0, 4)], "d double, n int")
    source = spark.createDataFrame([(-0.0,), (nan,), (None,)], "d double")
    met = table.alias("t").merge(source.alias("s"), "t.d = s.d").whenMatchedUpdate(set={"n": "t.n + 10"}).execute()
    assert met.metrics["numTargetRowsUpdated"] == 2
    safe = table.alias("t").merge(source.alias("s"), "t.d <=> s.d").whenMatchedUpdate(set={"n": "t.n + 10"}).execute()
    assert safe.metrics["numTargetRowsUpdated"] == 3
    assert sorted(row[1] for row in _rows(table)) == [4, 13, 21, 22]
    text = spark.createDataFrame([("5",)], "k string")
    cast = table.alias("t").merge(text.alias("s"), "t.d = s.k").whenMatchedDelete().execute()
    assert cast.metrics["numTargetRowsDeleted"] == 1


def test_a_plan_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(spark, tmp_path, [(i, "a") for i in range(10)], "id long, v string")
    before = sorted(p for p in tmp_path.rglob("*") if p.is_file())
    deleted = table.plan.delete("id < 3")
    assert deleted.rows == {"updated": 0, "deleted": 3, "inserted": 0, "copied": 0}
    assert "DELETE: 3 deleted" in str(deleted)
    updated = table.plan.update("id = 5", {"v": "'b'"}, mode="copy-on-write")
    assert updated.rows == {"updated": 1, "deleted": 0, "inserted": 0, "copied": 9}
    assert updated.bytes_written > 0
    source = spark.createDataFrame([(1, "x"), (99, "y")], "id long, v string")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    assert merge.plan().rows == {"updated": 1, "deleted": 0, "inserted": 1, "copied": 0}
    wide = table.alias("t").merge(source.alias("s"), "t.id > s.id").whenMatchedDelete()
    assert "up to 20 pairs of rows" in str(wide.plan())
    assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == before
    assert table.version == 1


@pytest.mark.everywhere
def test_restoring_brings_ids_back_and_never_hands_one_out_twice(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(spark, tmp_path, [(i, "a") for i in range(4)], "id long, v string")
    first = _rows(table)
    table.update("id = 1", {"v": "'b'"})
    table.append(spark.createDataFrame([(9, "z")], "id long, v string"))
    highest = max(row[2] for row in _rows(table))
    table.delete("id = 2")
    table.restoreToVersion(1)
    assert _rows(table) == first
    table.append(spark.createDataFrame([(10, "z")], "id long, v string"))
    assert max(row[2] for row in _rows(table)) > highest


def test_what_makes_no_sense_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(spark, tmp_path, [(1, "a")], "id long, v string")
    source: DataFrame = spark.createDataFrame([(1, "x")], "id long, v string")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll()
    with pytest.raises(Invalid, match="takes every row"):
        merge.whenMatchedDelete()
    with pytest.raises(Invalid, match="at least one"):
        table.merge(source, "true").execute()
    with pytest.raises(Invalid, match="mode is one of"):
        table.delete("id = 1", mode="fast")
    with pytest.raises(Invalid, match="needs the columns"):
        table.update("id = 1")
    plain = _table(spark, tmp_path / "plain", [(1, "a")], "id long, v string", enableDeletionVectors="false")
    with pytest.raises(Invalid, match="enableDeletionVectors=true"):
        plain.delete("id = 1", mode="merge-on-read")
    only = _table(spark, tmp_path / "only", [(1, "a")], "id long, v string", appendOnly="true")
    with pytest.raises(Invalid, match="appendOnly"):
        only.delete()
    assert only.alias("t").merge(source.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute().version is None


@pytest.mark.parametrize("by", ["update", "merge"])
def test_files_without_a_row_to_change_are_not_read_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr(matching, "LOOK_BYTES", 0)
    seen: list[matching.Looked] = []
    look = matching.looked
    monkeypatch.setattr(change, "looked", lambda *given: seen.append(look(*given)) or seen[-1])
    schema = "id long, k int, v string, d double, e string"
    # Every file has ids from 0 to 99, so bounds say nothing, and one has 42.
    files = [[0, 10 + n, 99] for n in range(3)] + [[0, 42, 99]]
    table = _table(spark, tmp_path, [(i, 0, "a", 0.5, "e") for i in files[0]], schema)
    for ids in files[1:]:
        table.append(spark.createDataFrame([(i, 0, "a", 0.5, "e") for i in ids], schema).coalesce(1))
    if by == "update":
        done = table.update("id = 42", {"v": "concat(v, e)"})
    else:
        source = spark.createDataFrame([(42, "s"), (43, "n")], "id long, v string")
        merge = (
            table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"v": "concat(t.v, t.e)"})
        )
        done = merge.whenNotMatchedInsert(values={"id": "s.id", "v": "s.v"}).execute()
    assert [len(one.work.target.files) for one in seen] == [1]
    assert [row[:2] for row in _rows(table, "id", "v") if row[0] == 42] == [(42, "ae")]
    assert [row[:2] for row in _rows(table, "id", "v") if row[1] == "n"] == ([] if by == "update" else [(43, "n")])
    assert 1 in (done.metrics.get("numUpdatedRows"), done.metrics.get("numTargetRowsUpdated"))


def test_a_condition_on_rows_that_stand_alone_is_asked_of_no_other(spark: SparkSession, tmp_path: Path) -> None:
    table = _table(spark, tmp_path, [(1, "no number"), (2, "2"), (3, "0")], "id long, v string")
    source = spark.createDataFrame([(1,)], "id long")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"v": "'met'"})
    merge.whenNotMatchedBySourceDelete("cast(v as int) > 1").execute()
    assert [row[:2] for row in _rows(table)] == [(1, "met"), (3, "0")]
