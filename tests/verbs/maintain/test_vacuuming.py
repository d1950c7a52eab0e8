"""Vacuum: what goes, what stays, and what the log says of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.env import Env, system
from holdfast.errors import Invalid, TableError, UnknownVersion
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.history.vacuums import read_info
from holdfast.formats.delta.log.file_names import commit_name
from holdfast.formats.delta.state import load
from holdfast.model.mutation import TableDefinition
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import make
from holdfast.verbs.maintain.vacuum import vacuum
from tests.support.faulty import CountingStore, every_fault
from tests.verbs.days import COLUMNS, DAY_MS, Days, opened, rows_of


def test_files_go_a_week_after_nothing_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.append(1, 2)  # version 1
    days.pass_days(10)
    days.table.delete("id = 1")  # 2: a vector
    days.table.delete("id = 2")  # 3: the file goes
    days.append(3)  # 4
    before = {v: rows_of(days.table, v) for v in range(5)}
    days.pass_days(6)
    assert days.table.vacuum(dryRun=True).paths == []
    days.pass_days(1.1)
    told = days.table.vacuum(dryRun=True)
    assert len(told.paths) == 2
    assert told.version is None
    assert days.table.version == 4
    done = days.table.vacuum()
    assert sorted(done.paths) == sorted(told.paths)
    assert (done.bytes, done.lost, done.version) == (told.bytes, told.lost, 5)
    assert str(done.lost) == "1 to 2"
    assert str(done.readable) == str(days.table.readableVersions()) == "0, 3 to 6"
    assert not set(done.paths) & days.names
    assert {v: rows_of(days.table, v) for v in (0, 3, 4)} == {v: before[v] for v in (0, 3, 4)}


def test_what_it_does_is_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.append(1)
    days.table.delete()
    days.pass_days(1)
    days.table.vacuum(12, enforceRetention=False)
    end, start = days.table.historyArrow(2).to_pylist()
    assert (start["operation"], end["operation"]) == ("VACUUM START", "VACUUM END")
    parameters = dict(start["operationParameters"])
    assert parameters["specifiedRetentionMillis"] == str(12 * 3_600_000)
    assert parameters["defaultRetentionMillis"] == str(7 * DAY_MS)
    assert parameters["retentionCheckEnabled"] == "false"
    assert json.loads(parameters["versionsLost"]) == [[1, 1]]
    assert dict(start["operationMetrics"])["numFilesToDelete"] == "1"
    assert dict(end["operationParameters"]) == {"status": "COMPLETED"}
    assert dict(end["operationMetrics"]) == {"numDeletedFiles": "1", "numVacuumedDirectories": "0"}


def test_change_files_are_kept_for_as_long_as_their_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch, {"delta.enableDeletionVectors": "false"})
    days.append(1, 2)
    days.table.update("id = 1", {"v": "'b'"})
    (change,) = (name for name in days.names if name.startswith("_change_data"))
    days.pass_days(6.5)
    assert change not in days.table.vacuum(dryRun=True).paths
    days.pass_days(1)
    assert change in days.table.vacuum(dryRun=True).paths


def test_leftovers_of_failed_writes_go_and_young_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.append(1)
    days.pass_days(8)
    store = days.location.store
    store.put("t/_holdfast/stage/1/part-0.parquet", b"new")
    days.now -= 8 * DAY_MS
    for name in ("part-9.parquet", "deletion_vector_9.bin", "_holdfast/stage/0/part-0.parquet", "_holdfast/erasures/1"):
        store.put(f"t/{name}", b"old")
    days.pass_days(8)
    gone = ["_holdfast/stage/0/part-0.parquet", "deletion_vector_9.bin", "part-9.parquet"]
    assert sorted(days.table.vacuum().paths) == gone


def test_a_short_retention_must_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch, {"delta.deletedFileRetentionDuration": "interval 2 days"})
    with pytest.raises(Invalid, match=r"keeps files for 48 hours .* and 47 is less.*enforceRetention=False"):
        days.table.vacuum(47)
    days.table.vacuum(48)
    hours: Any
    for hours in (-1, float("nan"), float("inf"), True, "7"):
        with pytest.raises(Invalid, match="number of hours"):
            days.table.vacuum(hours, enforceRetention=False)


def test_a_longer_retention_keeps_what_checkpoints_have_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.append(1)
    days.table.delete()
    days.pass_days(10)
    days.append(2)
    write_checkpoint(load(days.location), days.env)  # forgets the removal
    assert days.table.vacuum(24 * 20, dryRun=True).paths == []
    assert len(days.table.vacuum(dryRun=True).paths) == 1


def test_a_removal_without_a_time_counts_from_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.append(1)
    days.pass_days(30)
    days.table.delete()
    key = days.location.key("_delta_log", commit_name(2))
    lines = [json.loads(line) for line in days.location.store.get(key).splitlines()]
    for line in lines:
        line.get("remove", {}).pop("deletionTimestamp", None)
    days.location.store.put(key, "\n".join(map(json.dumps, lines)).encode())
    assert opened(days.location.store).vacuum(dryRun=True).paths == []


def test_lite_deletes_what_the_log_says(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.append(1, 2)
    days.table.delete("id = 1")
    days.table.delete("id = 2")
    days.location.store.put("t/part-orphan.parquet", b"x")
    days.pass_days(8)
    full, lite = days.table.vacuum(dryRun=True), days.table.vacuum(lite=True, dryRun=True)
    assert set(full.paths) - set(lite.paths) == {"part-orphan.parquet"}
    assert days.table.vacuum(lite=True).paths == lite.paths
    assert str(days.table.readableVersions()) == "0, 3 to 5"
    info = read_info(days.location)
    assert info is not None
    assert (info.last, str(info.lost)) == (3, "1 to 2")
    days.append(3)
    days.table.delete("id = 3")
    days.pass_days(8)
    store = CountingStore(days.location.store)
    done = opened(store).vacuum(lite=True)
    assert (done.files.num_rows, str(done.lost)) == (1, "6")
    assert store.calls["list_all"] == 0
    assert store.calls["delete"] == 1


def test_lite_needs_the_commits_since_the_last_vacuum(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.append(1)
    days.table.delete()
    write_checkpoint(load(days.location), days.env)
    days.append(2)
    for version in (0, 1):
        days.location.store.delete(days.location.key("_delta_log", commit_name(version)))
    days.pass_days(8)
    with pytest.raises(Invalid, match="every commit since version 0, and the log begins at version 2: run a full"):
        opened(days.location.store).vacuum(lite=True)
    opened(days.location.store).vacuum()
    assert opened(days.location.store).vacuum(lite=True).paths == []


@cache
def _template() -> tuple[MemoryStore, int]:
    store = MemoryStore()
    shape = TableDefinition(
        COLUMNS, properties={"delta.enableChangeDataFeed": "true", "delta.checkpointInterval": "1000"}
    )
    make(Location(store, "t"), shape, system(), mode=CreateMode.CREATE, plain=False)
    table = opened(store)
    for first in (0, 5):
        table.append(pa.table({"id": pa.array(range(first, first + 5), pa.int64()), "v": ["a"] * 5}))
    table.delete("id = 1")
    table.update("id > 5", {"v": "'b'"}, mode="copy-on-write")
    table.pin(1, "audit")
    table.delete("id < 3", mode="copy-on-write")
    return store, table.version


def _copied() -> ObjectStore:
    template, _ = _template()
    store = MemoryStore(env=Env(now_ms=lambda: 1, new_uuid=system().new_uuid))
    for found in template.list_all("t"):
        store.put(found.key, template.get(found.key))
    return store


def _later() -> Env:
    return Env(now_ms=lambda: system().now_ms() + 8 * DAY_MS, new_uuid=system().new_uuid)


VACUUMS: dict[str, Callable[[ObjectStore], object]] = {
    "full": lambda store: vacuum(load(Location(store, "t")), _later()),
    "lite": lambda store: vacuum(load(Location(store, "t")), _later(), lite=True),
}


@pytest.mark.parametrize("name", VACUUMS)
def test_a_fault_anywhere_leaves_readable_versions_as_they_were(name: str) -> None:
    """Whatever fails, a version is read as it was or refused, those in retention and pinned ones are read."""
    whole, newest = _template()
    expected = {v: rows_of(opened(whole), v) for v in range(newest + 1)}

    seen: set[frozenset[str]] = set()

    def check(store: ObjectStore) -> None:
        objects = frozenset(meta.key for meta in store.list_all("t"))
        if objects in seen:  # most faults leave what others left
            return
        seen.add(objects)
        table = opened(store)
        readable = table.readableVersions()
        assert {1, newest} <= set(readable)
        for version in readable:
            if version <= newest:
                assert rows_of(table, version) == expected[version]
        for version in set(range(newest + 1)) - set(readable):
            with pytest.raises(TableError):
                rows_of(table, version)
        VACUUMS[name](store)  # and the next one ends what this one began
        assert str(opened(store).readableVersions()).startswith("0 to 1, ")

    assert every_fault(VACUUMS[name], check, make=_copied) > 40
    assert len(seen) > 4


@pytest.mark.on_disk
def test_directories_and_unfinished_files_of_local_tables(tmp_path: Path) -> None:
    builder = DeltaTable.create(None).location(str(tmp_path)).addColumn("id", "long").addColumn("_p", "string")
    table = builder.partitionedBy("_p").execute()
    odd = ["a b", "c/d%", "ü=1", "%20"]
    table.append(pa.table({"id": pa.array(range(4), pa.int64()), "_p": odd}))
    table.append(pa.table({"id": pa.array([9], pa.int64()), "_p": ["stays"]}))
    table.delete("id < 4")
    (tmp_path / "_p=stays" / ".part-1.parquet.holdfast-tmp").write_bytes(b"half")
    (tmp_path / os.fsdecode(b"not-\xff-text")).write_bytes(b"x")
    (tmp_path / "inner" / "_delta_log").mkdir(parents=True)
    (tmp_path / "inner" / "_delta_log" / commit_name(0)).write_text("{}")
    (tmp_path / "inner" / "part-0.parquet").write_bytes(b"x")
    done = vacuum(load(open_location(str(tmp_path))), _later())
    assert len(done.paths) == 5
    assert done.directories == 4
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_dir()) == ["_delta_log", "_p=stays", "inner"]
    assert len(list((tmp_path / "_p=stays").iterdir())) == 1
    assert (tmp_path / "inner" / "part-0.parquet").exists()
    assert table.toArrow().column("id").to_pylist() == [9]
    assert str(table.readableVersions()) == "0, 3 to 5"


@pytest.mark.on_disk
def test_files_outside_of_the_directory_are_never_deleted(tmp_path: Path) -> None:
    source = DeltaTable.create(None).location(str(tmp_path / "source")).addColumn("id", "long").execute()
    source.append(pa.table({"id": pa.array([1], pa.int64())}))
    (data,) = (tmp_path / "source").glob("part-*")
    log = tmp_path / "clone" / "_delta_log"
    log.mkdir(parents=True)
    lines = []
    for version in (0, 1):
        lines += (tmp_path / "source" / "_delta_log" / commit_name(version)).read_text().splitlines()
    actions = [action for line in lines if "commitInfo" not in (action := json.loads(line))]
    for action in actions:
        if "add" in action:
            action["add"]["path"] = data.as_uri()
    domains = [a for a in actions if "domainMetadata" in a][-1:]
    kept = [a for a in actions if "domainMetadata" not in a] + domains
    (log / commit_name(0)).write_text("\n".join(map(json.dumps, kept)))
    clone = DeltaTable.forPath(None, tmp_path / "clone")
    assert clone.toArrow().num_rows == 1
    clone.delete()
    for lite in (True, False):
        assert vacuum(load(open_location(str(tmp_path / "clone"))), _later(), lite=lite).paths == []
    assert data.exists()
    assert 0 in clone.readableVersions()
    data.unlink()
    assert 0 not in clone.readableVersions()


def test_another_store_is_not_looked_at_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    days = Days(monkeypatch)
    days.append(1)
    days.table.delete()
    for version in (1, 2):
        key = days.location.key("_delta_log", commit_name(version))
        lines = [json.loads(line) for line in days.location.store.get(key).splitlines()]
        for line in lines:
            for action in line.keys() & {"add", "remove"}:
                line[action]["path"] = "s3://nobody.example/part-0.parquet"
        days.location.store.put(key, "\n".join(map(json.dumps, lines)).encode())
    monkeypatch.setattr("holdfast.storage.open.place", lambda *_: pytest.fail("it was"))
    assert str(opened(days.location.store).readableVersions()) == "0, 2"


def test_vacuum_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    local = DeltaTable.create(None).location(str(tmp_path)).addColumn("id", "long").execute()
    local.append(pa.table({"id": pa.array(range(10), pa.int64())}))
    local.delete("id % 2 = 0")
    local.purge()
    table = DeltaTable.forPath(spark, tmp_path)
    before = sorted(row.id for row in table.toDF().collect())
    table.pin(1, "audit")
    done = vacuum(load(open_location(str(tmp_path))), _later())
    assert str(done.lost) == "2"
    assert sorted(row.id for row in table.toDF().collect()) == before
    assert table.scan(version=1).count() == 10
    with pytest.raises(UnknownVersion, match="vacuum"):
        table.scan(version=2)
