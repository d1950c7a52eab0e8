"""Indexes of tables that change under them: other versions, other columns, other rows, ids that were off."""

from __future__ import annotations

import pyarrow as pa
import pytest

from holdfast import DeltaTable, Invalid, between
from holdfast.env import system
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from tests.index.tables import found, made, numbers, step


def test_time_travel_to_before_and_after_an_index() -> None:
    table = numbers()
    table.delete("id = 3")
    table.createIndex("id")
    table.append(pa.table({"id": [3], "s": ["again"], "v": [0.5]}))
    table.refreshIndex("id")
    newest = table.version
    assert [found_at(table, 3, version) for version in range(newest - 4, newest + 1)] == [
        ["n3"],
        [],
        [],
        ["again"],
        ["again"],
    ]
    table.dropIndex("id")
    assert found_at(table, 3, newest) == ["again"]


def found_at(table: DeltaTable, key: int, version: int) -> list[str]:
    return list(table.lookup(id=key, version=version).column("s").to_pylist())


def test_a_restore_brings_rows_back_that_have_no_entry() -> None:
    table = numbers(8, files=1)
    before = table.version
    table.delete("id = 3")
    table.createIndex("id")
    table.restoreToVersion(before)
    table.optimize(materializeDeletionsThreshold=0).executeCompaction()
    table.append(pa.table({"id": [9], "s": ["x"], "v": [0.0]}))
    table.optimize().executeCompaction()
    assert found(table, id=3) == [3]
    assert "may have brought rows back" in step(table, "id = 3") or "nothing to leave out" in step(table, "id = 3")
    table.refreshIndex("id")
    assert found(table, id=between(2, 4)) == [2, 3, 4]
    assert table.indexStats("id").tail_rows == 0


def test_a_log_that_was_cleaned_up_proves_nothing() -> None:
    table = numbers(8, files=2)
    table.createIndex("id")
    table.update("id = 3", {"v": "0"})
    table.append(pa.table({"id": [3], "s": ["x"], "v": [0.0]}))
    state = table.handle.newest()
    write_checkpoint(state, system())
    location = state.snapshot.location
    for version in range(state.version):
        location.store.delete(location.key("_delta_log", f"{version:020}.json"))
    again = DeltaTable.forPath(None, location.url)
    assert "no longer has the commit" in step(again, "id >= 3")
    assert found(again, id=3) == [3, 3]
    assert again.indexStats("id").tail_files == 2, "files that were there before are answered for"
    again.refreshIndex("id")
    assert again.indexStats("id").tail_files == 0
    assert found(again, id=3) == [3, 3]


def test_an_empty_table_has_an_index_without_segments() -> None:
    table = numbers(0, files=1)
    assert table.createIndex("id").segments == 0
    assert found(table, id=1) == []
    table.append(pa.table({"id": [1], "s": ["x"], "v": [0.0]}))
    assert found(table, id=1) == [1]
    assert table.refreshIndex("id").entries == 1
    table.delete()
    assert found(table, id=[1, None]) == []
    assert table.verifyIndex("id").is_right


def test_a_changed_type_retires_an_index() -> None:
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int32())})
    table = made(rows, files=1, enableTypeWidening="true")
    table.createIndex("id")
    table.changeColumnType("id", "long")
    table.append(pa.table({"id": pa.array([2**40], pa.int64())}))
    assert "type or collation" in (table.indexes()[0].unusable or "")
    assert found(table, id=[2, 2**40]) == [2, 2**40]
    assert "type or collation" in step(table, "id >= 2")
    with pytest.raises(Invalid, match="rebuildIndex"):
        table.refreshIndex("id")
    assert not table.verifyIndex("id").is_right
    table.rebuildIndex("id")
    assert table.indexes()[0].unusable is None
    assert found(table, id=[2, 2**40]) == [2, 2**40]


def test_a_renamed_column_keeps_its_index_and_a_dropped_one_retires_it() -> None:
    table = made(pa.table({"id": [1, 2], "s": ["a", "b"]}), **{"columnMapping.mode": "name"})
    table.createIndex("id")
    table.renameColumn("id", "key")
    assert table.lookup(key=2).column("s").to_pylist() == ["b"]
    assert table.indexes()[0].columns == ("key",)
    assert "2 entries" in step(table, "key > 0")
    table.dropColumn("key")
    assert "is gone" in (table.indexes()[0].unusable or "")
    assert table.toArrow(where="s = 'a'").num_rows == 1


def test_a_table_that_was_replaced_has_none_of_the_old_entries() -> None:
    table = numbers()
    table.createIndex("id")
    table.overwrite(pa.table({"id": [5], "s": ["new"], "v": [0.0]}))
    assert table.lookup(id=5).column("s").to_pylist() == ["new"]
    table.refreshIndex("id")
    assert found(table, id=[5, 6]) == [5]


def test_row_tracking_that_was_off_for_a_while_is_not_built_upon() -> None:
    table = numbers(8, files=2)
    table.createIndex("id")
    table.setProperties({"delta.enableRowTracking": "false"})
    assert found(table, id=3) == [3]
    table.append(pa.table({"id": [3], "s": ["off"], "v": [0.0]}))
    table.enableRowTracking()
    assert found(table, id=3) == [3, 3]
    reason = table.indexes()[0].unusable or step(table, "id = 3")
    assert "not tracked" in reason or "enabled anew" in reason
