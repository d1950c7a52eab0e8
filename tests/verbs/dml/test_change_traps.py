"""Traps that other engines fell into when they changed rows; each has an issue of theirs behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast import DeltaTable
from holdfast.engines.spark.dml import change
from holdfast.errors import AmbiguousMatch, ConstraintViolated, Invalid
from holdfast.parquet.write import WriteSpec

IDS = ["_row_id", "_row_commit_version"]


def _table(path: Path, rows: int = 4, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(None).location(str(path)).addColumn("id", "long").addColumn("v", "string")
    for name, value in properties.items():
        builder = builder.property("delta." + name, value)
    table = builder.execute()
    table.append(pa.table({"id": pa.array(range(rows), pa.int64()), "v": ["a"] * rows}))
    return table


def _rows(table: DeltaTable) -> list[tuple[Any, ...]]:
    found = table.toArrow(metadata=IDS).sort_by("_row_id")
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def _actions(path: Path, version: int, kind: str) -> list[dict[str, Any]]:
    lines = (path / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    return [action[kind] for action in map(json.loads, lines) if kind in action]


def test_a_removed_file_carries_the_vector_it_had(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.delete("id = 0")
    table.delete("id = 1")
    (added,) = _actions(tmp_path, 2, "add")
    (removed,) = _actions(tmp_path, 3, "remove")
    assert removed["deletionVector"] == added["deletionVector"]
    assert (removed["baseRowId"], removed["defaultRowCommitVersion"]) == (0, 1)
    table.delete()
    (last,) = _actions(tmp_path, 4, "remove")
    assert last["deletionVector"]["cardinality"] == 2
    assert _rows(table) == []


@pytest.mark.parametrize("condition", ["id IN (NULL, 2)", "id = 2 OR id = NULL", "id = 2 OR NULL"])
def test_a_condition_that_is_null_of_other_rows_takes_none_of_them(tmp_path: Path, condition: str) -> None:
    table = _table(tmp_path)
    assert table.delete(condition).metrics["numDeletedRows"] == 1
    assert [row[0] for row in _rows(table)] == [0, 1, 3]


def test_what_cannot_be_done_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    table = _table(tmp_path, enableDeletionVectors="false")
    before = sorted(tmp_path.rglob("*"))
    source = pa.table({"id": pa.array([1], pa.int64()), "v": ["x"]})
    merge = table.alias("t").merge(source, "t.id = s.id", mode="merge-on-read").whenMatchedUpdateAll()
    with pytest.raises(Invalid, match="enableDeletionVectors"):
        merge.execute()
    with pytest.raises(Invalid, match="enableDeletionVectors"):
        table.update("id = 1", {"v": "'x'"}, mode="merge-on-read")
    assert [p for p in sorted(tmp_path.rglob("*")) if p.is_file()] == [p for p in before if p.is_file()]


def test_strategies_mix_in_one_table(tmp_path: Path) -> None:
    table = _table(tmp_path, rows=6)
    table.delete("id = 0", mode="copy-on-write")
    source = pa.table({"id": pa.array([1, 9], pa.int64()), "v": ["x", "y"]})
    table.alias("t").merge(
        source, "t.id = s.id", mode="merge-on-read"
    ).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    table.update("id = 2", {"v": "'z'"}, mode="copy-on-write")
    table.delete("id = 9", mode="merge-on-read")
    kept = [(i, "a", i, 1) for i in (3, 4, 5)]
    assert _rows(table) == [(1, "x", 1, 3), (2, "z", 2, 4), *kept]


def test_a_row_that_comes_again_is_another_row(tmp_path: Path) -> None:
    table = _table(tmp_path)
    table.delete("id = 3")
    table.append(pa.table({"id": pa.array([3], pa.int64()), "v": ["a"]}))
    again = _rows(table)[-1]
    assert again[:2] == (3, "a")
    assert again[2] == 4
    assert again[3] == 3


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_replacing_rows_by_any_condition_keeps_the_others(tmp_path: Path, vectors: str) -> None:
    table = _table(tmp_path, rows=5, enableDeletionVectors=vectors)
    rows = pa.table({"id": pa.array([30, 40], pa.int64()), "v": ["n", "n"]})
    with pytest.raises(ConstraintViolated, match="replaceWhere"):
        table.overwrite(pa.table({"id": pa.array([1], pa.int64()), "v": ["n"]}), replaceWhere="id >= 3")
    assert table.version == 1
    done = table.overwrite(rows, replaceWhere="id >= 3")
    assert (done.metrics["numDeletedRows"], done.metrics["numOutputRows"]) == (2, 2)
    found = _rows(table)
    assert found[:3] == [(i, "a", i, 1) for i in range(3)]
    assert [row[:2] for row in found[3:]] == [(30, "n"), (40, "n")]
    assert all(row[2] > 4 and row[3] == 2 for row in found[3:])


def test_columns_may_be_called_as_anything(tmp_path: Path) -> None:
    names = ["id", "index", "version", "target.id", "_change_type"]
    builder = DeltaTable.create(None).location(str(tmp_path)).property("delta.columnMapping.mode", "name")
    for name in names:
        builder = builder.addColumn(name, "long")
    table = builder.execute()
    table.append(pa.table({name: pa.array([1, 2], pa.int64()) for name in names}))
    table.update("`index` = 1 AND version = 1 AND id = 1", {"version": "id + `target.id` + 8"})
    table.delete("`target.id` = 2")
    assert table.toArrow(metadata=IDS).to_pylist() == [{**dict.fromkeys(names, 1), "version": 10, IDS[0]: 0, IDS[1]: 2}]


def test_setting_a_column_to_what_it_is_counts_as_a_change(tmp_path: Path) -> None:
    table = _table(tmp_path, rows=2)
    table.update("id = 1", {"v": "v"})
    assert _rows(table) == [(0, "a", 0, 1), (1, "a", 1, 2)]


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_a_table_of_many_batches_merges_into_itself(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    rows = 100_000
    _table(tmp_path, rows=rows)
    table = DeltaTable.forPath(spark, tmp_path)
    own = table.toDF().where("id % 2 = 0").selectExpr("id", "concat('s', id) AS v")
    merge = table.alias("t").merge(own.alias("s"), "t.id = s.id", mode=mode)
    done = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert done.metrics["numTargetRowsUpdated"] == rows // 2
    assert done.metrics["numTargetRowsInserted"] == 0
    found = table.scan(metadata=IDS).selectExpr(
        "count(*) n",
        "count(DISTINCT _row_id) ids",
        "count_if(_row_id = id) kept",
        "count_if(v = if(id % 2 = 0, concat('s', id), 'a')) right",
        "count_if(_row_commit_version = if(id % 2 = 0, 2, 1)) versions",
    )
    assert tuple(found.collect()[0]) == (rows,) * 5


def test_matches_of_one_row_that_land_in_two_tasks_are_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are dealt out to tasks one by one after the join, so the two matches never share one."""

    def dealt(spark: SparkSession, frame: DataFrame, spec: WriteSpec) -> DataFrame:
        return frame.coalesce(1).repartition(2)

    monkeypatch.setattr(change, "_placed", dealt)
    _table(tmp_path, rows=1)
    table = DeltaTable.forPath(spark, tmp_path)
    source = spark.createDataFrame([(0, "one"), (0, "two")], "id long, v string")
    with pytest.raises(AmbiguousMatch, match="one"):
        table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().execute()
    assert table.version == 1
