"""Change queries of Iceberg tables by row lineage, and rows by row id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast import IcebergTable
from holdfast.errors import NoRowIdentity, UnknownRow, Unsupported

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def rows(*ids: int, v: str = "a") -> pa.Table:
    return pa.table({"id": list(ids), "v": [v] * len(ids)}, SCHEMA)


def change_rows(table: IcebergTable, start: int, end: int | None = None, **how: Any) -> list[tuple[str, int, str]]:
    found = table.changes(start, end, **how).toArrow().to_pylist()
    return sorted((row["_change_type"], row["id"], row["v"]) for row in found)


def story(table: IcebergTable) -> list[int]:
    """Snapshots of an append, a delete, two updates, a compaction and another append."""
    table.append(rows(*range(8)))
    table.delete("id = 1", mode="merge-on-read")
    table.update("id = 2", {"v": "'x'"}, mode="merge-on-read")
    table.update("id = 3", {"v": "'y'"}, mode="copy-on-write")
    table.optimize().executeCompaction()
    table.append(rows(20))
    found: list[int] = table.historyArrow()["version"].to_pylist()
    return found[::-1]


def test_net_changes_are_a_difference_of_two_tables(tmp_path: Path) -> None:
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", SCHEMA, partitionedBy=["bucket(2, id)"])
    versions = story(table)
    names = ["_row_id", "_last_updated_sequence_number"]
    states = [
        {r["_row_id"]: r for r in table.toArrow(version=version, metadata=names).to_pylist()} for version in versions
    ]
    for first in range(1, len(versions)):
        for last in range(first, len(versions)):
            old, new = states[first - 1], states[last]
            expected = [("insert", new[i]) for i in new.keys() - old.keys()]
            expected += [("delete", old[i]) for i in old.keys() - new.keys()]
            for i in new.keys() & old.keys():
                if new[i][names[1]] != old[i][names[1]]:
                    expected += [("update_preimage", old[i]), ("update_postimage", new[i])]
            got = change_rows(table, versions[first], versions[last], kind="min-delta")
            assert got == sorted((kind, row["id"], row["v"]) for kind, row in expected)


def test_each_commit_tells_of_itself(tmp_path: Path) -> None:
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", SCHEMA)
    versions = story(table)
    found = table.changes(versions[1]).toArrow().to_pylist()
    changed = [(r["_commit_version"], r["_change_type"], r["id"], r["v"]) for r in found]
    assert sorted(changed) == [
        (2, "delete", 1, "a"),
        (3, "update_postimage", 2, "x"),
        (3, "update_preimage", 2, "a"),
        (4, "update_postimage", 3, "y"),
        (4, "update_preimage", 3, "a"),
        (versions.index(versions[-1]) + 1, "insert", 20, "a"),
    ]


def test_version_two_tells_what_was_added_and_hidden(tmp_path: Path) -> None:
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", SCHEMA, formatVersion=2)
    table.append(rows(1, 2, 3))
    first = table.version
    table.delete("id = 2", mode="merge-on-read")
    table.append(rows(4))
    assert change_rows(table, first) == [
        ("delete", 2, "a"),
        ("insert", 1, "a"),
        ("insert", 2, "a"),
        ("insert", 3, "a"),
        ("insert", 4, "a"),
    ]
    table.update("id = 3", {"v": "'z'"})
    with pytest.raises(NoRowIdentity):
        change_rows(table, table.version)
    assert change_rows(table, table.version, keys=["id"]) == [("update_postimage", 3, "z"), ("update_preimage", 3, "a")]


def test_rows_by_their_ids(tmp_path: Path) -> None:
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", SCHEMA)
    story(table)
    table.delete("id = 5", mode="merge-on-read")
    every = table.toArrow(metadata=["_row_id"]).to_pylist()
    ids = [row["_row_id"] for row in every][::-1]
    assert table.take(ids, metadata=["_row_id"]).to_pylist() == every[::-1]
    with pytest.raises(UnknownRow):
        table.take([10_000])


def test_files_that_may_lack_partition_columns_are_not_guessed_at(tmp_path: Path) -> None:
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", SCHEMA, partitionedBy=["v"])
    table.append(rows(1, 2))
    assert change_rows(table, table.version) == [("insert", 1, "a"), ("insert", 2, "a")]
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["v"]}]'
    table.setProperties({"schema.name-mapping.default": mapping})
    with pytest.raises(Unsupported, match="name mapping"):
        table.changes(table.version)
