"""Every write fails, in every way, while a table is published; publishing again gives the right copy."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog

from holdfast import DeltaTable, IcebergTable
from holdfast.storage import open as opening
from holdfast.storage.base import ObjectStore
from holdfast.storage.memory import MemoryStore
from tests.support.depth import DEPTH
from tests.support.faulty import FaultyStore, FaultyWrites, every_fault

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
FAULTY = FaultyWrites if DEPTH == 1 else FaultyStore  # reads that fail are for make soak
fresh = count()


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": ["a"] * len(ids)}, SCHEMA)


def row_dicts(table: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.toArrow(metadata=["_row_id"]).sort_by("_row_id").to_pylist()
    return found


class Rig:
    """A Delta table, its copy in Iceberg and the copy of that, in whatever store is plugged in."""

    def __init__(self, patch: pytest.MonkeyPatch, *, back: bool) -> None:
        self.patch, self.back = patch, back
        self.catalog: Catalog | None = None

    def plug(self, store: ObjectStore) -> None:
        self.patch.setattr(opening, "_memory_store", lambda name: store)

    def tables(self, store: ObjectStore) -> tuple[Any, Any]:
        """The table that is published, and the one it goes to."""
        self.plug(store)
        ice = IcebergTable.load(None, self.catalog, "db.t")
        if self.back:
            return ice, DeltaTable.forPath(None, "memory://pub/back")
        return DeltaTable.forPath(None, "memory://pub/source"), ice

    def make(self) -> ObjectStore:
        store = MemoryStore("pub")
        self.plug(store)
        self.catalog = load_catalog(f"pub{next(fresh)}", type="in-memory", warehouse="memory://pub/warehouse")
        source = DeltaTable.create(None).location("memory://pub/source").addColumns(SCHEMA).execute()
        source.append(rows(0, 1, 2, 3))
        ice = IcebergTable.createLike(None, self.catalog, "db.t", source)
        source.publish(ice)
        if self.back:
            ice.publish(DeltaTable.createLike(None, "memory://pub/back", ice))
            source = ice
        source.update("id = 1", {"v": "'z'"}, mode="merge-on-read")
        source.delete("id = 2", mode="merge-on-read")
        source.append(rows(4))
        return store


@pytest.mark.parametrize("back", [False, True], ids=["to Iceberg", "to Delta"])
def test_faults_of_a_publication(monkeypatch: pytest.MonkeyPatch, back: bool) -> None:
    rig = Rig(monkeypatch, back=back)

    def run(store: ObjectStore) -> None:
        source, target = rig.tables(store)
        source.publish(target)

    def check(store: ObjectStore) -> None:
        source, target = rig.tables(store)
        found = row_dicts(target)
        wanted = row_dicts(source)
        assert found == wanted or [row["v"] for row in found] == ["a"] * 4
        done = source.publish(target)
        assert (done.version is None) == (found == wanted)
        assert row_dicts(target) == wanted
        assert source.publish(target).version is None

    assert every_fault(run, check, make=rig.make, faulty=FAULTY) > 10
