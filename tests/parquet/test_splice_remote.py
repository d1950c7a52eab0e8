"""Rows of files that are far away: few requests, many at a time."""

from __future__ import annotations

import time
from threading import Lock
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pytest

from holdfast.errors import Unavailable
from holdfast.parquet.pages import take
from holdfast.parquet.pages.take import Pick, Taking
from holdfast.parquet.read import FileTask
from holdfast.storage.memory import MemoryStore
from tests.parquet.taking import spec_of, stored

PAGE_ROWS, ROWS = 64, 60_000
SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), ("v", pa.list_(pa.float32()))])


class FarStore(MemoryStore):
    """Every request takes its time; counts them, and how many are under way."""

    def __init__(self, *, seconds: float = 0.0, broken: bool = False) -> None:
        super().__init__()
        self.name = f"far://{uuid4()}"
        self.requests, self.bytes, self.under_way, self.most = 0, 0, 0, 0
        self.broken = broken
        self._seconds = seconds
        self._counting = Lock()

    @property
    def url(self) -> str:
        return self.name

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._counting:
            self.requests += 1
            self.bytes += length
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        time.sleep(self._seconds)
        with self._counting:
            self.under_way -= 1
        if self.broken and length < take.GUESS:
            raise Unavailable("the network is down")
        return super().get_range(key, start, length)

    def forget(self) -> None:
        self.requests = self.bytes = self.most = 0


def file_of(rows: int) -> bytes:
    vectors = np.random.default_rng(1).random(rows * 32, np.float32)
    table = pa.table(
        {
            "n": pa.array(range(rows)),
            "s": pa.array([f"row {i}" for i in range(rows)]),
            "v": pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * 32), pa.array(vectors)),
        }
    )
    layout = {"n": "none", "s": "zstd", "v.list.element": "none"}
    return stored(table, compression=layout, use_dictionary=False, max_rows_per_page=PAGE_ROWS, row_group_size=25_000)


@pytest.fixture(scope="module")
def large() -> bytes:
    return file_of(ROWS)


def test_one_read_for_the_map_and_one_for_each_stretch(large: bytes) -> None:
    store = FarStore()
    store.put("f", large)
    spec, task = spec_of(SCHEMA), FileTask("f", size=len(large))

    def requests(positions: list[int], columns: pa.Schema = SCHEMA) -> int:
        store.forget()
        got = Taking(spec_of(columns)).rows([Pick(store, "f", task, np.array(positions))])
        assert got.column("at").to_pylist() == positions
        return store.requests

    assert requests([17]) == 1 + 3  # three columns lie apart
    assert requests([17]) == 3
    assert requests([17, 18, 200]) == 3  # pages close to each other come in one read
    assert requests([59_000, 5], SCHEMA.remove(0).remove(1)) == 2
    assert requests([5], pa.schema([])) == 0
    assert Taking(spec).rows([Pick(store, "f", task, np.array([17]))]).column("s").to_pylist() == ["row 17"]
    assert store.bytes < len(large) // 20


def test_ranges_are_read_side_by_side_but_not_without_end(large: bytes) -> None:
    store = FarStore(seconds=0.002)
    picks = []
    for number in range(6):
        store.put(f"f{number}", large)
        rows = np.random.default_rng(number).choice(ROWS, 100, replace=False)
        picks.append(Pick(store, f"f{number}", FileTask(f"f{number}", size=len(large)), rows))
    Taking(spec_of(SCHEMA)).rows(picks)
    store.forget()
    got = Taking(spec_of(SCHEMA)).rows(picks, parallel=8)
    assert 4 <= store.most <= 8
    assert store.requests <= 6 * 3 * 100
    assert got.column("n").to_pylist() == np.concatenate([pick.positions for pick in picks]).tolist()


def test_a_small_file_is_one_read_at_first() -> None:
    store, file = FarStore(), file_of(500)
    assert len(file) < take.GUESS
    store.put("f", file)
    pick = Pick(store, "f", FileTask("f", size=len(file)), np.array([3, 400]))
    assert Taking(spec_of(SCHEMA)).rows([pick]).column("n").to_pylist() == [3, 400]
    assert store.requests == 1


def test_a_size_that_is_not_known_or_wrong_changes_nothing(large: bytes) -> None:
    store = FarStore()
    store.put("f", large)
    for size in (None, len(large) - 1, len(large) + 7, 3):
        pick = Pick(store, "f", FileTask("f", size=size), np.array([59_999, 0]))
        assert Taking(spec_of(SCHEMA)).rows([pick]).column("n").to_pylist() == [59_999, 0]


def test_what_is_held_in_memory_is_bounded(large: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for little the files come one after the other, and the answer is the same."""
    store = FarStore()
    picks = []
    for number in range(4):
        store.put(f"f{number}", large)
        picks.append(Pick(store, f"f{number}", FileTask("f", size=len(large)), np.arange(number, ROWS, 997)))
    whole = Taking(spec_of(SCHEMA)).rows(picks)
    monkeypatch.setattr(take, "_AHEAD", 1)
    assert Taking(spec_of(SCHEMA)).rows(picks).equals(whole)


def test_a_store_that_cannot_be_reached_says_so(large: bytes) -> None:
    store = FarStore(broken=True)
    store.put("f", large)
    with pytest.raises(Unavailable, match="the network is down"):
        Taking(spec_of(SCHEMA)).rows([Pick(store, "f", FileTask("f", size=len(large)), np.array([5]))])
