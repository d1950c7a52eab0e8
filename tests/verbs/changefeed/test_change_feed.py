"""The change data feed: its rules, and its rows against what another engine reads from the same table."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.errors import Invalid, UnknownVersion

fresh = itertools.count()
FEED = {"delta.enableChangeDataFeed": "true"}


def table(path: str | None = None, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(None).location(path or f"memory://feeds/{next(fresh)}")
    builder = builder.addColumn("id", "long").addColumn("v", "string")
    for name, value in properties.items():
        builder = builder.property(name, value)
    return builder.execute()


def values(*rows: tuple[int, str]) -> pa.Table:
    return pa.table({"id": pa.array([i for i, _ in rows], pa.int64()), "v": [v for _, v in rows]})


def told(t: DeltaTable, start: Any, end: Any = None) -> list[tuple[Any, ...]]:
    return [tuple(row.values())[:4] for row in t.changeFeed(start, end).toArrow().to_pylist()]


@pytest.mark.parametrize("plain", ["true", "false"])
def test_another_engine_reads_the_same_feed(tmp_path: Path, plain: str) -> None:
    tracked = "false" if plain == "true" else "true"
    t = table(
        str(tmp_path),
        **FEED,
        **{"holdfast.plain": plain, "delta.enableRowTracking": tracked, "delta.enableDeletionVectors": "false"},
    )
    t.append(values((1, "a"), (2, "b"), (3, "c")))
    t.update("id = 1", {"v": "'x'"})
    source = values((2, "y"), (9, "new"))
    t.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    t.delete("id = 3")
    t.optimize().executeCompaction()
    t.overwrite(values((7, "z")))
    t.delete()
    theirs = deltalake.DeltaTable(str(tmp_path)).load_cdf(starting_version=0)
    read = pa.table(theirs).select(["id", "v", "_change_type", "_commit_version"])
    assert sorted(told(t, 0)) == sorted(tuple(row.values()) for row in read.to_pylist())
    assert len(told(t, 0)) == 14


def test_vectors_are_the_feed_where_there_are_no_change_files() -> None:
    t = table(**FEED)
    t.append(values((1, "a"), (2, "b"), (3, "c")))
    t.delete("id = 1")
    t.delete("id = 2")
    t.restoreToVersion(2)
    t.restoreToVersion(1)
    assert told(t, 2) == [
        (1, "a", "delete", 2),
        (2, "b", "delete", 3),
        (2, "b", "insert", 4),
        (1, "a", "insert", 5),
    ]


def test_a_merge_that_changed_nothing_is_not_in_the_feed(tmp_path: Path) -> None:
    t = table(str(tmp_path), **FEED)
    t.append(values((1, "a")))
    log = tmp_path / "_delta_log"
    (first,) = [line for line in (log / f"{1:020}.json").read_text().splitlines() if '"add"' in line]
    counts = '"numTargetRowsInserted":"0","numTargetRowsUpdated":"0","numTargetRowsDeleted":"0"'
    info = f'{{"commitInfo":{{"operation":"MERGE","operationParameters":{{}},"operationMetrics":{{{counts}}}}}}}'
    (log / f"{2:020}.json").write_text("\n".join([info, first.replace("part-", "./part-")]))
    assert told(t, 2) == []


def test_a_feed_that_was_not_enabled_is_refused_by_version() -> None:
    t = table()
    t.append(values((1, "a")))
    with pytest.raises(Invalid, match=r"not enabled at version 0.*changes\(\) needs no feed"):
        t.changeFeed(0)
    t.setProperties(FEED)
    t.append(values((2, "b")))
    assert told(t, 2) == [(2, "b", "insert", 3)]
    with pytest.raises(Invalid, match="not enabled at version 1"):
        t.changeFeed(1)
    t.setProperties({"delta.enableChangeDataFeed": "false"})
    assert told(t, 2, 3) == [(2, "b", "insert", 3)]
    with pytest.raises(Invalid, match="not enabled at version 4"):
        t.changeFeed(2)


def test_versions_outside_of_the_log() -> None:
    t = table(**FEED)
    t.append(values((1, "a")))
    with pytest.raises(UnknownVersion, match="newest version is 1"):
        t.changeFeed(2)
    with pytest.raises(UnknownVersion, match="not there yet"):
        t.changeFeed(3)
    with pytest.raises(Invalid, match="end is before the start"):
        t.changeFeed(1, 0)
    assert t.changeFeed(0, 99).endVersion == 1
    with pytest.raises(Invalid, match=r"no row ids to apply it by: use changes\(\)"):
        t.changeFeed(0).applyChanges(table())
