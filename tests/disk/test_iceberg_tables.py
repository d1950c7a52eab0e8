"""Iceberg tables and publications of an earlier version: read, looked up, changed and published again."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.catalog import Catalog

from holdfast import DeltaTable, IcebergTable
from holdfast.errors import TableError
from holdfast.storage.open import open_location
from tests.disk.delta_tables import KINDS, plain
from tests.disk.iceberg_tables import STORE, rows_of, some
from tests.disk.unpacked import expected, in_memory, without_rows


@pytest.fixture
def tables() -> Catalog:
    return in_memory()


def opened(tables: Catalog, name: str) -> IcebergTable:
    return IcebergTable.load(None, tables, f"db.{name}")


def test_every_snapshot_and_its_changes(tables: Catalog) -> None:
    table, known = opened(tables, "rows"), expected("iceberg", "rows")
    assert table.version == known["version"]
    assert {version: rows_of(table, int(version)) for version in known["versions"]} == known["versions"]
    changes = {name: plain(table.changes(known["since"], **KINDS[name]).toArrow()) for name in known["changes"]}
    assert changes == known["changes"]
    assert table.check().clean


@pytest.mark.parametrize("name", ["rows", "old", "grown"])
def test_the_table_goes_on(tables: Catalog, name: str) -> None:
    table, known = opened(tables, name), expected("iceberg", name)
    before = known["versions"][str(known["version"])] if name == "rows" else known["rows"]
    assert rows_of(table) == before
    more = some(100, 101)
    table.append(more.rename_columns(["key", "g", "labels"]) if name == "rows" else more)
    table.update("key = 100", {"g": "'changed'"})
    table.delete("key IN (101, 0)")
    after = {row["key"]: row for row in rows_of(table)}
    assert after.pop(100)["g"] == "changed"
    assert after == {row["key"]: row for row in before if row["key"] != 0}
    table.optimize().executeCompaction()
    assert {row["key"] for row in rows_of(table)} == {100, *after}
    assert table.check().clean


def test_a_batch_that_the_table_has_comes_once(tables: Catalog) -> None:
    table = opened(tables, "rows")
    version, rows = table.version, some(200).rename_columns(["key", "g", "labels"])
    table.append(rows, txn=("loader", 3))
    assert table.version == version
    table.append(rows, txn=("loader", 4))
    assert table.version != version


def test_lookups_go_through_the_indexes(tables: Catalog) -> None:
    table, known = opened(tables, "indexed"), expected("iceberg", "indexed")
    told = {one.name: [one.kind, list(one.columns), one.version, one.entries] for one in table.indexes()}
    assert told == known["indexes"]
    rows = {row["key"]: row for row in known["rows"]}
    (even,) = table.toArrow(["key"], where="key = 8", metadata=["_file"]).column("_file").to_pylist()
    store, name = open_location(STORE).store, even.removeprefix(f"{STORE}/")
    store.put(name, without_rows(store.get(name)))
    with pytest.raises(TableError):
        table.toArrow(["key"])
    metadata = ["_row_id", "_last_updated_sequence_number"]

    def looked_up(**by: Any) -> list[Any]:
        return plain(table.lookup(metadata=metadata, **by))

    assert looked_up(key=3) == [rows[3]], "the file of the even keys cannot be scanned, so an index finds the other"
    assert looked_up(key=[5, 30, 7]) == plain_rows(rows[5], rows[30], rows[7])
    assert looked_up(g="g3", key=11) == [rows[11]]


def plain_rows(*rows: Any) -> list[Any]:
    return sorted(rows, key=str)


def test_indexes_are_right_and_go_on(tables: Catalog) -> None:
    table, known = opened(tables, "indexed"), expected("iceberg", "indexed")
    table.append(some(400))
    for name, (_, _, version, entries) in known["indexes"].items():
        assert table.verifyIndex(name).is_right
        info = table.refreshIndex(name)
        assert info.version > version
        assert info.entries > entries, "what was there stays"
        assert table.verifyIndex(name).is_right
    for key, count in ((4, 0), (7, 1), (30, 1), (400, 1)):
        assert table.lookup(key=key).num_rows == count


def test_publications_are_refreshed(tables: Catalog) -> None:
    known = expected("published")
    source, copy = DeltaTable.forPath(None, f"{STORE}/delta/source"), opened(tables, "copy")
    origin, back = opened(tables, "source"), DeltaTable.forPath(None, f"{STORE}/delta/copy")
    for table, target, name, of in ((source, copy, "copy", "source"), (origin, back, "back", "origin")):
        assert plain(table.toArrow(metadata=["_row_id"])) == known[of]
        assert plain(target.toArrow(metadata=["_row_id"])) == known[name]
        state = target.published()
        assert state is not None
        told = [state.table, state.location, [[s.first, s.last, s.at] for s in state.stretches]]
        assert told == known["state"][name]
        version = target.version
        table.publish(target)
        assert target.version == version, "nothing is new"
        table.append(some(300, 301))
        table.update("key = 1", {"g": "'again'"})
        table.delete("key = 0")
        table.publish(target)
        rows = plain(target.toArrow(metadata=["_row_id"]))
        assert rows == plain(table.toArrow(metadata=["_row_id"]))
        assert {row["key"] for row in rows} == {row["key"] for row in known[name]} - {0} | {300, 301}
        ids = {row["key"]: row["_row_id"] for row in known[name]}
        assert all(row["_row_id"] == ids.get(row["key"], row["_row_id"]) for row in rows)
