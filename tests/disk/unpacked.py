"""The archive of tables, and where a test has them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog

from holdfast.storage.open import open_location
from tests.disk.iceberg_tables import STORE, catalog

ARCHIVE = Path(__file__).parent / "tables.tar.xz"
EXPECTED = Path(__file__).parent / "expected.json"
_MEMORY = "memory/"


def expected(*names: str) -> Any:
    """What a table must read as."""
    found = json.loads(EXPECTED.read_text())
    for name in names:
        found = found[name]
    return found


def on_disk(part: str, directory: Path) -> Path:
    """The files of a part of the archive, in a directory."""
    with tarfile.open(ARCHIVE) as archive:
        wanted = [member for member in archive if member.name.startswith(f"{part}/")]
        archive.extractall(directory, wanted, filter="data")
    return directory / part


def in_memory() -> Catalog:
    """The tables that lie in memory, as they were written, and a catalog of the Iceberg ones."""
    store = open_location(STORE).store
    for meta in list(store.list_all("")):
        store.delete(meta.key)
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            if member.name.startswith(_MEMORY) and (data := archive.extractfile(member)) is not None:
                store.put(member.name.removeprefix(_MEMORY), data.read())
    tables = catalog()
    tables.create_namespace_if_not_exists("db")
    for name, metadata in expected("metadata").items():
        if not tables.table_exists(f"db.{name}"):
            tables.register_table(f"db.{name}", metadata)
    return tables


def without_rows(data: bytes) -> bytes:
    """A Parquet file whose pages are unreadable, with its own footer: who reads it for anything but that will fail."""
    rest = int.from_bytes(data[-8:-4], "little") + 8
    return data[:4] + bytes(len(data) - rest - 4) + data[-rest:]
