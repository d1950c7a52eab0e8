"""Bins that are ready are committed together, and one that is in the way of a commit takes no other with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.errors import Unavailable
from holdfast.formats.delta.state import load
from holdfast.plan.maintain import cluster
from holdfast.plan.maintain.cluster import CUBE
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.open import open_location
from holdfast.verbs.maintain import optimize as optimizing
from holdfast.verbs.maintain.lease import Lease
from holdfast.verbs.open.delta_handle import DeltaHandle
from tests.support.faulty import CountingStore

PARTS = "abcd"
T = TypeVar("T")
_fresh = count()


def _table() -> tuple[DeltaTable, DeltaTable]:
    """A table of four partitions with three files each, opened by two writers."""
    path = f"memory://together/{next(_fresh)}"
    builder = (
        DeltaTable.create(None).location(path).addColumn("k", "long").addColumn("v", "long").addColumn("p", "string")
    )
    table = builder.partitionedBy("p").execute()
    for n in range(3):
        keys = [4 * n + i for i in range(4)]
        table.append(pa.table({"k": keys, "v": [0] * 4, "p": list(PARTS)}))
    return table, DeltaTable.forPath(None, path)


def _rows(table: DeltaTable) -> dict[int, tuple[int, int]]:
    found = table.toArrow(metadata=["_row_id"]).to_pylist()
    made = {row["k"]: (row["v"], row["_row_id"]) for row in found}
    assert len(made) == len(found)
    return made


def _history(table: DeltaTable) -> list[str]:
    found: list[str] = table.historyArrow()["operation"].to_pylist()
    return found


def test_bins_of_all_partitions_are_one_commit_with_the_metrics_of_all(meanwhile: Any) -> None:
    table, _ = _table()
    before = _rows(table)
    done = table.optimize().executeCompaction()
    assert (len(done.versions), done.bins, done.lost, done.left) == (1, 4, (), 0)
    assert (done.metrics["numRemovedFiles"], done.metrics["numAddedFiles"]) == (12, 4)
    assert _history(table).count("OPTIMIZE") == 1
    said = dict(table.historyArrow()["operationMetrics"].to_pylist()[0])
    assert (said["numRemovedFiles"], said["numAddedFiles"]) == ("12", "4")
    assert _rows(table) == before


def test_rows_that_change_meanwhile_do_not_take_bins_apart(meanwhile: Any) -> None:
    table, other = _table()
    before = _rows(table)
    meanwhile(lambda: [other.update("k = 1", {"v": "7"}), other.delete("k = 6")])
    done = table.optimize().executeCompaction()
    assert (len(done.versions), done.bins, done.lost) == (1, 4, ())
    expected = {k: (7 if k == 1 else v, i) for k, (v, i) in before.items() if k != 6}
    assert _rows(table) == expected


def test_a_bin_that_another_writer_was_faster_with_is_lost_alone(meanwhile: Any) -> None:
    table, other = _table()
    before = _rows(table)
    meanwhile(lambda: other.optimize().where("p = 'b'").executeCompaction())
    done = table.optimize().executeCompaction()
    assert (done.bins, len(done.lost), len(done.versions), done.left) == (3, 1, 3, 0)
    assert done.metrics["numRemovedFiles"] == 9
    assert _rows(table) == before
    assert table.optimize().executeCompaction().bins == 0


def _cubes(table: DeltaTable) -> dict[str, set[str]]:
    """The partitions that files of each cube are in."""
    cubes: dict[str, set[str]] = {}
    for file in load(table.handle.newest().snapshot.location).snapshot.files.table.to_pylist():
        tags = dict(file["tags"] or ())
        cubes.setdefault(tags.get(CUBE, ""), set()).add(dict(file["partition_values"])["p"])
    return cubes


def test_partitions_in_an_order_are_one_commit_and_each_is_a_cube_of_its_own(meanwhile: Any) -> None:
    table, other = _table()
    before = _rows(table)
    assert len(table.optimize().executeZOrderBy("k", "v").versions) == 1
    cubes = _cubes(table)
    assert (len(cubes), sorted(map(tuple, cubes.values()))) == (4, [("a",), ("b",), ("c",), ("d",)])
    assert "" not in cubes
    assert table.optimize().plan(zOrderBy=["k", "v"]).bins == ()
    table.append(pa.table({"k": range(100, 104), "v": [0] * 4, "p": list(PARTS)}))
    meanwhile(lambda: other.optimize().where("p = 'b'").executeZOrderBy("v"))
    done = table.optimize().executeZOrderBy("k", "v")
    assert (done.bins, len(done.lost), len(done.versions)) == (3, 1, 3)
    assert {k: row for k, row in _rows(table).items() if k < 100} == before
    assert len(_cubes(table)) == 4


def test_groups_of_a_clustered_table_are_one_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "MOST_FILES", 2)
    path = f"memory://together/{next(_fresh)}"
    table = DeltaTable.create(None).location(path).addColumn("k", "long").clusterBy("k").execute()
    for n in range(6):
        table.append(pa.table({"k": range(10 * n, 10 * n + 10)}))
    done = table.optimize(targetRows=10).executeCompaction()
    assert (done.bins, len(done.versions)) == (4, 1)
    files = table.handle.newest().snapshot.files.table.to_pylist()
    assert len({dict(file["tags"])[CUBE] for file in files}) == 4
    assert sorted(table.toArrow()["k"].to_pylist()) == list(range(60))
    parameters = dict(table.historyArrow(1)["operationParameters"].to_pylist()[0])
    assert parameters["clusterBy"] == '["k"]'


def test_bins_wait_for_each_other_no_longer_than_their_lease_allows() -> None:
    table, _ = _table()
    done = table.optimize(lease=Lease("short", seconds=0.001)).executeCompaction()
    assert (done.bins, len(done.versions)) == (4, 4)


@pytest.mark.parametrize(("name", "bound"), [("GROUP_BYTES", 1), ("GROUP_MS", 0)])
def test_a_commit_is_bounded_by_bytes_and_by_time(name: str, bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = _table()
    before = _rows(table)
    monkeypatch.setattr(optimizing, name, bound)
    done = table.optimize().executeCompaction()
    assert (len(done.versions), done.bins) == (4, 4)
    assert _rows(table) == before


def test_what_is_written_is_committed_though_a_bin_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = _table()
    before = _rows(table)
    write: Callable[..., Any] = optimizing.rewritten
    turns = count()

    def fails_third(*given: Any, **named: Any) -> Any:
        if next(turns) == 2:
            raise Unavailable("no answer")
        return write(*given, **named)

    monkeypatch.setattr(optimizing, "rewritten", fails_third)
    with pytest.raises(Unavailable, match="no answer"):
        table.optimize().executeCompaction()
    assert _history(table).count("OPTIMIZE") == 1
    assert _rows(table) == before
    assert len(table.optimize().plan().bins) == 2


class _Far(CountingStore):
    """A store that is a round trip away, and how many requests were under way at once."""

    url = "far://away"

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.now = self.most = 0
        self._lock = threading.Lock()

    def _call(self, verb: str, key: str, run: Callable[[], T], *, writes: bool = False) -> T:
        reads = verb.startswith("get") and key.endswith(".parquet") and "_delta_log" not in key
        with self._lock:
            self.now += reads
            self.most = max(self.most, self.now)
        try:
            if reads:
                time.sleep(0.02)
            return super()._call(verb, key, run, writes=writes)
        finally:
            with self._lock:
                self.now -= reads


def test_files_of_a_bin_are_read_side_by_side_where_each_is_a_round_trip() -> None:
    path = f"memory://together/{next(_fresh)}"
    table = DeltaTable.create(None).location(path).addColumn("k", "long").execute()
    for k in range(12):
        table.append(pa.table({"k": [k]}))
    location = open_location(path)
    store = _Far(location.store)
    far = DeltaTable(DeltaHandle(None, load(Location(store, location.directory))))
    assert far.optimize().executeCompaction().bins == 1
    assert store.most >= 4
    found = table.toArrow(metadata=["_row_id"])
    assert found.sort_by("k").to_pylist() == [{"k": k, "_row_id": k} for k in range(12)]
