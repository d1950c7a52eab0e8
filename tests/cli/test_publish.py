"""`holdfast publish`, to an Iceberg table and back to a Delta table."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from holdfast import DeltaTable
from tests.cli.conftest import Run

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


def test_a_table_goes_over_and_back(run: Run, tmp_path: Path) -> None:
    here, catalog = tmp_path / "here", tmp_path / "cat.db"
    table = DeltaTable.create(None).location(str(here)).addColumns(ROWS.schema).execute()
    table.append(ROWS)
    there = ["--to", "shop.t", "--to-catalog", catalog]
    assert "has no table shop.t" in run("publish", here, *there, code=1).stderr
    first = run("publish", here, *there, "--create", "--partition-by", "bucket(2, id)").stdout
    assert "versions 0 to 1 published as version" in first
    assert "3 rows inserted" in first
    assert "nothing to publish" in run("publish", here, *there, "--create").stdout
    table.delete("id = 2")
    published = json.loads(run("publish", here, *there, "--json").stdout)
    assert (published["versions"], published["deleted"]) == ([2, 2], 1)
    back = ["publish", "shop.t", "--catalog", catalog, "--to", tmp_path / "back"]
    assert "2 rows inserted" in run(*back, "--create").stdout
    assert "nothing to publish" in run(*back).stdout
    assert "2 rows inserted" in run(*back, "--afresh").stdout
    assert DeltaTable.forPath(None, tmp_path / "back").toArrow().num_rows == 2
    assert "--create too" in run("publish", here, *there, "--partition-by", "id", code=2).stderr
