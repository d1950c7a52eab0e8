"""Every storage operation of a change fails once, in turn, in three ways: the table is as before, or as after."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

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
from holdfast.verbs.open.delta_handle import DeltaHandle
from tests.support.faulty import every_fault

IDS = ["_row_id", "_row_commit_version"]
COLUMNS = Struct((Field("id", LONG), Field("v", STRING)))


def _open(store: ObjectStore) -> DeltaTable:
    return DeltaTable(DeltaHandle(None, load(Location(store, "t"))))


def _rows(store: ObjectStore) -> list[tuple[Any, ...]]:
    found = _open(store).toArrow(metadata=IDS).sort_by("_row_id")
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def _made() -> ObjectStore:
    """A copy of the same table each time."""
    template, store = _template(), MemoryStore()
    for found in template.list_all("t"):
        store.put(found.key, template.get(found.key))
    return store


@cache
def _template() -> ObjectStore:
    store = MemoryStore()
    properties = {"delta.enableChangeDataFeed": "true"}
    make(
        Location(store, "t"),
        TableDefinition(COLUMNS, properties=properties),
        env.system(),
        mode=CreateMode.CREATE,
        plain=False,
    )
    table = _open(store)
    for first in (0, 5):
        ids = range(first, first + 5)
        table.append(pa.table({"id": pa.array(ids, pa.int64()), "v": ["a"] * 5}))
    table.delete("id = 1")
    return store


def _merge(table: DeltaTable, mode: str) -> None:
    source = pa.table({"id": pa.array([2, 3, 20], pa.int64()), "v": ["x", "y", "z"]})
    merge = table.alias("t").merge(source, "t.id = s.id", mode=mode)
    merge.whenMatchedDelete("s.v = 'y'").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


def _auto(table: DeltaTable) -> None:
    table.setProperties({"delta.autoOptimize.autoCompact": "true", "holdfast.autoCompact.minFiles": "2"})
    table.update("id > 6", {"v": "'u'"})


CHANGES: dict[str, Callable[[DeltaTable], object]] = {
    "delete": lambda t: t.delete("id % 4 = 0"),
    "delete, copy-on-write": lambda t: t.delete("id % 4 = 0", mode="copy-on-write"),
    "update": lambda t: t.update("id > 6", {"v": "'u'"}),
    "update, copy-on-write": lambda t: t.update("id > 6", {"v": "'u'"}, mode="copy-on-write"),
    "merge": lambda t: _merge(t, "merge-on-read"),
    "merge, copy-on-write": lambda t: _merge(t, "copy-on-write"),
    "restore": lambda t: t.restoreToVersion(1),
    "compaction": lambda t: t.optimize().executeCompaction(),
    "purge": lambda t: t.purge(),
    "clustering": lambda t: (t.clusterBy("v", "id"), t.optimize(targetRows=4).executeCompaction()),
    "automatic compaction": lambda t: _auto(t),
    "Z-order": lambda t: t.optimize(targetRows=4).executeZOrderBy("v", "id"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_fault_anywhere_leaves_the_table_before_or_after(name: str) -> None:
    change = CHANGES[name]
    whole = _made()
    before = _rows(whole)
    change(_open(whole))
    after = _rows(whole)
    expected = [_shown(before), _shown(after)]

    def check(store: ObjectStore) -> None:
        rows = _rows(store)
        assert _shown(rows) in expected
        assert len({row[2] for row in rows}) == len(rows)

    assert every_fault(lambda store: change(_open(store)), check, make=_made) > 20


def _shown(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows as they must be; the id of an inserted one may be any fresh one."""
    return sorted((row[0], row[1], row[2] if row[2] < 10 else None, row[3]) for row in rows)
