"""Every storage operation of making or refreshing an index fails once, in turn, in three ways: lookups stay right."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pyarrow as pa
import pytest

from holdfast import env
from holdfast.formats.delta.state import load
from holdfast.model.mutation import TableDefinition
from holdfast.schema.types import LONG, STRING, Field, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.table.delta import DeltaTable
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import make
from holdfast.verbs.index import maintain as reindexing
from holdfast.verbs.open.delta_handle import DeltaHandle
from tests.support.faulty import every_fault

COLUMNS = Struct((Field("id", LONG), Field("v", STRING)))


def _open(store: ObjectStore) -> DeltaTable:
    return DeltaTable(DeltaHandle(None, load(Location(store, "t"))))


def _copy(template: ObjectStore) -> ObjectStore:
    store = MemoryStore()
    for entry in template.list_all("t"):
        store.put(entry.key, template.get(entry.key))
    return store


@cache
def _template(indexed: bool) -> ObjectStore:
    store = MemoryStore()
    make(Location(store, "t"), TableDefinition(COLUMNS), env.system(), mode=CreateMode.CREATE, plain=False)
    table = _open(store)
    table.append(pa.table({"id": pa.array(range(5), pa.int64()), "v": ["a"] * 5}))
    table.delete("id = 1")
    if indexed:
        table.createIndex("id", name="pk")
        table.append(pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["b"] * 2}))
    return store


STEPS: dict[str, tuple[bool, Callable[[DeltaTable], object]]] = {
    "create": (False, lambda t: t.createIndex("id", name="pk")),
    "refresh": (True, lambda t: t.refreshIndex("pk")),
    "rename": (True, lambda t: t.renameIndex("pk", "key")),
    "lookup": (True, lambda t: t.lookup(id=2)),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_fault_anywhere_leaves_lookups_right(name: str) -> None:
    indexed, step = STEPS[name]
    wanted = {key: _open(_template(indexed)).toArrow(where=f"id = {key}").num_rows for key in (1, 2)}

    def check(store: ObjectStore) -> None:
        table = _open(store)
        for key, rows in wanted.items():
            assert table.lookup(id=key).num_rows == rows
        registered = reindexing.indexes_of(table.handle.state)
        assert len(registered.indexes) <= 1
        assert not registered.troubles

    assert every_fault(lambda store: step(_open(store)), check, make=lambda: _copy(_template(indexed))) > 8
