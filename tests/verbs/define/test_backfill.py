"""Row ids for tables that have rows: whatever they look like, beside other writers, and stopped at any point."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from holdfast import DeltaTable, Invalid
from holdfast import env as environment
from holdfast.engines.local.engine import LocalEngine
from holdfast.engines.local.incoming import LocalRows
from holdfast.errors import ConcurrentWrite, TableError
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.state import DeltaState, load
from holdfast.model.mutation import VersionTaken
from holdfast.plan.scan.request import Request
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location
from holdfast.verbs.define.backfill import restamped, supported
from holdfast.verbs.define.row_tracking import Progress, Step, enable_row_tracking
from holdfast.verbs.dml.write import WriteOptions, write
from holdfast.verbs.open.delta import open_delta
from tests.support.faulty import Crash, every_fault
from tests.support.tablesmith import Tablesmith

SCHEMA = [("id", "long"), ("p", "string")]
ENV = environment.system()
IDS = ("_row_id", "_row_commit_version")


def rows(first: int, count: int, partition: str = "x") -> list[dict[str, Any]]:
    return [{"id": i, "p": partition} for i in range(first, first + count)]


def varied(where: Location | Path, **asked: Any) -> Tablesmith:
    """Partitions with odd names, vectors of both kinds, statistics of every kind."""
    smith = Tablesmith(where, schema=SCHEMA, partition_by=["p"], row_tracking=False, **asked)
    smith.append([*rows(0, 4, "a b"), *rows(4, 3, "x%y")], files=2)
    smith.append(rows(10, 5), stats=False)
    smith.append(rows(20, 5), stats="count")
    smith.append([{"id": None, "p": None}, {"id": 30, "p": None}], stats="wide")
    smith.hide(0, [0])
    smith.hide(4, [1, 3], storage="i")
    return smith


def read(location: Location, *metadata: str) -> list[dict[str, Any]]:
    table = open_delta(load(location)).scan(Request(metadata=metadata), LocalEngine())
    return sorted(table.to_pylist(), key=lambda row: (repr(row["p"]), repr(row["id"])))


def others_read(path: Path) -> list[dict[str, Any]]:
    table = deltalake.DeltaTable(str(path))
    found = deltalake.QueryBuilder().register("t", table).execute("select id, p from t").read_all()
    return sorted(pa.table(found).to_pylist(), key=lambda row: (repr(row["p"]), repr(row["id"])))


def enable(location: Location, batch_files: int = 2, progress: Callable[[Progress], None] | None = None) -> None:
    enable_row_tracking(load(location), ENV, batch_files=batch_files, progress=progress)


def tracked_rows(location: Location) -> list[dict[str, Any]]:
    """Every file has ids, no two rows the same, none above the mark; the rows, as `read` gives them."""
    state = load(location)
    identity, files = state.snapshot.identity, state.snapshot.files
    assert identity is not None
    assert identity.id_column is not None
    assert identity.version_column is not None
    bases, counts = files.column("base_row_id").to_pylist(), files.num_records.to_pylist()
    given = [base + i for base, count in zip(bases, counts, strict=True) for i in range(count)]
    assert len(set(given)) == len(given)
    assert max(given, default=-1) <= identity.high_water
    assert None not in files.column("default_row_commit_version").to_pylist()
    found = read(location, *IDS)
    seen = [row["_row_id"] for row in found]
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(given)
    return [{name: row[name] for name in ("id", "p")} for row in found]


def append(location: Location, first: int, count: int, state: DeltaState | None = None) -> None:
    table = pa.Table.from_pylist(rows(first, count, "new"), pa.schema([("id", pa.int64()), ("p", pa.string())]))
    write(open_delta(state or load(location)), LocalRows(table, ENV), WriteOptions(), ENV)


def actions(location: Location, version: int, kind: str) -> list[dict[str, Any]]:
    text = location.store.get(location.key("_delta_log", f"{version:020}.json")).decode()
    return [line[kind] for line in map(json.loads, text.splitlines()) if kind in line]


def in_memory() -> Location:
    return Location(MemoryStore(), "t")


@pytest.mark.parametrize("checkpoint", [None, "json", "struct", "both"])
@pytest.mark.parametrize("mapping", [None, "name"])
def test_rows_stay_and_get_ids(tmp_path: Path, checkpoint: str | None, mapping: str | None) -> None:
    smith = varied(tmp_path, column_mapping=mapping)
    if checkpoint is not None:
        smith.checkpoint(stats=checkpoint)
    location = open_location(str(tmp_path))
    before = read(location)
    heard: list[Progress] = []
    done = DeltaTable.forPath(None, tmp_path).enableRowTracking(batchFiles=3, progress=heard.append)
    assert (done.files, done.commits, done.version) == (7, 5, smith.version + 5)
    assert [(p.step, p.files_done, p.files_left) for p in heard] == [
        (Step.SUPPORT, 0, 7),
        (Step.BACKFILL, 3, 4),
        (Step.BACKFILL, 6, 1),
        (Step.BACKFILL, 7, 0),
        (Step.ENABLE, 7, 0),
    ]
    assert tracked_rows(location) == before
    if mapping is None:  # delta-rs does not read mapped columns
        assert others_read(tmp_path) == before
    assert DeltaTable.forPath(None, tmp_path).enableRowTracking().commits == 0


def test_files_are_added_again_as_they_were() -> None:
    location = in_memory()
    smith = varied(location)
    extra = {"tags": {"k": "v"}, "clusteringProvider": "someone"}
    adds = [{"add": {**add, **extra}} for add in smith.write(rows(40, 2))]
    smith.commit(adds, operation="WRITE")
    old = {add["path"]: add for add in smith.live()}
    enable(location, batch_files=100)
    version = smith.version + 2
    new = {add["path"]: add for add in actions(location, version, "add")}
    assert new.keys() == old.keys()
    assert actions(location, version, "remove") == []
    for path, add in new.items():
        given = {add.pop("baseRowId") >= 0, add.pop("defaultRowCommitVersion") == version}
        assert given == {True}
        expected = {**old[path], "dataChange": False}
        if "stats" not in expected:
            expected["stats"] = '{"numRecords":5}'
        assert add == expected
    (info,) = actions(location, version, "commitInfo")
    assert (info["operation"], info["operationParameters"]) == ("ROW TRACKING BACKFILL", {"batchId": "0"})
    assert info["isBlindAppend"] is False
    (flip,) = actions(location, version + 1, "commitInfo")
    assert flip["tags"] == {"rowTrackingEnablementOnly": "true"}


def test_only_the_last_commit_touches_the_metadata() -> None:
    location = in_memory()
    smith = varied(location)
    enable(location, batch_files=100)
    first = smith.version + 1
    assert [len(actions(location, v, "metaData")) for v in range(first, first + 3)] == [0, 0, 1]
    (new,) = actions(location, first + 2, "metaData")
    assert new["schemaString"] == smith.metadata()["schemaString"]
    assert new["id"] == smith.metadata()["id"]
    (protocol,) = actions(location, first, "protocol")
    assert {"rowTracking", "domainMetadata", "deletionVectors"} <= set(protocol["writerFeatures"])


def test_clustering_is_not_said_again(tmp_path: Path) -> None:
    table = (
        DeltaTable.create()
        .location(tmp_path)
        .addColumn("id", "bigint")
        .clusterBy("id")
        .property("holdfast.plain", "true")
        .execute()
    )
    table.append(pa.table({"id": [1, 2]}))
    location = open_location(str(tmp_path))
    clustered = load(location).snapshot.clustering_columns
    table.enableRowTracking()
    said = [d["domain"] for v in range(1, 5) for d in actions(location, v, "domainMetadata")]
    assert said == ["delta.rowTracking"]
    assert load(location).snapshot.clustering_columns == clustered == (("id",),)


def test_statistics_without_a_row_count_get_one() -> None:
    location = in_memory()
    smith = Tablesmith(location, schema=SCHEMA, row_tracking=False)
    texts = ['{"minValues":{"id":0},"maxValues":{"id":3}}', "not json", "[]", ""]
    adds = [{"add": {**smith.write(rows(i, 3))[0], "stats": text}} for i, text in enumerate(texts)]
    smith.commit(adds, operation="WRITE")
    enable(location)
    tracked_rows(location)
    stats = [
        json.loads(add["stats"])
        for v in range(smith.version + 2, smith.version + 4)
        for add in actions(location, v, "add")
    ]
    assert stats[0] == {"minValues": {"id": 0}, "maxValues": {"id": 3}, "numRecords": 3}
    assert stats[1:] == [{"numRecords": 3}] * 3


def test_an_empty_table_and_an_old_protocol(tmp_path: Path) -> None:
    table = (
        DeltaTable.create().location(tmp_path).addColumn("id", "bigint").property("holdfast.plain", "true").execute()
    )
    assert load(open_location(str(tmp_path))).protocol.min_writer_version == 2
    done = table.enableRowTracking()
    assert (done.version, done.files, done.commits) == (2, 0, 2)
    table.append(pa.table({"id": [1, 2]}))
    assert table.toArrow(metadata=["_row_id"])["_row_id"].to_pylist() == [0, 1]


def test_a_writer_between_the_commits() -> None:
    location = in_memory()
    varied(location)
    before = read(location)
    stale = load(location)
    appended = []

    def progress(seen: Progress) -> None:
        """A writer that saw the table before anything happened, and one that sees it now."""
        for state in (stale, None):
            first = 1000 + 10 * len(appended)
            append(location, first, 2, state)
            appended.extend(rows(first, 2, "new"))

    enable(location, progress=progress)
    assert len(appended) == 2 * 2 * 6
    tracked_rows(location)
    by = sorted([*before, *appended], key=lambda row: (repr(row["p"]), repr(row["id"])))
    assert read(location) == by


class Racing:
    """A store in which another writer commits just before each of the first commits that are tried."""

    def __init__(self, inner: ObjectStore, race: Callable[[int], None], races: int) -> None:
        self._inner, self._race, self._races, self._done = inner, race, races, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        if key.endswith(".json") and self._done < self._races:
            self._done += 1
            self._race(self._done)
        return self._inner.put_if_absent(key, data)


def test_every_commit_may_lose_its_race() -> None:
    location = in_memory()
    varied(location)
    before = read(location)
    racing = Racing(location.store, lambda n: append(location, 100 * n, 1), 12)
    enable_row_tracking(load(Location(racing, "t")), ENV, batch_files=2)  # type: ignore[arg-type]
    tracked_rows(location)
    added = [row for n in range(1, 13) for row in rows(100 * n, 1, "new")]
    assert read(location) == sorted([*before, *added], key=lambda row: (repr(row["p"]), repr(row["id"])))


def test_several_runs_and_writers_at_once() -> None:
    location = in_memory()
    varied(location)
    before = read(location)
    start = load(location).version
    failures: list[BaseException] = []

    def noted(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except (TableError, AssertionError) as error:
                failures.append(error)

        return run

    def write_some(first: int) -> None:
        for n in range(4):
            append(location, first + 10 * n, 2)

    works = [*[lambda: enable(location, batch_files=1)] * 3, lambda: write_some(1000), lambda: write_some(2000)]
    threads = [threading.Thread(target=noted(work)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    added = [row for first in (1000, 2000) for n in range(4) for row in rows(first + 10 * n, 2, "new")]
    assert tracked_rows(location) == sorted([*before, *added], key=lambda row: (repr(row["p"]), repr(row["id"])))
    history = [actions(location, v, "commitInfo")[0]["operation"] for v in range(load(location).version + 1)]
    upgrade = history.index("UPGRADE PROTOCOL")
    late = sum(len(actions(location, v, "add")) for v in range(start + 1, upgrade))  # files that came just before it
    assert [history.count(name) for name in ("UPGRADE PROTOCOL", "ROW TRACKING BACKFILL", "SET TBLPROPERTIES")] == [
        1,
        7 + late,
        1,
    ]


def test_what_a_winner_removed_or_stamped_is_left_out() -> None:
    location = in_memory()
    smith = Tablesmith(location, schema=SCHEMA, row_tracking=False)
    smith.append(rows(0, 8), files=4)

    def race(n: int) -> None:
        state = load(location)
        if n == 2:  # the first batch is about to be tried: another run of the same takes one file of it
            files = state.snapshot.files
            one = (
                files.table.slice(0, 1)
                .append_column("num_records", pa.array([2]))
                .append_column("stats", pa.array(['{"numRecords":2}']))
            )
            assert not isinstance(DeltaFormat(location).attempt(state, restamped(one, 0), ENV), VersionTaken)
        if n == 3:
            gone = smith.live()[1]["path"]
            smith.log.extend([[]] * (state.version - smith.version))
            smith.commit([{"remove": {"path": gone, "dataChange": True, "deletionTimestamp": 1}}])

    racing = Racing(location.store, race, 3)
    done = enable_row_tracking(load(Location(racing, "t")), ENV, batch_files=10)  # type: ignore[arg-type]
    assert done.files == 2
    tracked_rows(location)
    assert [row["id"] for row in read(location)] == [0, 1, 4, 5, 6, 7]


def test_an_overwrite_that_began_before_says_the_ids_of_what_it_removes() -> None:
    location = in_memory()
    varied(location)
    stale = load(location)
    enable(location)
    stamped = load(location)
    one = pa.table({"id": pa.array([1], pa.int64()), "p": ["x"]})
    written = write(open_delta(stale), LocalRows(one, ENV), WriteOptions(replace=True), ENV)
    assert (written.version, written.attempts) == (stamped.version + 1, 2)
    removed = actions(location, stamped.version + 1, "remove")
    told = {r["path"]: (r["baseRowId"], r["defaultRowCommitVersion"]) for r in removed}
    files = stamped.snapshot.files.table.select(["path", "base_row_id", "default_row_commit_version"]).to_pylist()
    assert told == {f["path"]: (f["base_row_id"], f["default_row_commit_version"]) for f in files}
    assert [(row["id"], row["_row_id"]) for row in read(location, *IDS)] == [(1, high_water(stamped) + 1)]


def high_water(state: DeltaState) -> int:
    assert state.snapshot.identity is not None
    return state.snapshot.identity.high_water


def test_a_change_of_schema_does_not_stand_beside_the_flip() -> None:
    location = in_memory()
    varied(location)
    stale = load(location)
    enable(location)
    wider = pa.table({"id": [1], "p": ["x"], "more": ["y"]})
    with pytest.raises(ConcurrentWrite, match="protocol"):
        write(open_delta(stale), LocalRows(wider, ENV), WriteOptions(add_columns=True), ENV)


def test_a_suspended_table_is_left_alone() -> None:
    location = in_memory()
    Tablesmith(
        location,
        schema=SCHEMA,
        row_tracking=False,
        features=["rowTracking", "domainMetadata"],
        properties={"delta.rowTrackingSuspended": "true"},
    )
    with pytest.raises(Invalid, match="suspended"):
        enable(location)
    with pytest.raises(Invalid, match="at least one file"):
        enable(location, batch_files=0)


@pytest.mark.parametrize("stop", range(1, 7))
def test_stopped_after_any_commit_it_goes_on(stop: int) -> None:
    location = in_memory()
    varied(location)
    before = read(location)
    heard: list[Progress] = []

    def progress(seen: Progress) -> None:
        heard.append(seen)
        if len(heard) == stop:
            raise Crash("stopped")

    with pytest.raises(Crash):
        enable(location, progress=progress)
    assert read(location) == before
    version = load(location).version
    assert (load(location).snapshot.identity is None) is (stop < 6)
    enable(location)
    assert load(location).version == version + 6 - stop
    assert tracked_rows(location) == before


def test_a_fault_anywhere_is_survived_and_run_again() -> None:
    first = in_memory()
    smith = Tablesmith(first, schema=SCHEMA, row_tracking=False)
    smith.append(rows(0, 3), files=2)
    smith.append(rows(10, 2, "y"), stats=False)
    smith.hide(1, [1])
    smith.checkpoint()
    before = read(first)
    assert len(before) == 4
    stored = {meta.key: first.store.get(meta.key) for meta in first.store.list_all("t")}

    def made() -> ObjectStore:
        store = MemoryStore()
        for key, data in stored.items():
            store.put(key, data)
        return store

    def run(store: ObjectStore) -> None:
        enable(Location(store, "t"))

    def check(store: ObjectStore) -> None:
        location = Location(store, "t")
        assert read(location) == before
        enable(location)
        assert tracked_rows(location) == before

    assert every_fault(run, check, make=made) > 60


def test_support_alone_stamps_new_files_only() -> None:
    location = in_memory()
    smith = varied(location)
    state = load(location)
    DeltaFormat(location).attempt(state, supported(DeltaFormat.definition_of(state)), ENV)
    append(location, 500, 3)
    bases = load(location).snapshot.files.column("base_row_id").to_pylist()
    assert (bases.count(None), sorted(b for b in bases if b is not None)) == (len(smith.live()), [0])
