"""Automatic compaction after a change of an Iceberg table, where the table has it enabled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast.plan.maintain.auto import MIN_FILES
from holdfast.table.iceberg import IcebergTable

ON = "delta.autoOptimize.autoCompact"
COLUMNS = pa.schema([("k", pa.int64()), ("v", pa.int64())])
Change = Callable[[Any], Any]


def _rows(*keys: int) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "v": 0} for k in keys], COLUMNS)


def _upsert(table: Any) -> Any:
    merge = table.alias("t").merge(_rows(1, 9), "t.k = source.k")
    return merge.whenMatchedUpdate(set={"v": "7"}).whenNotMatchedInsertAll().execute()


CHANGES: dict[str, tuple[Change, set[int]]] = {
    "append": (lambda t: t.append(_rows(9)), {0, 1, 2, 3, 9}),
    "update": (lambda t: t.update("k = 1", {"v": "7"}), {0, 1, 2, 3}),
    "delete": (lambda t: t.delete("k = 1"), {0, 2, 3}),
    "merge": (_upsert, {0, 1, 2, 3, 9}),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_small_files_are_written_together_after_a_change(tmp_path: Path, change: str) -> None:
    properties = {ON: "true", MIN_FILES: "3"}
    table = IcebergTable.create(
        None, tmp_path / "catalog.db", "db.t", COLUMNS, formatVersion=3, properties={**properties, ON: "false"}
    )
    for k in range(4):
        assert table.append(_rows(k)).auto is None
    table.setProperties(properties)
    before = {row["k"]: row["_row_id"] for row in table.toArrow(metadata=["_row_id"]).to_pylist()}

    run, keys = CHANGES[change]
    done = run(table)

    assert done.auto.trouble is None
    assert len(done.auto.versions) == 1
    assert len(set(table.toArrow(metadata=["_file"])["_file"].to_pylist())) == 1
    after = {row["k"]: row["_row_id"] for row in table.toArrow(metadata=["_row_id"]).to_pylist()}
    assert after.keys() == keys
    assert {k: after[k] for k in keys & before.keys()} == {k: before[k] for k in keys & before.keys()}
