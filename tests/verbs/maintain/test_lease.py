"""Leases among compaction workers: bins are shared out while they hold, and free again when they end."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from holdfast import DeltaTable, env
from holdfast.errors import Invalid, Unavailable
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.verbs.maintain import optimize as optimizing
from holdfast.verbs.maintain.lease import DIRECTORY, Lease, Leases, lease_of
from tests.support.faulty import every_fault

COLUMNS = pa.schema([("k", pa.int64()), ("p", pa.int64())])
BINS = 4
_fresh = count()


def _workers() -> tuple[DeltaTable, DeltaTable]:
    """A table with small files in several partitions, opened by two workers."""
    path = f"memory://leases/{next(_fresh)}"
    table = DeltaTable.create(None).location(path).addColumns(COLUMNS).partitionedBy("p").execute()
    for n in range(3):
        table.append(pa.table({"k": range(n * 20, n * 20 + 20), "p": [k % BINS for k in range(20)]}, COLUMNS))
    return table, DeltaTable.forPath(None, path)


def _leases(table: DeltaTable) -> list[str]:
    location = table.handle.newest().snapshot.location
    return [m.key for m in location.store.list_all(location.key(*DIRECTORY))]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> tuple[list[tuple[str, ...]], list[Callable[[], Any]]]:
    """The bins that were written by whomever, and what happens while the next one is."""
    bins: list[tuple[str, ...]] = []
    meanwhile: list[Callable[[], Any]] = []
    rewritten = optimizing.rewritten

    def watched(snapshot: Any, work: Any, *given: Any, **named: Any) -> Any:
        bins.append(work.keys)
        if meanwhile:
            meanwhile.pop()()
        return rewritten(snapshot, work, *given, **named)

    monkeypatch.setattr(optimizing, "rewritten", watched)
    return bins, meanwhile


def test_two_workers_share_the_bins_and_write_none_twice(written: Any) -> None:
    bins, meanwhile = written
    one, two = _workers()
    done: list[Any] = []

    def another() -> None:
        assert len(_leases(two)) == 1
        done.append(two.optimize(lease="two").executeCompaction())

    meanwhile.append(another)
    mine = one.optimize(lease="one").executeCompaction()
    (theirs,) = done
    assert (mine.bins, mine.held, theirs.bins, theirs.held) == (1, BINS - 1, BINS - 1, 1)
    assert (len(mine.versions), len(theirs.versions)) == (1, 1), "bins that are ready are one commit"
    assert not mine.lost
    assert not theirs.lost
    files = [key for each in bins for key in each]
    assert (len(bins), len(files)) == (BINS, len(set(files)))
    assert not _leases(one)
    assert len(one.handle.newest().snapshot.files) == BINS
    assert sorted(one.toArrow(["k"]).column("k").to_pylist()) == list(range(60))


def test_without_leases_the_same_work_is_done_twice_and_nothing_is_wrong(written: Any) -> None:
    bins, meanwhile = written
    one, two = _workers()
    meanwhile.append(lambda: two.optimize().executeCompaction())
    mine = one.optimize().executeCompaction()
    assert (len(bins), len(mine.lost)) == (2 * BINS, BINS)
    assert sorted(one.toArrow(["k"]).column("k").to_pylist()) == list(range(60))


def test_a_lease_that_ended_is_taken_over(written: Any) -> None:
    _bins, meanwhile = written
    one, two = _workers()
    done: list[Any] = []
    meanwhile.append(lambda: done.append(two.optimize(lease="two").executeCompaction()))
    mine = one.optimize(lease=Lease("one", seconds=0.001)).executeCompaction()
    assert (done[0].bins, len(done[0].versions)) == (BINS, 1)  # also the bin that the first worker is still at
    assert (len(mine.lost), mine.versions, mine.held) == (1, (), BINS - 1)
    assert sorted(one.toArrow(["k"]).column("k").to_pylist()) == list(range(60))


def test_a_worker_that_fails_leaves_nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = _workers()

    def fails(*given: Any, **named: Any) -> Any:
        assert _leases(one)
        raise Unavailable("no disk")

    with monkeypatch.context() as patched:
        patched.setattr(optimizing, "rewritten", fails)
        with pytest.raises(Unavailable):
            one.optimize(lease=True).executeCompaction()
    assert not _leases(one)
    again = two.optimize(lease=True).executeCompaction()
    assert (again.bins, len(again.versions)) == (BINS, 1)


def _clock(now_ms: list[int]) -> env.Env:
    return env.Env(now_ms=lambda: now_ms[0], new_uuid=env.system().new_uuid)


def test_claims_by_files_name_and_time() -> None:
    now, store = [1000], MemoryStore()
    one, two = (Leases(Location(store, "t"), Lease(name, 10), _clock(now)) for name in ("one", "two"))
    assert one.claim(["a", "b"])
    assert not two.claim(["b", "a"])
    assert not two.claim(["b", "c"])  # one file is enough
    assert two.claim(["c"])
    assert one.claim(["a", "b"])  # its own
    one.release(["a", "b"])
    assert two.claim(["b", "a"])
    now[0] += 10_000
    assert one.claim(["a", "b"])
    assert not two.claim(["a", "b"])
    store.put("t/_holdfast/lease/broken.json", b"{")
    assert two.claim(["d"])


def test_what_may_be_asked_for() -> None:
    made = lease_of(True, env.fixed())
    assert made is not None
    assert made.worker
    assert lease_of(False, env.fixed()) is None
    assert lease_of("me", env.fixed()) == Lease("me")
    assert lease_of(Lease("me", 5), env.fixed()) == Lease("me", 5)
    with pytest.raises(Invalid, match="lease"):
        lease_of("", env.fixed())
    with pytest.raises(Invalid, match="lease"):
        Lease("me", 0)


@cache
def _held() -> ObjectStore:
    store = MemoryStore()
    Leases(Location(store, "t"), Lease("one", 1), _clock([0])).claim(["a"])
    return store


def test_faults_cost_a_lease_at_most() -> None:
    def made() -> ObjectStore:
        store = MemoryStore()
        for found in _held().list_all("t"):
            store.put(found.key, _held().get(found.key))
        return store

    def run(store: ObjectStore) -> None:
        two = Leases(Location(store, "t"), Lease("two"), _clock([5000]))
        if two.claim(["a"]):
            two.release(["a"])

    def check(store: ObjectStore) -> None:
        late = Leases(Location(store, "t"), Lease("three"), _clock([10_000_000]))
        assert late.claim(["a"])

    assert every_fault(run, check, make=made) > 10


def test_vacuum_takes_old_leases() -> None:
    one, _ = _workers()
    location = one.handle.newest().snapshot.location
    Leases(location, Lease("gone", 1), _clock([0])).claim(["a"])
    one.setProperties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    one.vacuum(0)
    assert not _leases(one)
