"""A table whose days pass when a test says so."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.env import Env, system
from holdfast.formats.delta.state import load
from holdfast.model.mutation import TableDefinition
from holdfast.schema.types import LONG, STRING, Field, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import make
from holdfast.verbs.open.delta_handle import DeltaHandle

DAY_MS = 86_400_000

IDS = ["_row_id", "_row_commit_version"]

COLUMNS = Struct((Field("id", LONG), Field("v", STRING)))


class Days:
    """A table in a store whose clock is the test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str] | None = None) -> None:
        self.now = 1_700_000_000_000
        self.env = Env(now_ms=self._tick, new_uuid=system().new_uuid)
        monkeypatch.setattr("holdfast.verbs.open.handle.system", lambda: self.env)
        self.location = Location(MemoryStore(env=self.env), "t")
        settings = {"delta.enableChangeDataFeed": "true", "delta.checkpointInterval": "1000"} | (properties or {})
        make(
            self.location, TableDefinition(COLUMNS, properties=settings), self.env, mode=CreateMode.CREATE, plain=False
        )
        self.table = opened(self.location.store)

    def _tick(self) -> int:
        self.now += 1
        return self.now

    def pass_days(self, count: float) -> None:
        self.now += int(count * DAY_MS)

    def append(self, *ids: int) -> None:
        self.table.append(pa.table({"id": pa.array(ids, pa.int64()), "v": ["a"] * len(ids)}))

    @property
    def names(self) -> set[str]:
        found = {m.key.removeprefix("t/") for m in self.location.store.list_all("t")}
        return {name for name in found if not name.startswith("_delta_log")}


def opened(store: ObjectStore) -> DeltaTable:
    return DeltaTable(DeltaHandle(None, load(Location(store, "t"))))


def rows_of(table: DeltaTable, version: int | None = None) -> list[tuple[Any, ...]]:
    found = table.toArrow(metadata=IDS, version=version).sort_by("_row_id")
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))
