"""Changes of one table replayed into another, by row id and by keys: once, whatever overlaps or is repeated."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.errors import Invalid, NoRowIdentity

fresh = itertools.count()
PLAIN = {"holdfast.plain": "true", "delta.enableRowTracking": "false", "delta.enableDeletionVectors": "false"}


def table(path: str | None = None, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(None).location(path or f"memory://replays/{next(fresh)}")
    builder = builder.addColumn("id", "long").addColumn("v", "string")
    for name, value in properties.items():
        builder = builder.property(name, value)
    return builder.execute()


def values(*rows: tuple[int, str]) -> pa.Table:
    return pa.table({"id": pa.array([i for i, _ in rows], pa.int64()), "v": [v for _, v in rows]})


def rows(t: DeltaTable, columns: tuple[str, ...] = ("id", "v")) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in t.toArrow(columns=list(columns)).to_pylist())


def source() -> DeltaTable:
    t = table()
    t.append(values((1, "a"), (2, "b"), (3, "c")))
    t.update("id = 1", {"v": "'x'"})
    t.delete("id = 3")
    t.append(values((4, "d")))
    return t


@pytest.mark.parametrize("keys", [None, ["id"]])
@pytest.mark.parametrize("kind", ["min-delta", "full-delta"])
def test_steps_repeats_and_overlaps_come_to_the_same(keys: list[str] | None, kind: str) -> None:
    t, copy = source(), table()
    t.changes(0, 1, kind=kind).applyChanges(copy, keys)
    assert rows(copy) == [(1, "a"), (2, "b"), (3, "c")]
    t.changes(0, 2, kind=kind).applyChanges(copy, keys)
    assert rows(copy) == [(1, "x"), (2, "b"), (3, "c")]
    done = t.changes(4, kind=kind).applyChanges(copy, keys)
    assert rows(copy) == rows(t), "what a change set leaves out is caught up with"
    assert done.version == copy.version
    for start in range(5):
        assert t.changes(start, kind=kind).applyChanges(copy, keys).version is None
    assert copy.version == done.version


def test_upserts_and_appends_delete_nothing_unless_asked_to() -> None:
    t, upserts, deletes, inserts = source(), table(), table(), table()
    for copy in (upserts, deletes, inserts):
        t.changes(0, 1).applyChanges(copy, ["id"])
    t.changes(2, kind="upsert").applyChanges(upserts, ["id"])
    assert rows(upserts) == [(1, "x"), (2, "b"), (3, "c"), (4, "d")]
    t.changes(2, kind="upsert", includeDeleted=True).applyChanges(deletes, ["id"])
    assert rows(deletes) == rows(t)
    t.changes(2, kind="append-only").applyChanges(inserts, ["id"])
    assert rows(inserts) == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]


def test_a_key_that_changes_takes_its_row_along() -> None:
    t, copy = table(), table()
    t.append(values((1, "a"), (2, "b")))
    seen = t.changes(0)
    seen.applyChanges(copy, ["id"])
    t.update(None, {"id": "3 - id"})
    t.changes(resume=seen.resumeToken).applyChanges(copy, ["id"])
    assert rows(copy) == [(1, "b"), (2, "a")]


def test_new_columns_come_along() -> None:
    t, copy = source(), table()
    t.changes(0).applyChanges(copy)
    t.addColumns([("w", "double")])
    t.update("id = 2", {"w": "1.5"})
    t.changes(0).applyChanges(copy)
    assert rows(copy, ("id", "v", "w")) == rows(t, ("id", "v", "w"))


def test_a_table_without_ids_is_replayed_by_keys() -> None:
    t, copy = table(**PLAIN), table()
    t.append(values((1, "a"), (2, "b")))
    with pytest.raises(NoRowIdentity, match=r"had no ids in these versions.*keys="):
        t.changes(0).applyChanges(copy)
    t.update("id = 1", {"v": "'x'"})
    t.optimize().executeCompaction()
    t.changes(0, kind="min-delta", keys=["id"]).applyChanges(copy, ["id"])
    assert rows(copy) == rows(t)


def test_rows_of_other_making_are_not_guessed_at() -> None:
    t, copy = source(), table()
    copy.append(values((1, "mine")))
    with pytest.raises(Invalid, match="has rows, but no column _source_row_id"):
        t.changes(0).applyChanges(copy)
    with pytest.raises(Invalid, match="to the table itself"):
        t.changes(0).applyChanges(t)
    t.changes(0).applyChanges(copy, ["id"])
    assert rows(copy) == rows(t)


def test_two_sources_are_told_apart() -> None:
    one, two, copy = source(), table(), table()
    two.append(values((7, "q")))
    one.changes(0).applyChanges(copy, ["id"])
    two.changes(0).applyChanges(copy, ["id"])
    assert rows(copy) == [*rows(one), (7, "q")]


@pytest.mark.everywhere
def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    local = table(str(tmp_path / "source"))
    local.append(values((1, "a"), (2, "b"), (3, "c")))
    local.changes(0).applyChanges(table(str(tmp_path / "copy")))
    local.update("id = 1", {"v": "'x'"})
    local.delete("id = 3")
    t, copy = (DeltaTable.forPath(spark, tmp_path / name) for name in ("source", "copy"))
    assert t.changes(1).applyChanges(copy).metrics["numTargetRowsDeleted"] == 1
    assert t.changes(1).applyChanges(copy).version is None
    assert rows(copy) == rows(t) == [(1, "x"), (2, "b")]
