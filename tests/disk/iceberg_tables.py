"""Iceberg tables for the archive, and tables of both formats that are published into one another.

They lie in a store in memory, because Iceberg's files name each other by whole addresses: such an address is the same
on every machine.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog

from holdfast import DeltaTable, IcebergTable
from holdfast.formats.iceberg.catalog.store_io import through_stores
from tests.disk.delta_tables import KINDS, plain

STORE = "memory://disk"
IDS = ["_row_id", "_last_updated_sequence_number"]
COLUMNS = pa.schema([("key", pa.int64()), ("g", pa.string()), ("tags", pa.list_(pa.int32()))])


def catalog() -> Catalog:
    """A catalog of this process, empty."""
    return through_stores(load_catalog("disk", type="in-memory", warehouse=f"{STORE}/iceberg"))


def some(*keys: int) -> pa.Table:
    """Rows that every table here has room for."""
    return pa.table({"key": list(keys), "g": [f"g{key % 4}" for key in keys], "tags": [[key] for key in keys]}, COLUMNS)


def rows_of(table: IcebergTable, version: int | None = None) -> list[Any]:
    """All rows of a snapshot, with their identity where they have one."""
    return plain(table.toArrow(version=version, metadata=IDS if table.formatVersion > 2 else ()))


def rows_tables(tables: Catalog) -> dict[str, Any]:
    """Version 3 with deletion vectors and row lineage, version 2 with position deletes, and one upgraded."""
    rows = IcebergTable.create(None, tables, "db.rows", COLUMNS, partitionedBy=["bucket(2, key)"])
    rows.append(some(*range(0, 20, 2)))
    rows.append(some(*range(1, 20, 2)))
    first = rows.version
    rows.delete("key = 4")
    rows.update("key = 7", {"g": "'moved'"})
    rows.update("key = 9", {"g": "'copied'"}, mode="copy-on-write")
    rows.append(some(30), txn=("loader", 3))
    rows.renameColumn("tags", "labels")
    rows.optimize().executeCompaction()
    rows.delete("key = 11")
    versions = rows.historyArrow().column("version").to_pylist()
    old = IcebergTable.create(None, tables, "db.old", COLUMNS, formatVersion=2, partitionedBy=["g"])
    old.append(some(*range(6)))
    old.delete("key = 2")
    grown = IcebergTable.create(None, tables, "db.grown", COLUMNS, formatVersion=2)
    grown.append(some(*range(6)))
    grown.delete("key = 2")
    grown.upgrade()
    grown.update("key = 3", {"g": "'third'"})
    return {
        "rows": {
            "version": rows.version,
            "versions": {str(version): rows_of(rows, version) for version in versions},
            "since": first,
            "changes": {name: plain(rows.changes(first, **asked).toArrow()) for name, asked in _by_id().items()},
        },
        "old": {"version": old.version, "rows": rows_of(old)},
        "grown": {"version": grown.version, "rows": rows_of(grown)},
    }


def indexed_table(tables: Catalog) -> dict[str, Any]:
    """Indexes, and rows that came and went after they were built; every second key is in the same file."""
    table = IcebergTable.create(None, tables, "db.indexed", COLUMNS)
    table.append(some(*range(0, 20, 2)))
    table.append(some(*range(1, 20, 2)))
    table.createIndex("key")
    table.createIndex(["g", "key"], name="both")
    table.createIndex("g", kind="bitmap", name="few")
    table.delete("key = 4")
    table.append(some(30))
    table.update("key = 7", {"g": "'moved'"})
    return {
        "version": table.version,
        "rows": rows_of(table),
        "indexes": {one.name: [one.kind, list(one.columns), one.version, one.entries] for one in table.indexes()},
    }


def _by_id() -> dict[str, dict[str, Any]]:
    return {name: asked for name, asked in KINDS.items() if "keys" not in asked}


def published_tables(tables: Catalog) -> dict[str, Any]:
    """A Delta table published into an Iceberg table, and the other way round, each twice."""
    source = DeltaTable.create(None).location(f"{STORE}/delta/source").addColumns(COLUMNS).execute()
    source.append(some(*range(6)))
    copy = IcebergTable.createLike(None, tables, "db.copy", source)
    source.publish(copy)
    source.update("key = 3", {"g": "'third'"})
    source.publish(copy)
    origin = IcebergTable.create(None, tables, "db.source", COLUMNS)
    origin.append(some(*range(6)))
    back = DeltaTable.createLike(None, f"{STORE}/delta/copy", origin)
    origin.publish(back)
    origin.delete("key = 2")
    origin.publish(back)
    return {
        "source": plain(source.toArrow(metadata=["_row_id"])),
        "copy": plain(copy.toArrow(metadata=["_row_id"])),
        "origin": plain(origin.toArrow(metadata=["_row_id"])),
        "back": plain(back.toArrow(metadata=["_row_id"])),
        "state": {"copy": _told(copy), "back": _told(back)},
    }


def _told(table: Any) -> Any:
    published = table.published()
    return [published.table, published.location, [[s.first, s.last, s.at] for s in published.stretches]]
