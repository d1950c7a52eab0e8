"""A small tracked table in memory, and ways to damage it by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa

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

COLUMNS = Struct((Field("id", LONG), Field("v", STRING)))
Action = dict[str, Any]


def opened(store: ObjectStore, directory: str = "t") -> DeltaTable:
    """The table in a store, without Spark."""
    return DeltaTable(DeltaHandle(None, load(Location(store, directory))))


def created(store: ObjectStore, properties: dict[str, str] | None = None, *, partitioned: bool = False) -> DeltaTable:
    """An empty table."""
    shape = TableDefinition(COLUMNS, partition_columns=("v",) if partitioned else (), properties=properties or {})
    make(Location(store, "t"), shape, env.system(), mode=CreateMode.CREATE, plain=False)
    return opened(store)


def append(table: DeltaTable, ids: range, v: str = "a") -> None:
    table.append(pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([v] * len(ids), pa.string())}))


def sample() -> MemoryStore:
    """A copy of the same table each time: versions 0 to 6, two files with vectors, ids carried, checkpoints of 3 and 6.

    1 and 2 append, 3 deletes with a vector, 4 updates, 5 appends, 6 deletes.
    """
    return copied(_template())


def copied(template: ObjectStore) -> MemoryStore:
    """A store with the same table."""
    store = MemoryStore()
    for found in template.list_all("t"):
        store.put(found.key, template.get(found.key))
    return store


@cache
def _template() -> MemoryStore:
    store = MemoryStore()
    table = created(store, {"delta.checkpointInterval": "3"})
    append(table, range(10))
    append(table, range(10, 20), "b")
    table.delete("id = 3")
    table.update("id = 15", {"v": "'u'"})
    append(table, range(20, 25), "c")
    table.delete("id = 4")
    return store


def log_key(name: str) -> str:
    return f"t/_delta_log/{name}"


def commit_key(version: int) -> str:
    return log_key(f"{version:020d}.json")


def actions(store: ObjectStore, version: int) -> list[Action]:
    return [json.loads(line) for line in store.get(commit_key(version)).splitlines()]


def rewrite(store: ObjectStore, version: int, change: Callable[[list[Action]], list[Action]]) -> None:
    """Change the actions of a commit."""
    lines = change(actions(store, version))
    store.put(commit_key(version), b"".join(json.dumps(line).encode() + b"\n" for line in lines))


def bare(store: ObjectStore) -> None:
    """Leave of the log nothing but commits, so that damage in one is seen by all."""
    for found in list(store.list_all("t/_delta_log")):
        if not found.key.endswith(".json"):
            store.delete(found.key)


def each_add(change: Callable[[Action], None]) -> Callable[[list[Action]], list[Action]]:
    """A change of every `add` of a commit."""

    def run(lines: list[Action]) -> list[Action]:
        for line in lines:
            if "add" in line:
                change(line["add"])
        return lines

    return run


def live(store: ObjectStore) -> pa.Table:
    """The live files."""
    return load(Location(store, "t")).snapshot.files.table
