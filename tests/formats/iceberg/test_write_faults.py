"""Every call to the store fails, in every way, and the table stays valid; lost answers of catalogs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitStateUnknownException

from holdfast import IcebergTable
from holdfast.errors import OutcomeUnknown
from holdfast.storage import open as opening
from holdfast.storage.base import ObjectStore
from holdfast.storage.memory import MemoryStore
from tests.support.depth import DEPTH
from tests.support.faulty import every_fault

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])
DEEP = pytest.mark.skipif(DEPTH == 1, reason="in make soak")
fresh = count()


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": ["a"] * len(ids)}, SCHEMA)


class Rig:
    """A catalog in memory, whose tables are in whatever store is plugged in."""

    def __init__(self, patch: pytest.MonkeyPatch, version: int) -> None:
        self.patch, self.version = patch, version
        self.catalog: Catalog = self._catalog()

    def _catalog(self) -> Catalog:
        return load_catalog(f"c{next(fresh)}", type="in-memory", warehouse="memory://ice")

    def plug(self, store: ObjectStore) -> None:
        self.patch.setattr(opening, "_memory_store", lambda name: store)

    def open(self, store: ObjectStore) -> IcebergTable:
        self.plug(store)
        return IcebergTable.load(None, self.catalog, "db.t")

    def make(self) -> ObjectStore:
        store = MemoryStore("ice")
        self.plug(store)
        self.catalog = self._catalog()
        table = IcebergTable.create(None, self.catalog, "db.t", SCHEMA, formatVersion=self.version)
        table.append(rows(0, 1, 2))
        return store


@pytest.fixture
def rig(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch, request.param)


def swept(rig: Rig, run: Callable[[IcebergTable], object], before: list[int], after: list[int]) -> int:
    def check(store: ObjectStore) -> None:
        table = rig.open(store)
        result = table.toArrow(metadata=["_row_id"] if rig.version == 3 else [])
        assert sorted(result["id"].to_pylist()) in (before, after)
        assert rig.version == 2 or len(set(result["_row_id"].to_pylist())) == len(result)
        table.append(rows(99))
        assert 99 in table.toArrow()["id"].to_pylist()

    return every_fault(lambda store: run(rig.open(store)), check, make=rig.make)


@pytest.mark.parametrize("rig", [3], indirect=True)
def test_faults_of_an_append(rig: Rig) -> None:
    assert swept(rig, lambda t: t.append(rows(3, 4)), [0, 1, 2], [0, 1, 2, 3, 4]) > 20


@pytest.mark.parametrize("rig", [3, pytest.param(2, marks=DEEP)], indirect=True)
def test_faults_of_a_delete(rig: Rig) -> None:
    assert swept(rig, lambda t: t.delete("id = 1", mode="merge-on-read"), [0, 1, 2], [0, 2]) >= 24


@pytest.mark.parametrize("rig", [3], indirect=True)
def test_faults_of_a_restore(rig: Rig) -> None:
    def make() -> ObjectStore:
        store = rig.make()
        rig.open(store).delete("id = 1", mode="merge-on-read")
        return store

    def back(store: ObjectStore) -> None:
        table = rig.open(store)
        table.restoreToVersion(table.handle.state.metadata.snapshots[0].snapshot_id)

    def check(store: ObjectStore) -> None:
        table = rig.open(store)
        assert sorted(table.toArrow()["id"].to_pylist()) in ([0, 1, 2], [0, 2])
        assert table.check().clean

    assert every_fault(back, check, make=make) > 20


@pytest.mark.parametrize("rig", [3], indirect=True)
def test_faults_of_new_columns(rig: Rig) -> None:
    def check(store: ObjectStore) -> None:
        table = rig.open(store)
        result = table.toArrow()
        assert (3 in result["id"].to_pylist()) == ("x" in result.column_names)
        assert table.check().clean

    more = rows(3).append_column("x", [[7]])
    assert every_fault(lambda store: rig.open(store).append(more, mergeSchema=True), check, make=rig.make) > 15


@pytest.mark.parametrize("lands", [True, False])
def test_a_lost_answer_to_a_change_of_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lands: bool) -> None:
    table = IcebergTable.create(None, tmp_path / "cat.db", "db.t", SCHEMA)
    source: Any = table.handle.source
    inner = source.catalog.commit_table

    def lost(*args: Any) -> Any:
        if lands:
            inner(*args)
        raise CommitStateUnknownException("no answer")

    monkeypatch.setattr(source.catalog, "commit_table", lost)
    for change in (lambda: table.renameColumn("v", "w"), lambda: table.setProperties({"a": "b"})):
        if lands:
            change()
        else:
            with pytest.raises(OutcomeUnknown, match="no answer"):
                change()
    assert table.toArrow().column_names == (["id", "w"] if lands else ["id", "v"])


@pytest.mark.parametrize("lands", [True, False])
def test_a_lost_answer_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lands: bool) -> None:
    table = IcebergTable.create(None, tmp_path / "cat.db", "db.t", SCHEMA)
    table.append(rows(0))
    source: Any = table.handle.source
    inner = source.catalog.commit_table

    def lost(*args: Any) -> Any:
        if lands:
            inner(*args)
        raise CommitStateUnknownException("no answer")

    monkeypatch.setattr(source.catalog, "commit_table", lost)
    if lands:
        assert table.append(rows(1)).version == table.version
    else:
        with pytest.raises(OutcomeUnknown, match="history"):
            table.append(rows(1))
    assert sorted(table.toArrow()["id"].to_pylist()) == ([0, 1] if lands else [0])
