"""Two writers of one Iceberg table: conflicts, and rebases row by row."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast import IcebergTable
from holdfast.errors import ConcurrentAppend, ConcurrentWrite, MetadataChanged
from holdfast.verbs.dml import delete_update as changing

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
MOR = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}


def rows(*ids: int, v: str = "a") -> pa.Table:
    return pa.table({"id": list(ids), "v": [v] * len(ids)}, SCHEMA)


def made(tmp_path: Path, version: int, **properties: str) -> IcebergTable:
    table = IcebergTable.create(
        None, tmp_path / "cat.db", "db.t", SCHEMA, formatVersion=version, properties={**MOR, **properties}
    )
    table.append(rows(*range(6)))
    return table


def opened(tmp_path: Path) -> IcebergTable:
    return IcebergTable.load(None, tmp_path / "cat.db", "db.t")


def content(table: IcebergTable) -> dict[int, str]:
    found = table.toArrow().to_pydict()
    assert len(set(found["id"])) == len(found["id"])
    return dict(zip(found["id"], found["v"], strict=True))


def later(table: IcebergTable, verb: str, *args: Any, mode: str | None = None) -> Any:
    """A change that has read the table and is committed when it is called."""
    begun, caller = table.handle.open(), table._caller(mode)
    step = getattr(changing, verb)(begun, *args, caller)
    return lambda: changing.commit(begun, step, caller, started=0)


@pytest.mark.parametrize("version", [2, 3])
def test_deletes_of_other_rows_of_a_file_both_land(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version)
    commit = later(table, "deleted", "id = 1")
    opened(tmp_path).delete("id = 2")
    assert commit().attempts == 2
    assert sorted(content(table)) == [0, 3, 4, 5]
    deletes = table.handle.newest().contents.deletes
    assert len(deletes) == 1, "one live vector, or delete file, per data file"


@pytest.mark.parametrize("version", [2, 3])
def test_appends_both_land(tmp_path: Path, version: int) -> None:
    table, other = made(tmp_path, version), opened(tmp_path)
    commit = later(table, "deleted", "id = 1")
    other.append(rows(10, 11))
    commit()
    assert sorted(content(table)) == [0, 2, 3, 4, 5, 10, 11]
    if version == 3:
        ids = table.toArrow(metadata=["_row_id"])["_row_id"].to_pylist()
        assert len(set(ids)) == 7


@pytest.mark.parametrize("version", [2, 3])
def test_an_append_that_a_delete_would_have_read_refuses_it(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version)
    commit = later(table, "deleted", "id < 20")
    opened(tmp_path).append(rows(10, 30))
    with pytest.raises(ConcurrentAppend):
        commit()
    assert len(content(table)) == 8


def test_with_snapshot_isolation_it_does_not(tmp_path: Path) -> None:
    table = made(tmp_path, 3, **{"write.delete.isolation-level": "snapshot"})
    commit = later(table, "deleted", "id < 20")
    opened(tmp_path).append(rows(10, 30))
    commit()
    assert sorted(content(table)) == [10, 30]


@pytest.mark.parametrize("version", [2, 3])
def test_two_merges_that_insert_one_key_do_not_both_land(tmp_path: Path, version: int) -> None:
    made(tmp_path, version)
    one, two = opened(tmp_path).alias("t"), opened(tmp_path).alias("t")
    merges = [t.merge(rows(100, v="m"), "t.id = s.id").whenNotMatchedInsertAll() for t in (one, two)]
    merges[0].execute()
    with pytest.raises(ConcurrentWrite):
        merges[1].execute()
    assert content(one)[100] == "m"


@pytest.mark.parametrize("version", [2, 3])
def test_two_updates_of_one_row_do_not_both_land(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version)
    commit = later(table, "updated", "id = 1", {"v": "'x'"})
    opened(tmp_path).update("id = 1", {"v": "'y'"})
    with pytest.raises(ConcurrentWrite):
        commit()
    assert content(table)[1] == "y"


def test_a_delete_finds_its_row_where_a_compaction_moved_it(tmp_path: Path) -> None:
    table = made(tmp_path, 3)
    table.append(rows(*range(6, 12)))
    commit = later(table, "deleted", "id = 1")
    assert opened(tmp_path).optimize().executeCompaction().versions
    commit()
    assert sorted(content(table)) == [0, *range(2, 12)]


def test_without_ids_it_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, 2)
    table.append(rows(*range(6, 12)))
    commit = later(table, "deleted", "id = 1")
    opened(tmp_path).optimize().executeCompaction()
    with pytest.raises(ConcurrentWrite):
        commit()


def test_a_rewrite_hides_in_its_own_files_what_others_deleted(tmp_path: Path) -> None:
    table = made(tmp_path, 3)
    commit = later(table, "updated", "id = 1", {"v": "'x'"}, mode="copy-on-write")
    opened(tmp_path).delete("id = 4")
    before = dict(zip(*(table.toArrow(metadata=["_row_id"])[n].to_pylist() for n in ("id", "_row_id")), strict=True))
    commit()
    assert content(table) == {0: "a", 1: "x", 2: "a", 3: "a", 5: "a"}
    after = dict(zip(*(table.toArrow(metadata=["_row_id"])[n].to_pylist() for n in ("id", "_row_id")), strict=True))
    assert after == before


def test_a_changed_schema_refuses_a_change_of_rows(tmp_path: Path) -> None:
    table = made(tmp_path, 2)
    commit = later(table, "deleted", "id = 1")
    assert opened(tmp_path).upgrade() == 3
    with pytest.raises(MetadataChanged):
        commit()


def test_an_application_writes_a_version_once(tmp_path: Path) -> None:
    table = made(tmp_path, 3)
    assert table.append(rows(50), txn=("job", 1)).version is not None
    files = sorted(tmp_path.rglob("*"))
    assert opened(tmp_path).append(rows(51), txn=("job", 1)).version is None
    assert opened(tmp_path).delete("id = 1", txn=("job", 1)).version is None
    assert sorted(tmp_path.rglob("*")) == files, "what is not committed is not written either"
    assert opened(tmp_path).append(rows(52), txn=("job", 2)).version is not None
    assert sorted(content(table)) == [0, 1, 2, 3, 4, 5, 50, 52]


def test_many_writers_at_once(tmp_path: Path) -> None:
    """Appends and deletes from several threads, each with a catalog of its own: every one lands, no id comes twice."""
    table = made(tmp_path, 3)

    def work(number: int) -> None:
        mine = opened(tmp_path)
        for at in range(3):
            mine.append(rows(100 + 10 * number + at))
        mine.delete(f"id = {number}", retry=20)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    expected = [4, 5, *(100 + 10 * number + at for number in range(4) for at in range(3))]
    assert sorted(content(table)) == expected
    ids = table.toArrow(metadata=["_row_id"])["_row_id"].to_pylist()
    assert len(set(ids)) == len(expected)
    history = table.historyArrow()
    assert len(set(history["sequenceNumber"].to_pylist())) == len(history) == 1 + 4 * 4
