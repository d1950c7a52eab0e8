"""What a vacuum asks of a store: not a request per commit, where checkpoints tell the same."""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections.abc import Callable

import pytest

from holdfast import DeltaTable
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.log.file_names import commit_name
from holdfast.formats.delta.state import load
from holdfast.verbs.maintain.vacuum_files import Vacuumed
from tests.support.faulty import CountingStore
from tests.verbs.days import Days, opened, rows_of

COMMITS = 240


@pytest.fixture(scope="module")
def long() -> Days:
    """240 commits in twelve days, a checkpoint every ten; a file comes and goes again in every other pair of them."""
    with pytest.MonkeyPatch.context() as patch:
        days = Days(patch, {"delta.checkpointInterval": "10"})
        for n in range(COMMITS // 2):
            days.append(n)
            if n % 2:
                days.table.delete(f"id = {n}")
            else:
                days.append(n + 1000)
            days.pass_days(0.1)
        assert days.table.version == COMMITS
        return days


def _counted(days: Days, verb: Callable[[DeltaTable], Vacuumed]) -> tuple[Vacuumed, CountingStore]:
    store = CountingStore(days.location.store)
    table = opened(store)
    store.calls.clear()
    return verb(table), store


@pytest.mark.parametrize(("hours", "files"), [(24 * 14, 0), (24 * 7, 25), (24, 55), (0, 60)])
def test_a_dry_run_reads_no_commit_that_a_checkpoint_tells_of(
    long: Days, monkeypatch: pytest.MonkeyPatch, hours: int, files: int
) -> None:
    monkeypatch.setattr("holdfast.verbs.open.handle.system", lambda: long.env)
    done, store = _counted(long, lambda table: table.vacuum(hours, dryRun=True, enforceRetention=False))
    assert done.files.num_rows == files
    assert store.calls["list_all"] == 1
    assert store.calls["get"] <= 25, "the newest version and the one at the horizon, each with its tombstones"
    assert store.calls.total() <= 35
    assert len(str(done)) > 0
    assert store.calls.total() <= 35, "printing reads nothing"
    assert set(done.lost) <= set(done.at_risk)
    assert len(done.lost) == files
    assert done.readable == opened(long.location.store).readableVersions() - done.lost
    assert len(done.readable) + files == COMMITS + 1
    assert store.calls["get"] > COMMITS, "the report is worth a look at every commit, when it is asked for"


def test_a_vacuum_reads_the_commits_of_versions_that_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch, {"delta.checkpointInterval": "10", "delta.logRetentionDuration": "interval 365 days"})
    for n in range(50):
        days.append(n)
        days.table.delete(f"id = {n}")
        days.pass_days(1)
    first = days.table.vacuum()
    assert (len(first.lost), max(first.lost)) == (44, 87)
    days.pass_days(2)
    again, store = _counted(days, lambda table: table.vacuum())
    assert str(again.lost) == "89, 91"
    assert store.calls["get"] <= 45, "a hundred commits are in the log"
    none, store = _counted(days, lambda table: table.vacuum())
    assert none.files.num_rows == len(none.lost) == 0
    assert store.calls["get"] <= 25
    days.pass_days(1)
    lite, store = _counted(days, lambda table: table.vacuum(lite=True))
    assert str(lite.lost) == "93"
    assert store.calls["list_all"] == 0
    assert store.calls["get"] <= 60
    assert lite.readable == days.table.readableVersions()


@pytest.mark.parametrize("days_between", [0.5, 3, 40])
def test_a_change_file_stays_however_much_older_it_is_than_its_commit(
    monkeypatch: pytest.MonkeyPatch, days_between: float
) -> None:
    days = Days(monkeypatch)
    days.append(1)
    change = "_change_data/cdc-1.parquet"
    store = days.location.store
    store.put(f"t/{change}", b"x")
    days.pass_days(days_between)
    days.append(2)
    key = days.location.key("_delta_log", commit_name(2))
    named = {"cdc": {"path": change, "partitionValues": {}, "size": 1, "dataChange": False}}
    store.put(key, store.get(key) + json.dumps(named).encode() + b"\n")
    days.append(3)
    write_checkpoint(load(days.location), days.env)
    days.pass_days(6.9)
    assert opened(store).vacuum(dryRun=True).paths == opened(store).vacuum().paths == []
    assert opened(store).vacuum(lite=True).paths == []
    days.pass_days(0.2)
    assert opened(store).vacuum(dryRun=True).paths == opened(store).vacuum().paths == [change]


def test_files_that_were_restored_and_removed_again_stay_although_checkpoints_forgot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    days = Days(monkeypatch, {"delta.deletedFileRetentionDuration": "interval 1 day"})
    days.append(1)
    days.table.delete()
    days.pass_days(1)
    write_checkpoint(load(days.location), days.env)
    days.append(2)
    days.pass_days(1)
    days.table.restoreToVersion(1)
    restored = days.table.version
    days.pass_days(1)
    days.table.delete()
    days.pass_days(5)
    days.append(3)
    write_checkpoint(load(days.location), days.env)
    month = opened(days.location.store).vacuum(6.5 * 24, dryRun=True)
    assert (month.paths, rows_of(days.table, restored)[0][0]) == ([], 1)
    assert len(opened(days.location.store).vacuum(3 * 24, dryRun=True).paths) == 2


def test_a_report_is_a_value_that_can_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.append(1)
    days.table.delete()
    days.append(2)
    days.pass_days(8)
    for done in (days.table.vacuum(dryRun=True), days.table.vacuum()):
        sent = pickle.loads(pickle.dumps(done))
        assert sent == done
        assert str(sent.lost) == "1"
        facts = dataclasses.asdict(done)
        assert (facts["lost"]["spans"], facts["readable"]["spans"]) == (done.lost.spans, done.readable.spans)
        assert "lost: 1" in str(sent)
        assert repr(done).startswith("Vacuumed(files=1, ")


def test_a_change_file_stays_with_a_commit_that_came_after_the_horizon(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch, {"delta.enableDeletionVectors": "false"})
    days.append(1, 2)
    days.pass_days(1)
    days.table.update("id = 1", {"v": "'b'"})
    (change,) = (name for name in days.names if name.startswith("_change_data"))
    written_ms = days.location.store.head(days.location.key("_delta_log", commit_name(2))).modified_ms
    changed_ms = days.location.store.head(f"t/{change}").modified_ms
    assert changed_ms < written_ms
    days.append(3)
    write_checkpoint(load(days.location), days.env)
    for moment_ms, goes in ((written_ms, False), (written_ms + 1, True)):
        days.now = moment_ms + 7 * 86_400_000 - 1
        told = days.table.vacuum(dryRun=True)
        assert told.horizon_ms == moment_ms
        assert (change in told.paths) is goes


def test_a_removal_without_a_time_counts_from_its_commit_in_a_checkpoint_too(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.append(1)
    days.pass_days(30)
    days.table.delete()
    key = days.location.key("_delta_log", commit_name(2))
    lines = [json.loads(line) for line in days.location.store.get(key).splitlines()]
    for line in lines:
        line.get("remove", {}).pop("deletionTimestamp", None)
    days.location.store.put(key, "\n".join(map(json.dumps, lines)).encode())
    write_checkpoint(load(days.location), days.env)
    assert opened(days.location.store).vacuum(dryRun=True).paths == []
    days.pass_days(8)
    assert len(opened(days.location.store).vacuum(dryRun=True).paths) == 1


def test_versions_are_lost_that_are_older_than_copies_of_their_files(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.append(1)
    days.append(2)
    days.pass_days(1)
    days.table.delete()
    store = days.location.store
    for name in days.names:
        store.put(f"t/{name}", store.get(f"t/{name}"))
    days.append(3)
    days.pass_days(8)
    assert str(days.table.vacuum(dryRun=True).lost) == "1 to 2"


def test_a_hint_of_any_length_is_no_burden(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.append(1)
    days.table.delete()
    days.pass_days(8)
    hint = {"latestCommitVersionOutsideOfRetentionWindow": 0, "holdfast": {"versions": [[2, 2**62]]}}
    days.location.store.put("t/_delta_log/_last_vacuum_info", json.dumps(hint).encode())
    done = days.table.vacuum(lite=True, dryRun=True)
    assert (str(done.lost), str(done.readable)) == ("1", "0")
