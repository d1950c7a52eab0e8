"""Indexes of Iceberg tables: `lookup` gives the rows of a scan, whatever happened to the table since."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from holdfast import IcebergTable, between
from holdfast.errors import Conflict, Invalid, NoRowIdentity, Unsupported
from holdfast.formats.iceberg.history.resurrected_rows import why_rows_may_be_back
from tests.formats.iceberg.equality_deletes import commit_equality_delete
from tests.support.depth import DEPTH

ROWS = pa.schema([("id", pa.int64()), ("v", pa.string()), ("tags", pa.list_(pa.int32()))])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": [f"v{i % 4}" for i in ids], "tags": [[i] for i in ids]}, ROWS)


def make_table(path: Path, version: int = 3, **how: Any) -> IcebergTable:
    table = IcebergTable.create(None, path / "c.db", "db.t", ROWS, formatVersion=version, **how)
    table.append(rows(*range(20)))
    return table


def row_dicts(arrow: pa.Table) -> list[str]:
    return sorted(map(str, arrow.to_pylist()))


def compare(table: IcebergTable) -> None:
    for i in (0, 3, 7, 19, 25, 99):
        expected = table.toArrow(where=f"id = {i}", metadata=["_row_id"])
        assert row_dicts(table.lookup(id=i, metadata=["_row_id"])) == row_dicts(expected), i
    assert row_dicts(table.lookup(id=between(5, 8), v="v1")) == row_dicts(
        table.toArrow(where="id BETWEEN 5 AND 8 AND v = 'v1'")
    )
    assert row_dicts(table.lookup(v=["v0", None])) == row_dicts(table.toArrow(where="v = 'v0' OR v IS NULL"))


def test_lookups(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    compare(table)
    before = table.version
    info = table.createIndex("id")
    assert (info.name, info.columns, info.version, info.entries) == ("id", ("id",), 1, 20)
    assert table.version == before, "no snapshot"
    assert table.createIndex(["v", "id"], name="both", kind="btree").columns == ("v", "id")
    table.createIndex("v", kind="bitmap")
    compare(table)
    assert table.lookup(id=3, columns=["tags"]).to_pylist() == [{"tags": [3]}]
    assert sorted(one.name for one in table.indexes()) == ["both", "id", "v"]
    assert table.verifyIndex("both").is_right
    assert table.dropIndex("both")
    assert not table.dropIndex("both", ifExists=True)
    assert table.check().clean


@pytest.mark.parametrize("seed", range(3 * DEPTH))
def test_a_lookup_is_a_scan_whatever_happened(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    table = make_table(tmp_path, partitionedBy=[(), ("v",), ("bucket(3, id)",)][seed % 3])
    table.createIndex("id")
    table.createIndex("v", kind="bitmap")
    snapshots = [table.version]
    for step in range(7):
        match rng.randrange(7):
            case 0:
                table.append(rows(*(rng.randrange(30) for _ in range(4))))
            case 1:
                table.update(f"id = {rng.randrange(20)}", {"id": "id + 1"}, mode=rng.choice(["merge-on-read", None]))
            case 2:
                table.delete(f"id = {rng.randrange(20)}", mode="merge-on-read")
            case 3:
                table.optimize(targetRows=50).executeCompaction()
            case 4:
                table.restoreToVersion(rng.choice(snapshots))
            case 5:
                table.refreshIndex("id")
            case _:
                table.rebuildIndex("v")
        snapshots.append(table.version)
        compare(table)
        assert table.verifyIndex("id").is_right, step
    old = rng.choice(snapshots)
    assert row_dicts(table.lookup(id=7, version=old)) == row_dicts(table.toArrow(where="id = 7", version=old))
    assert row_dicts(IcebergTable.load(None, tmp_path / "c.db", "db.t").lookup(id=7)) == row_dicts(
        table.toArrow(where="id = 7")
    )


def test_an_index_follows_its_column_and_no_other(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.createIndex("id")
    assert table.lookup(id=3).num_rows == 1
    table.renameColumn("id", "key")
    table.addColumns({"id": "long"})
    assert table.lookup(key=3).num_rows == 1
    assert table.lookup(id=3).num_rows == 0
    assert table.indexes()[0].columns == ("key",)
    table.dropColumn("key")
    assert "gone" in str(table.indexes()[0].unusable)
    with pytest.raises(Invalid, match="gone"):
        table.rebuildIndex("id")


def test_only_what_was_written_is_indexed_again(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.createIndex("id")
    assert table.refreshIndex("id").version == 1, "nothing to do"
    table.append(rows(50))
    table.optimize().executeCompaction()
    info = table.refreshIndex("id")
    assert (info.entries, info.segments) == (21, 2)
    state = table.handle.newest()
    assert state.entry is not None
    assert why_rows_may_be_back(state, 1) is None
    catalog = load_catalog("holdfast", type="sql", uri=f"sqlite:///{tmp_path}/c.db")
    assert "holdfast.index.id" in catalog.load_table("db.t").properties
    table.restoreToVersion(state.metadata.snapshots[0].snapshot_id)
    assert "RESTORE" in str(why_rows_may_be_back(table.handle.newest(), 1))
    commit_equality_delete(table, pa.table({"id": [3]}))
    assert table.lookup(id=3).num_rows == 0
    with pytest.raises(Unsupported, match="by value"):
        table.refreshIndex("id")
    table.purge()
    table.refreshIndex("id")
    assert table.verifyIndex("id").is_right


def test_what_cannot_be_indexed(tmp_path: Path) -> None:
    table = make_table(tmp_path, 2)
    with pytest.raises(NoRowIdentity, match="version 3"):
        table.createIndex("id")
    assert table.lookup(id=3).num_rows == 1
    table.upgrade()
    table.createIndex("id")
    with pytest.raises(Invalid, match="already"):
        table.createIndex("id")
    with pytest.raises(Unsupported, match="vector"):
        table.createIndex("id", kind="vector", name="x")
    with pytest.raises(Invalid, match="no index"):
        table.refreshIndex("nothing")
    state = table.handle.newest()
    with pytest.raises(Conflict, match="meanwhile"):
        table.handle.registry.register("id", None, None)
    assert table.handle.newest().metadata_path == state.metadata_path
    with pytest.raises(Invalid, match="metadata file"):
        IcebergTable.forMetadata(None, state.metadata_path).createIndex("v")


def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    make_table(tmp_path)
    table = IcebergTable.load(spark, tmp_path / "c.db", "db.t")
    table.createIndex("id")
    table.update("id = 4", {"v": "'new'"}, mode="merge-on-read")
    table.refreshIndex("id")
    assert table.lookup(id=4, columns=["v"])["v"].to_pylist() == ["new"]
    assert table.verifyIndex("id").is_right
