"""Compaction that follows a write: only where it is asked for, within its budget, and never at the write's cost."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.engines.local.engine import LocalEngine
from holdfast.env import system
from holdfast.errors import Invalid
from holdfast.formats.delta.state import load
from holdfast.plan.maintain.auto import MAX_BYTES, MAX_SECONDS, MIN_FILES, Budget, budget_of
from holdfast.storage.open import open_location
from holdfast.verbs.dml.delete_update import ExecutionContext
from holdfast.verbs.maintain.optimize import limits_of, run_bins
from holdfast.verbs.open.delta import open_delta

IDS = ["_row_id", "_row_commit_version"]
ON = "delta.autoOptimize.autoCompact"
_fresh = count()


def _table(properties: dict[str, str], *, layout: str = "") -> DeltaTable:
    builder = DeltaTable.create(None).location(f"memory://auto/{next(_fresh)}")
    builder = builder.addColumn("id", "long").addColumn("p", "string")
    for name, value in properties.items():
        builder = builder.property(name, value)
    match layout:
        case "partitioned":
            builder = builder.partitionedBy("p")
        case "clustered":
            builder = builder.clusterBy("id")
        case _:
            pass
    return builder.execute()


def _append(table: DeltaTable, n: int, p: str = "a") -> Any:
    return table.append(pa.table({"id": pa.array([n], pa.int64()), "p": [p]}))


def _files(table: DeltaTable) -> int:
    return int(table.detailArrow().column("numFiles").to_pylist()[0])


def _rows(table: DeltaTable) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.toArrow(metadata=IDS).sort_by("_row_id").to_pylist()
    return found


@pytest.mark.parametrize("asked", ["true", "auto"])
@pytest.mark.parametrize("layout", ["", "clustered"])
def test_small_files_are_written_together_once_there_are_enough(asked: str, layout: str) -> None:
    table = _table({ON: asked, MIN_FILES: "4"}, layout=layout)
    done = [_append(table, n) for n in range(4)]
    assert [d.auto.versions for d in done] == [(), (), (), (done[3].version + 1,)]
    assert done[3].auto.metrics["numRemovedFiles"] == 4
    assert done[3].auto.trouble is None
    assert _files(table) == 1
    assert [(row["id"], row["_row_id"], row["_row_commit_version"]) for row in _rows(table)] == [
        (n, n, n + 1) for n in range(4)
    ]
    told = table.historyArrow(1).to_pylist()[0]
    assert (told["operation"], dict(told["operationParameters"])["auto"]) == ("OPTIMIZE", "true")


def test_nothing_follows_where_it_is_not_asked_for() -> None:
    table = _table({MIN_FILES: "2"})
    assert [_append(table, n).auto for n in range(3)] == [None] * 3
    assert _files(table) == 3


def test_partitions_are_looked_at_by_themselves() -> None:
    table = _table({ON: "true", MIN_FILES: "3"}, layout="partitioned")
    done = [_append(table, n, p) for n, p in enumerate("aababb")]
    assert [bool(d.auto.versions) for d in done] == [False, False, False, True, False, True]
    assert _files(table) == 2


def test_changes_of_rows_are_followed_too() -> None:
    table = _table({MIN_FILES: "3"})
    for n in range(3):
        _append(table, n)
    table.setProperties({ON: "true"})
    assert table.update("id = 1", {"p": "'u'"}).auto.versions
    for n in range(3, 6):
        assert _append(table, n) is not None
    merge = table.alias("t").merge(pa.table({"id": [5, 9], "p": ["m", "n"]}), "t.id = s.id")
    assert merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute().auto is not None
    assert table.delete("id = 0").auto is not None
    assert [row["id"] for row in _rows(table)] == [1, 2, 3, 4, 5, 9]


def test_bytes_bound_what_is_written() -> None:
    table = _table({ON: "true", MIN_FILES: "2", MAX_BYTES: "1"})
    for n in range(4):
        assert _append(table, n).auto.versions == ()
    assert _files(table) == 4


def test_bins_begin_only_in_time() -> None:
    table = _table({}, layout="partitioned")
    for n, p in enumerate("aabb"):
        _append(table, n, p)
    bins = table.optimize().plan().bins
    late = iter([False, True])
    state = load(open_location(table.detailArrow().column("location").to_pylist()[0]))
    done = run_bins(
        open_delta(state), bins, ExecutionContext(LocalEngine(), system(), "UTC"), is_over=lambda: next(late)
    )
    assert (len(done.versions), done.left) == (1, 1)
    assert limits_of(open_delta(state)).target_rows > 1


def test_a_write_stands_whatever_follows_it() -> None:
    table = _table({ON: "true", MIN_FILES: "many"})
    done = _append(table, 1)
    assert done.version == 1
    assert "many" in done.auto.trouble
    assert [row["id"] for row in _rows(table)] == [1]


def test_properties_say_what_they_may_be() -> None:
    with pytest.raises(Invalid, match="true, false or auto"):
        _table({ON: "sometimes"})
    assert budget_of({ON: "false", "delta.autoOptimize": "true"}) is None
    assert budget_of({"delta.autoOptimize": "true"}) == Budget()
    assert budget_of({ON: "auto", MAX_SECONDS: "5"}) == Budget(max_seconds=5)
    with pytest.raises(Invalid, match="at least 1"):
        budget_of({ON: "true", MAX_BYTES: "0"})


def test_optimized_writes_make_few_files(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(100).repartition(5)
    for asked, files in (("false", 5), ("true", 1)):
        builder = DeltaTable.create(spark).location(str(tmp_path / asked)).addColumn("id", "long")
        table = builder.property("delta.autoOptimize.optimizeWrite", asked).execute()
        table.append(rows)
        assert _files(table) == files
