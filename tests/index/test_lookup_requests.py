"""What a lookup asks of the store, and what it does when the files of its index cannot be read."""

from __future__ import annotations

import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.errors import Invalid, TableError, Unavailable
from holdfast.storage import open as opening
from holdfast.storage.base import LARGEST_BYTES, NotFound, ObjectMeta
from holdfast.storage.memory import MemoryStore


class Watched(MemoryStore):
    """Counts requests for data, and refuses those for files of an index while `refuses` is set."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.requests: list[str] = []
        self.refuses: TableError | None = None

    def _asked(self, key: str) -> None:
        self.requests.append(key)
        if self.refuses is not None and "/_holdfast/" in key:
            raise self.refuses

    def get(self, key: str, most: int = LARGEST_BYTES) -> bytes:
        self._asked(key)
        return super().get(key, most)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._asked(key)
        return super().get_range(key, start, length)

    def head(self, key: str) -> ObjectMeta:
        self._asked(key)
        return super().head(key)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Watched:
    watched = Watched("watched")
    monkeypatch.setattr(opening, "_memory_store", lambda name: watched)
    return watched


def rows(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "v": [f"v{i}" for i in ids]})


def indexed() -> DeltaTable:
    table = DeltaTable.create(None).location("memory://watched/t").addColumn("id", "long").addColumn("v", "string")
    created = table.execute()
    created.append(rows(0, 1000))
    created.createIndex("id")
    return created


def test_a_tail_of_many_small_commits_costs_about_what_a_scan_does(store: Watched) -> None:
    table = indexed()
    for n in range(40):
        table.append(rows(1000 + 10 * n, 10))
    fresh = DeltaTable.forPath(None, "memory://watched/t")
    store.requests.clear()
    assert fresh.lookup(id=1055)["v"].to_pylist() == ["v1055"]
    assert len(store.requests) <= 10
    for n in range(100):  # until reading all of the tail at once is cheaper
        assert fresh.lookup(id=1000 + 4 * n).num_rows == 1
    store.requests.clear()
    assert fresh.lookup({"id": [1001, 1399, 7, 5000]}).num_rows == 3
    assert len([key for key in store.requests if key.endswith(".parquet") and "/_holdfast/" not in key]) <= 3
    # Rows that moved and rows that changed come once each, as a scan has them.
    table.update("id % 100 = 55", {"v": "'new'"})
    table.optimize().executeCompaction()
    moved = DeltaTable.forPath(None, "memory://watched/t")
    for key in (55, 1055, 1399, 3):
        assert moved.lookup(id=key).equals(moved.toArrow(where=f"id = {key}"))


@pytest.mark.parametrize(
    "refusal",
    [
        Invalid("cannot read the index: the credentials are not accepted (status 403)"),
        Unavailable("cannot read the index: Permission denied"),
        NotFound("t/_holdfast", url="memory://watched"),
    ],
    ids=["refused", "unavailable", "gone"],
)
def test_an_index_that_cannot_be_read_leaves_a_scan(store: Watched, refusal: TableError) -> None:
    indexed()
    table = DeltaTable.forPath(None, "memory://watched/t")
    store.refuses = refusal
    assert table.lookup(id=7)["v"].to_pylist() == ["v7"]
    assert table.toArrow(where="id = 7").num_rows == 1


def test_an_index_that_can_no_longer_be_read_leaves_a_scan(store: Watched) -> None:
    table = indexed()
    table.append(rows(1000, 10))
    again = DeltaTable.forPath(None, "memory://watched/t")
    assert again.lookup(id=7).num_rows == 1
    store.refuses = Invalid("cannot read the index: the credentials are not accepted (status 403)")
    assert again.lookup({"id": [8, 999, 1005]}).num_rows == 3
    shown = str(DeltaTable.forPath(None, "memory://watched/t").explain(where="id in (7, 1005)"))
    assert "the credentials are not accepted (status 403)" in shown
