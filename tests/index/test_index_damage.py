"""What is wrong with an index costs time and never an answer."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from holdfast import Damaged, DeltaTable, Invalid
from holdfast.env import system
from holdfast.formats.delta.state import load
from holdfast.index.registry import registered
from holdfast.storage.open import open_location
from holdfast.verbs.index import build as ops
from holdfast.verbs.open.delta import open_delta
from tests.index.tables import found, numbers, step

DAMAGE: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda data: None,
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "first bytes": lambda data: bytes(b ^ 0xFF for b in data[:20]) + data[20:],
    "middle": lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :],
    "end": lambda data: data[:-6] + bytes([data[-6] ^ 1]) + data[-5:],
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_index_is_scanned_around(how: str) -> None:
    template = numbers()
    template.createIndex("id")
    location = load(open_location(template.handle.newest().snapshot.location.url)).snapshot.location
    files = [meta.key for meta in location.store.list_all(location.key("_holdfast/index"))]
    assert len(files) == 4
    for file in files:
        table = numbers()
        table.createIndex("id")
        there = table.handle.newest().snapshot.location
        mine = [m.key for m in there.store.list_all(there.key("_holdfast/index")) if m.name == file.rpartition("/")[2]]
        assert len(mine) == 1
        damaged = DAMAGE[how](there.store.get(mine[0]))
        if damaged is None:
            there.store.delete(mine[0])
        else:
            there.store.put(mine[0], damaged)
        url = there.url
        assert found(DeltaTable.forPath(None, url), id=[3, 30]) == [3, 30]
        assert not DeltaTable.forPath(None, url).verifyIndex("id").is_right
        assert DeltaTable.forPath(None, url).toArrow(where="id = 3").num_rows == 1
        assert "not used" in step(DeltaTable.forPath(None, url), "id >= 3 AND id < 21")
        assert DeltaTable.forPath(None, url).indexStats("id").info.unusable is not None
        DeltaTable.forPath(None, url).rebuildIndex("id")
        assert DeltaTable.forPath(None, url).verifyIndex("id").is_right


def test_a_domain_that_nobody_understands_is_scanned_around() -> None:
    table = numbers()
    table.createIndex("id")
    state = table.handle.newest()
    record = json.loads(state.domains["holdfast.index.id"].configuration or "")
    for wrong in ("{}", json.dumps({**record, "format": 99}), json.dumps({**record, "segments": 3}), "no json"):
        assert registered({"holdfast.index.id": wrong}).troubles.keys() == {"id"}
        mutation = ops.Mutation("X", domains={"holdfast.index.id": wrong}, data_change=False)
        open_delta(table.handle.newest()).commit(mutation, system())
        assert found(table, id=3) == [3]
        assert "not used" in step(table, "id >= 3 AND id < 21")
        with pytest.raises(Invalid, match="cannot be read"):
            table.refreshIndex("id")
    assert table.dropIndex("id")


def test_entries_that_lie_are_found_out() -> None:
    table = numbers()
    table.createIndex("id")
    table.createIndex("v", name="other")
    state = table.handle.newest()
    record = json.loads(state.domains["holdfast.index.other"].configuration or "")
    mine = json.loads(state.domains["holdfast.index.id"].configuration or "")
    mutation = ops.Mutation("X", domains={"holdfast.index.id": json.dumps({**mine, "segments": []})}, data_change=False)
    open_delta(state).commit(mutation, system())
    assert "have no entry" in str(table.verifyIndex("id"))
    crossed = json.dumps({**mine, "segments": record["segments"]})
    mutation = ops.Mutation("X", domains={"holdfast.index.id": crossed}, data_change=False)
    open_delta(table.handle.newest()).commit(mutation, system())
    assert not DeltaTable.forPath(None, state.snapshot.location.url).verifyIndex("id").is_right


def test_a_table_whose_rows_cannot_be_located_is_scanned() -> None:
    table = numbers()
    table.createIndex("id")
    state = table.handle.newest()
    location = state.snapshot.location
    one = state.snapshot.files.table.slice(0, 1).to_pylist()[0]
    add = {
        "path": one["path"],
        "partitionValues": {},
        "size": one["size"],
        "modificationTime": 0,
        "dataChange": False,
        "baseRowId": one["base_row_id"],
        "defaultRowCommitVersion": one["default_row_commit_version"],
    }
    lines = [{"commitInfo": {"operation": "ANALYZE"}}, {"add": add}]
    body = "\n".join(map(json.dumps, lines)).encode()
    location.store.put(location.key("_delta_log", f"{state.version + 1:020}.json"), body)
    again = DeltaTable.forPath(None, location.url)
    assert again.toArrow(where="id = 3").num_rows == 1
    with pytest.raises(Damaged):
        again.take([3])
