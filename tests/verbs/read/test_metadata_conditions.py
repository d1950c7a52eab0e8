"""Conditions on metadata columns: which files they read, what verbs make of them, and what becomes of them in races."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import DeltaTable, IcebergTable
from holdfast.errors import ConcurrentAppend, ConcurrentDeleteRead, Invalid, NoRowIdentity, UnknownColumn
from holdfast.index import pruning

COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.string())])
_fresh = count()


def table(files: int = 5, path: str | None = None, **properties: str) -> DeltaTable:
    """A table of ten rows per file; the id of a row is its `k`."""
    builder = DeltaTable.create(None).location(path or f"memory://by-metadata/{next(_fresh)}").addColumns(COLUMNS)
    asked = {"enableRowTracking": "true", "enableDeletionVectors": "true", **properties}
    for name, value in asked.items():
        builder = builder.property(f"delta.{name}", value)
    made = builder.execute()
    for n in range(files):
        made.append(pa.table({"k": range(n * 10, n * 10 + 10), "v": ["a"] * 10}))
    return made


def kept(t: Any, where: str, metadata: Any = ("_row_id", "_row_commit_version", "_row_index")) -> dict[str, int]:
    return {step.name: step.kept for step in t.explain(where=where, metadata=list(metadata)).steps}


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("_row_id = 5", 1),
        ("_row_id IN (5, 6, 44)", 2),
        ("_row_id BETWEEN 8 AND 21", 3),
        ("_row_id > 1000", 0),
        ("_row_id IS NULL", 0),
        ("NOT (_row_id < 40)", 1),
        ("_row_id = 5 OR k = 15", 2),
        ("_row_commit_version > 4", 1),
        ("_row_commit_version = 3", 1),
        ("_row_commit_version < 3", 2),
        ("_row_index < 10", 5),
        ("_row_index >= 10", 0),
    ],
)
def test_files_that_hold_no_such_row_are_not_read(where: str, files: int) -> None:
    told = table().explain(where=where, metadata=["_row_id", "_row_commit_version", "_row_index"])
    assert told.files_read == files
    steps = [step.name for step in told.steps]
    assert steps[:3] == ["by_partition", "by_metadata", "by_bounds"]
    assert steps[3:] == (["by_row_id"] if where in ("_row_id = 5", "_row_id IN (5, 6, 44)") else [])


def test_a_column_that_is_renamed_prunes_too() -> None:
    assert table().explain(where="rid = 5", metadata={"_row_id": "rid"}).files_read == 1


def test_a_condition_on_the_file_reads_that_file() -> None:
    t = table()
    file = t.toArrow(where="k = 12", metadata=["_file"])["_file"][0].as_py()
    told = t.explain(where=f"_file = '{file}'", metadata=["_file"])
    assert (told.files_read, told.steps[1].name, told.steps[1].detail) == (1, "by_metadata", "_file")
    assert t.toArrow(where=f"_file = '{file}'", metadata=["_file"])["k"].to_pylist() == list(range(10, 20))


def test_a_condition_on_a_partition_prunes_through_the_struct() -> None:
    path = f"memory://by-metadata/{next(_fresh)}"
    t = DeltaTable.create(None).location(path).addColumns(COLUMNS).partitionedBy("v").execute()
    t.append(pa.table({"k": [1, 2, 3], "v": ["a", "b", None]}))
    assert t.explain(where="_partition.v = 'b'", metadata=["_partition"]).files_read == 1


def scattered() -> DeltaTable:
    """A table whose rows were moved into files that overlap in their ids."""
    t = table(8)
    for n in range(6):
        t.update(f"k % 7 = {n}", {"v": f"'u{n}'"})
    return t


def test_row_maps_decide_where_ranges_overlap() -> None:
    t = scattered()
    steps = kept(t, "_row_id = 40")
    assert steps["by_metadata"] > 2
    assert steps["by_row_id"] == 1
    assert t.toArrow(where="_row_id = 40", metadata=["_row_id"])["v"].to_pylist() == ["u5"]
    assert kept(t, "_row_id IN (40, 41)")["by_row_id"] == 2
    assert "by_row_id" not in kept(t, "_row_id > 40")


def test_files_are_not_opened_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    t = scattered()
    monkeypatch.setattr(pruning, "MOST_FILES", 0)
    step = t.explain(where="_row_id = 40", metadata=["_row_id"]).steps[-1]
    assert (step.name, step.dropped) == ("by_row_id", 0)
    assert "more than 0 files would have to be opened" in step.detail
    assert t.toArrow(where="_row_id = 40", metadata=["_row_id"])["v"].to_pylist() == ["u5"]


def test_hidden_rows_that_are_asked_for_are_found_by_their_ids() -> None:
    t = scattered()
    found = t.toArrow(where="_row_id = 40", metadata=["_row_id", "_deleted"])
    assert sorted(zip(found["v"].to_pylist(), found["_deleted"].to_pylist(), strict=True)) == [
        ("a", True),
        ("u5", False),
    ]


def test_a_delete_by_ids_reads_their_files_and_no_other() -> None:
    t = table(20)
    done = t.delete("_row_id IN (5, 17, 18)")
    assert (done.metrics["numDeletedRows"], done.metrics["numScannedFiles"]) == (3, 2)
    assert not {5, 17, 18} & set(t.toArrow()["k"].to_pylist())


def test_files_whose_ids_all_go_are_removed_unread() -> None:
    t = table()
    plan = t.plan.delete("_row_id BETWEEN 10 AND 29")
    assert (plan.files, {s.how for s in plan.strategies}) == (0, {"removed"})
    done = t.delete("_row_id >= 10 AND _row_id < 30")
    assert (done.metrics["numDeletedRows"], done.metrics["numRemovedFiles"], done.metrics["numScannedFiles"]) == (
        20,
        2,
        0,
    )


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write", "auto"])
def test_updates_name_metadata_columns_in_conditions_and_values(mode: str) -> None:
    t = table()
    done = t.update("_row_id IN (1, 2) OR _row_commit_version = 5", {"v": "cast(_row_id AS string)"}, mode=mode)
    assert done.metrics["numUpdatedRows"] == 12
    changed = t.toArrow(where="v <> 'a'", metadata=["_row_id"])
    assert {(row["v"], row["_row_id"]) for row in changed.to_pylist()} == {(str(n), n) for n in (1, 2, *range(40, 50))}


def test_a_merge_by_id_prunes_by_the_ids_of_its_source() -> None:
    t = table(20)
    feed = pa.table({"_row_id": [21, 33, 999], "v": ["m1", "m2", "m3"]})
    merge = t.alias("t").merge(feed, "t._row_id = s._row_id").whenMatchedUpdate(set={"v": "s.v"})
    assert merge.plan().files == 2
    done = merge.execute()
    assert (done.metrics["numTargetRowsUpdated"], done.metrics["numTargetFilesScanned"]) == (2, 2)
    found = t.toArrow(where="v <> 'a'", metadata=["_row_id"])
    assert sorted(zip(found["_row_id"].to_pylist(), found["v"].to_pylist(), strict=True)) == [(21, "m1"), (33, "m2")]


def test_a_source_may_have_a_column_of_that_name_and_use_it_alone() -> None:
    t = table()
    feed = pa.table({"k": [3], "_row_id": [77]})
    t.alias("t").merge(feed, "t.k = s.k").whenMatchedUpdate(set={"v": "cast(_row_id AS string)"}).execute()
    assert t.toArrow(where="k = 3")["v"].to_pylist() == ["77"]


def test_a_merge_by_id_does_not_make_the_id_a_column() -> None:
    t = table()
    feed = pa.table({"_row_id": [3], "v": ["new"]})
    merge = t.alias("t").merge(feed, "t._row_id = s._row_id").whenMatchedUpdateAll()
    with pytest.raises(Invalid, match="would add a column _row_id"):
        merge.withSchemaEvolution().execute()
    t.alias("t").merge(feed, "t._row_id = s._row_id").whenMatchedUpdateAll().execute()
    assert t.toArrow(where="k = 3").to_pylist() == [{"k": 3, "v": "new"}]


def test_clauses_on_rows_that_stand_alone_name_them_too() -> None:
    t = table()
    merge = t.alias("t").merge(pa.table({"rid": [1]}), "t._row_id = s.rid")
    merge = merge.whenMatchedDelete().whenNotMatchedBySourceUpdate("_row_id > 47", {"v": "cast(t._row_id AS string)"})
    merge.execute()
    assert sorted(t.toArrow(where="v <> 'a'")["v"].to_pylist()) == ["48", "49"]
    assert 1 not in t.toArrow()["k"].to_pylist()


def test_a_column_of_the_table_wins() -> None:
    path = f"memory://by-metadata/{next(_fresh)}"
    t = DeltaTable.create(None).location(path).addColumns(pa.schema([("_row_id", pa.int64())])).execute()
    t.append(pa.table({"_row_id": [7, 8]}))
    t.delete("_row_id = 0")
    t.delete("_row_id = 7")
    assert t.toArrow()["_row_id"].to_pylist() == [8]


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.delete("_row_id = 5"),
        lambda t: t.update("k = 1", {"v": "cast(_row_commit_version AS string)"}),
        lambda t: t.alias("t").merge(pa.table({"rid": [1]}), "t._row_id = s.rid").whenMatchedDelete().execute(),
        lambda t: t.plan.delete("_row_id = 5"),
    ],
)
def test_ids_of_a_table_without_them_are_refused_with_how_to_have_them(change: Callable[[DeltaTable], Any]) -> None:
    t = plain()
    with pytest.raises(NoRowIdentity, match=r"needs row tracking.*enable it with enableRowTracking"):
        change(t)
    assert t.delete("_row_index < 3 AND _pos > 0").metrics["numDeletedRows"] == 10


def plain() -> DeltaTable:
    path = f"memory://by-metadata/{next(_fresh)}"
    builder = DeltaTable.create(None).location(path).addColumns(COLUMNS).property("holdfast.plain", "true")
    t = builder.property("delta.enableRowTracking", "false").execute()
    for n in range(5):
        t.append(pa.table({"k": range(n * 10, n * 10 + 10), "v": ["a"] * 10}))
    return t


def test_what_no_table_or_this_table_does_not_have_is_refused() -> None:
    with pytest.raises(Invalid, match="has no partition specs"):
        table(1).delete("_spec_id = 0")
    with pytest.raises(UnknownColumn):
        table(1).delete("_deleted")
    with pytest.raises(UnknownColumn):
        table(1).update("k = 1", {"_row_id": "5"})


def test_a_transaction_knows_the_ids_of_rows_that_were_there() -> None:
    t = table(2)
    with t.transaction() as both:
        both.append(pa.table({"k": [100], "v": ["new"]}))
        both.delete("_row_id IN (3, 4)")
        both.update("_row_id = 5", {"v": "'x'"})
        both.delete("_row_id = 5 AND v = 'x'")
    assert sorted(t.toArrow()["k"].to_pylist()) == [0, 1, 2, *range(6, 20), 100]


def test_a_transaction_makes_no_values_of_ids_that_are_made_up() -> None:
    t = table(2)
    with t.transaction() as both:
        both.append(pa.table({"k": [99], "v": ["a"]}))
        with pytest.raises(Invalid, match="known once it is committed"):
            both.update("_row_id >= 0", {"v": "cast(_row_id AS string)"})
    with t.transaction() as both:
        both.update("_row_id > 15", {"v": "cast(_row_id AS string)"})
        both.append(pa.table({"k": [100], "v": ["new"]}))
        both.update("_row_id < 2", {"v": "'low'"})
    found = {row["k"]: row["v"] for row in t.toArrow(where="v <> 'a'").to_pylist()}
    assert found == {0: "low", 1: "low", 16: "16", 17: "17", 18: "18", 19: "19", 99: "20", 100: "new"}


def ids_by_key(t: DeltaTable) -> dict[int, int]:
    found = t.toArrow(metadata=["_row_id"])
    return dict(zip(found["k"].to_pylist(), found["_row_id"].to_pylist(), strict=True))


@pytest.mark.parametrize("mine", ["_row_id IN (3, 14)", "_row_index = 3 AND _row_id < 20", "{file} AND _row_index = 3"])
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_rows_that_a_compaction_moved_are_deleted_where_they_are(mine: str, mode: str, meanwhile: Any) -> None:
    t = table(3)
    other = DeltaTable.forPath(None, t.toArrow(metadata=["_file"])["_file"][0].as_py().rpartition("/")[0])
    file = t.toArrow(where="k = 3", metadata=["_file"])["_file"][0].as_py()
    before = ids_by_key(t)
    gone = t.toArrow(where=(text := mine.format(file=f"_file = '{file}'")), metadata=["_row_id", "_row_index", "_file"])
    meanwhile(lambda: other.optimize().executeCompaction())
    t.delete(text, mode=mode)
    after = ids_by_key(t)
    assert after == {k: row_id for k, row_id in before.items() if k not in gone["k"].to_pylist()}
    assert len(after) < len(before)


def test_a_row_that_was_changed_meanwhile_is_a_conflict(meanwhile: Any) -> None:
    t = table(3)
    other = opened_again(t)
    meanwhile(lambda: other.update("k = 3", {"v": "'theirs'"}))
    with pytest.raises(ConcurrentDeleteRead) as caught:
        t.delete("_row_id = 3")
    assert caught.value.row_ids == (3,)


def test_rows_that_came_meanwhile_have_other_ids(meanwhile: Any) -> None:
    t = table(3, isolationLevel="Serializable")
    other = opened_again(t)
    meanwhile(lambda: other.append(pa.table({"k": [100], "v": ["theirs"]})))
    t.delete("_row_id = 3")
    assert sorted(t.toArrow()["k"].to_pylist()) == [k for k in (*range(30), 100) if k != 3]


def test_rows_that_came_meanwhile_and_would_have_been_taken_are_a_conflict(meanwhile: Any) -> None:
    t = table(3, isolationLevel="Serializable")
    other = opened_again(t)
    meanwhile(lambda: other.append(pa.table({"k": [100], "v": ["theirs"]})))
    with pytest.raises(ConcurrentAppend):
        t.delete("_row_id > 25")


def opened_again(t: DeltaTable) -> DeltaTable:
    return DeltaTable.forPath(None, t.toArrow(metadata=["_file"])["_file"][0].as_py().rpartition("/")[0])


def iceberg(tmp_path: Path, spark: SparkSession | None = None, **how: Any) -> IcebergTable:
    modes = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
    t = IcebergTable.create(
        spark, str(tmp_path / "catalog.db"), "a.t", COLUMNS, location=str(tmp_path / "t"), properties=modes, **how
    )
    for n in range(4):
        t.append(pa.table({"k": pa.array(range(n * 10, n * 10 + 10), pa.int64()), "v": ["a"] * 10}))
    return t


@pytest.mark.on_disk
def test_iceberg_tables_are_pruned_and_changed_alike(tmp_path: Path) -> None:
    t = iceberg(tmp_path)
    metadata = ["_row_id", "_last_updated_sequence_number", "_pos", "_spec_id", "_file"]
    file = t.toArrow(where="k = 12", metadata=["_file"])["_file"][0].as_py()
    told = {
        "_row_id = 5": 1,
        "_last_updated_sequence_number > 3": 1,
        "_pos > 9": 0,
        "_spec_id = 0": 4,
        "_spec_id = 1": 0,
        f"_file = '{file}'": 1,
    }
    for where, files in told.items():
        assert t.explain(where=where, metadata=metadata).files_read == files, where
    t.update("k % 3 = 0", {"v": "'u'"})
    assert t.explain(where="_row_id = 12", metadata=metadata).files_read == 1
    assert t.delete("_row_id IN (5, 12)").metrics["numDeletedRows"] == 2
    assert t.delete("_row_id IN (5, 12)").version is None
    merge = t.alias("t").merge(pa.table({"rid": [7, 33]}), "t._row_id = s.rid")
    assert merge.whenMatchedUpdate(set={"v": "'m'"}).execute().metrics["numTargetRowsUpdated"] == 2
    assert t.update("_spec_id = 0 AND _pos = 1", {"v": "'p'"}).metrics["numUpdatedRows"] > 0


@pytest.mark.on_disk
def test_partition_tuples_prune(tmp_path: Path) -> None:
    t = iceberg(tmp_path, partitionedBy=["truncate(10, k)"])
    told = t.explain(where="_partition.k_trunc = 20", metadata=["_partition"])
    assert told.files_read == 1
    assert t.toArrow(where="_partition.k_trunc = 20", metadata=["_partition"])["k"].to_pylist() == list(range(20, 30))


@pytest.mark.on_disk
def test_iceberg_tables_without_ids_say_what_to_do(tmp_path: Path) -> None:
    t = iceberg(tmp_path, formatVersion=2)
    with pytest.raises(NoRowIdentity, match=r"row_id needs row tracking.*3"):
        t.delete("_row_id = 5")
    assert t.delete("_pos = 5").metrics["numDeletedRows"] == 4


@pytest.mark.everywhere
def test_on_spark_verbs_take_metadata_columns_too(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table(4, path)
    t = DeltaTable.forPath(spark, path)
    told = t.explain(where="_row_id = 15", metadata=["_row_id"])
    assert told.files_read == 1
    assert t.delete("_row_id IN (5, 6)").metrics["numScannedFiles"] == 1
    t.update((F.col("_row_id") == 7) | (F.col("_row_commit_version") == 4), {"v": "cast(_row_id AS string)"})
    rows = spark.createDataFrame([(21, "m"), (999, "n")], "_row_id long, v string")
    merge = t.alias("t").merge(rows.alias("s"), "t._row_id = s._row_id").whenMatchedUpdate(set={"v": "s.v"})
    merge = merge.whenNotMatchedBySourceUpdate("t._row_id = 11", {"v": "concat('alone ', t._row_id)"})
    merge.execute()
    file = t.toArrow(where="k = 0", metadata=["_file"])["_file"][0].as_py()
    assert t.delete(f"_file = '{file}' AND _row_index < 2").metrics["numDeletedRows"] == 2
    found = {row.k: row.v for row in t.scan().collect()}
    expected = {k: "a" for k in range(40) if k not in (0, 1, 5, 6)}
    expected |= {7: "7", 11: "alone 11", 21: "m", **{k: str(k) for k in range(30, 40)}}
    assert found == expected
    assert [r.k for r in t.scan(where="_row_id = 35", metadata=["_row_id"]).collect()] == [35]


def test_on_spark_iceberg_ids_of_files_that_hide_rows_are_found(spark: SparkSession, tmp_path: Path) -> None:
    """The column of ids that a file stores has the name of the metadata column, and is null for fresh rows."""
    t = iceberg(tmp_path, spark)
    t.delete("k = 12")
    assert [r.k for r in t.scan(where="_row_id = 13", metadata=["_row_id"]).collect()] == [13]
    assert t.delete("_row_id = 13").metrics["numDeletedRows"] == 1
    t.update("_row_id IN (14, 25)", {"v": "'u'"})
    found = {r.k: r.v for r in t.scan(where="_row_id IN (13, 14, 25)", metadata=["_row_id"]).collect()}
    assert found == {14: "u", 25: "u"}
