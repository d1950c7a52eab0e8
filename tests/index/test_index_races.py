"""Indexes are made, refreshed and dropped beside writers, beside compaction and beside each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from holdfast import DeltaTable, Invalid, between
from holdfast.env import system
from holdfast.errors import ConcurrentAppend, ConcurrentTransaction
from holdfast.verbs.dml import delete_update as changing
from holdfast.verbs.index import build as ops
from holdfast.verbs.index import maintain as reindexing
from tests.index.tables import found, made, numbers


def test_a_change_that_an_index_pruned_is_still_judged_by_its_condition() -> None:
    """A row that another writer brings into the condition's reach is in the way, though no index knew of it."""
    table = made(pa.table({"id": list(range(16)), "v": [0] * 16}), files=4)
    table.createIndex("id")
    read, caller = table.handle.open(), table._caller(isolation="Serializable")
    begun = changing.deleted(read, "id = 3", caller)
    DeltaTable.forPath(None, read.snapshot.location.url).append(pa.table({"id": [3], "v": [1]}))
    with pytest.raises(ConcurrentAppend):
        changing.commit(read, begun, caller, started=0)
    read = table.handle.open()
    begun = changing.deleted(read, "id = 3", table._caller())
    DeltaTable.forPath(None, read.snapshot.location.url).optimize().executeCompaction()
    changing.commit(read, begun, table._caller(), started=0)
    assert found(table, id=[3, 4]) == [4], "rows that only moved are followed"


def test_index_commits_stand_beside_writers_and_compaction(monkeypatch: pytest.MonkeyPatch) -> None:
    table = numbers()
    url = table.handle.newest().snapshot.location.url
    build = ops.made

    def meanwhile(*args: Any, **named: Any) -> Any:
        index = build(*args, **named)
        other = DeltaTable.forPath(None, url)
        other.append(pa.table({"id": [100], "s": ["x"], "v": [1.0]}))
        other.optimize().executeCompaction()
        other.setProperties({"delta.checkpointInterval": "7"})
        other.createIndex("v") if "v" not in {i.name for i in other.indexes()} else None
        return index

    monkeypatch.setattr(ops, "made", meanwhile)
    monkeypatch.setattr(
        reindexing.ops, "made", lambda *a, **n: build(*a, **n) if a[2].name == "v" else meanwhile(*a, **n)
    )
    table.createIndex("id")
    assert {info.name for info in table.indexes()} == {"id", "v"}
    assert found(table, id=[3, 100]) == [3, 100] or found(table, id=[3, 100]) == [100, 3]
    assert table.verifyIndex("id").is_right


def test_writers_and_compaction_stand_beside_index_commits() -> None:
    table = numbers()
    url = table.handle.newest().snapshot.location.url
    table.createIndex("id")
    errors: list[BaseException] = []

    def run(work: Callable[[DeltaTable, int], object]) -> None:
        try:
            for n in range(6):
                work(DeltaTable.forPath(None, url), n)
        except BaseException as error:
            errors.append(error)

    jobs: list[Callable[[DeltaTable, int], object]] = [
        lambda t, n: t.append(pa.table({"id": [1000 + n], "s": ["w"], "v": [0.0]})),
        lambda t, n: t.update(f"id = {n}", {"v": "v + 1"}),
        lambda t, n: t.refreshIndex("id"),
        lambda t, n: t.refreshIndex("id") if n % 2 else t.optimize().executeCompaction(),
    ]
    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    table.refresh()
    assert sorted(found(table, id=between(1000))) == [1000 + n for n in range(6)]
    assert table.verifyIndex("id").is_right


def test_an_index_that_was_dropped_is_not_brought_back(monkeypatch: pytest.MonkeyPatch) -> None:
    table = numbers()
    url = table.handle.newest().snapshot.location.url
    table.createIndex("id")
    table.append(pa.table({"id": [100], "s": ["x"], "v": [1.0]}))
    build = ops.refreshed

    def meanwhile(again: bool) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            built = build(*args)
            other = DeltaTable.forPath(None, url)
            other.dropIndex("id")
            if again:
                other.createIndex("id")
            return built

        return run

    monkeypatch.setattr(ops, "refreshed", meanwhile(again=False))
    with pytest.raises(Invalid, match="no index 'id'"):
        table.refreshIndex("id")
    assert table.indexes() == []
    monkeypatch.setattr(ops, "refreshed", build)
    table.createIndex("id")
    table.append(pa.table({"id": [101], "s": ["x"], "v": [1.0]}))
    monkeypatch.setattr(ops, "refreshed", meanwhile(again=True))
    with pytest.raises(Invalid, match="made anew meanwhile"):
        table.refreshIndex("id")
    state = table.handle.newest()
    stale = reindexing.indexes_of(state).named("id")
    DeltaTable.forPath(None, url).dropIndex("id")
    with pytest.raises(ConcurrentTransaction):
        reindexing._land(state, ops.saying("REFRESH INDEX", stale), system(), {"id": stale})
