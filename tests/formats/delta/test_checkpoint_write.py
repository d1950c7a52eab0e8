"""Writing checkpoints: a state read from a checkpoint equals that of the commits."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.env import fixed
from holdfast.errors import Invalid, UnknownVersion
from holdfast.formats.delta.checkpoint.last_checkpoint import canonical_md5
from holdfast.formats.delta.checkpoint.writer import CheckpointWritten, Policy, write_checkpoint
from holdfast.formats.delta.log.file_names import LAST_CHECKPOINT, SIDECARS, commit_name
from holdfast.formats.delta.state import DeltaState, load, refresh
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from tests.formats.delta.histories import (
    STATS,
    STEPS,
    TABLES,
    Step,
    at,
    copies,
    env,
    facts,
    loaded,
    row,
    smith_of,
    store,
    take,
)
from tests.support.depth import examples
from tests.support.faulty import every_fault
from tests.support.tablesmith import Tablesmith

POLICIES: tuple[Policy, ...] = ("classic", "v2")
HISTORY = [Step(verb, n) for n, verb in enumerate(["append", "hide", "update", "txn", "domain", "remove", "inline"])]


def forget(location: Location, before: int) -> None:
    for version in range(before):
        location.store.delete(location.key("_delta_log", commit_name(version)))


def hint(location: Location) -> dict[str, Any]:
    contents: dict[str, Any] = json.loads(location.store.get(location.key("_delta_log", LAST_CHECKPOINT)))
    return contents


def names(location: Location) -> list[str]:
    return [meta.name for meta in location.store.list_from(location.key("_delta_log"))]


@examples(30)
@given(STEPS, TABLES, st.sampled_from(sorted(STATS)), st.sampled_from(POLICIES), st.data())
def test_a_checkpoint_says_what_the_commits_say(
    steps: list[Step], table: dict[str, Any], stats: str, policy: Policy, data: st.DataObject
) -> None:
    location = at(store())
    smith = smith_of(location, steps, properties=STATS[stats], **table)
    version = data.draw(st.integers(0, smith.version))
    before, last = facts(loaded(location, version)), facts(loaded(location))
    written = write_checkpoint(loaded(location, version), env(), policy=policy)
    assert written.created
    forget(location, version)
    through = loaded(location, version)
    assert through.segment.checkpoint is not None
    assert through.segment.deltas == ()
    assert facts(through) == before
    assert facts(loaded(location)) == last
    # A checkpoint of a checkpoint: statistics and removals go round once more.
    for again in POLICIES:
        write_checkpoint(loaded(location), env(), policy=again)
        forget(location, smith.version)
        assert facts(loaded(location)) == last


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("first", sorted(STATS))
def test_statistics_survive_any_change_of_their_shape(policy: Policy, first: str) -> None:
    location = at(store())
    smith = smith_of(location, HISTORY, properties=STATS[first], partition_by=("part",))
    texts = facts(loaded(location))["files"]
    for second in sorted(STATS):
        settings = {"delta.checkpoint.writeStatsAsJson": "true", "delta.checkpoint.writeStatsAsStruct": "false"}
        smith.evolve(**{k.replace(".", "__"): v for k, v in (settings | STATS[second]).items()})
        write_checkpoint(loaded(location), env(), policy=policy)
        forget(location, smith.version)
        assert facts(loaded(location))["files"] == texts


def test_without_statistics_only_they_are_gone() -> None:
    location = at(store())
    smith = smith_of(location, HISTORY, properties={"delta.checkpoint.writeStatsAsJson": "false"})
    before = facts(loaded(location), stats=False)
    write_checkpoint(loaded(location), env())
    forget(location, smith.version)
    state = loaded(location)
    assert facts(state, stats=False) == before
    assert state.snapshot.files.num_records.null_count == len(state.snapshot.files)


def test_expired_removals_and_applications_are_left_out() -> None:
    location = at(store())
    week, hour = 7 * 86_400_000, 3_600_000
    smith = smith_of(location, [], properties={"delta.setTransactionRetentionDuration": "interval 1 hour"})
    smith.append([row(n) for n in range(4)], files=4)
    start = 1_700_000_000_000
    for app, optional in (("old", {"lastUpdated": start}), ("silent", {}), ("new", {"lastUpdated": start + week})):
        smith.commit([{"txn": {"appId": app, "version": 1, **optional}}])
    paths = [add["path"] for add in smith.live()]
    for path, when in zip(paths, (None, 1_700_000_000_000, 1_700_000_000_000 + 2 * hour), strict=False):
        optional = {} if when is None else {"deletionTimestamp": when}
        smith.commit([{"remove": {"path": path, "dataChange": True, **optional}}])
    write_checkpoint(loaded(location), fixed(start_ms=1_700_000_000_000 + week + hour // 2))
    forget(location, smith.version)
    state = loaded(location)
    assert sorted(state.txns) == ["new"]
    assert [paths[2] in text for text in facts(state)["removed"]] == [True]
    assert state.snapshot.files.column("path").to_pylist() == paths[3:]


def test_the_hint_of_a_classic_checkpoint() -> None:
    location = at(store())
    smith = smith_of(location, HISTORY)
    written = write_checkpoint(loaded(location), env())
    hinted = hint(location)
    key = location.key("_delta_log", written.names[0])
    assert list(hinted) == ["version", "size", "sizeInBytes", "numOfAddFiles", "checksum"]
    assert hinted["version"] == smith.version
    assert hinted["size"] == written.actions == pq.read_metadata(_reader(location, key)).num_rows
    assert hinted["sizeInBytes"] == location.store.head(key).size
    assert hinted["numOfAddFiles"] == len(smith.live())
    assert hinted["checksum"] == canonical_md5(location.store.get(location.key("_delta_log", LAST_CHECKPOINT)))


def test_the_hint_and_the_files_of_a_v2_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.formats.delta.checkpoint.writer.SIDECAR_ACTIONS", 3)
    location = at(store())
    smith = smith_of(location, HISTORY, properties={"delta.checkpointPolicy": "v2"})
    written = write_checkpoint(loaded(location), env())
    top, *sidecars = written.names
    lines = [json.loads(line) for line in location.store.get(location.key("_delta_log", top)).splitlines()]
    kinds = [next(iter(line)) for line in lines]
    hinted = hint(location)
    rows = [pq.read_table(_reader(location, location.key("_delta_log", name))) for name in sidecars]
    assert top.endswith(".json")
    assert kinds[0] == "checkpointMetadata"
    assert kinds.count("sidecar") == len(sidecars) > 1
    assert [table.num_rows for table in rows[:-1]] == [3] * (len(rows) - 1)
    assert rows[0].column_names == ["add", "remove"]
    actions = sum(table.num_rows for table in rows)
    assert hinted["size"] == written.actions == actions + len(lines)
    assert hinted["numOfAddFiles"] == len(smith.live()) == int(lines[0]["checkpointMetadata"]["tags"]["numOfAddFiles"])
    assert hinted["sizeInBytes"] == sum(location.store.head(location.key("_delta_log", n)).size for n in written.names)
    assert hinted["v2Checkpoint"]["path"] == top
    assert [s["path"] for s in hinted["v2Checkpoint"]["sidecarFiles"]] == [
        n.removeprefix(f"{SIDECARS}/") for n in sidecars
    ]
    assert list(hinted)[-2:] == ["v2Checkpoint", "checksum"]
    assert facts(loaded(location))["files"]


def _reader(location: Location, key: str) -> Any:
    return pa.BufferReader(location.store.get(key))


def test_v2_needs_its_feature() -> None:
    location = at(store())
    smith = Tablesmith(location, schema=[("id", "long")], properties={"delta.checkpointPolicy": "v2"})
    assert write_checkpoint(loaded(location), env()).names == (f"{smith.version:020}.checkpoint.parquet",)
    with pytest.raises(Invalid, match="does not support V2 checkpoints"):
        write_checkpoint(loaded(location), env(), policy="v2")


def test_a_version_without_a_commit_gets_none() -> None:
    location = at(store())
    smith = smith_of(location, HISTORY)
    state = loaded(location)
    smith.delete(f"_delta_log/{commit_name(smith.version)}")
    with pytest.raises(UnknownVersion, match="has no"):
        write_checkpoint(state, env())
    assert not [name for name in names(location) if "checkpoint" in name]


def test_protected_versions_get_none() -> None:
    location = at(store())
    smith_of(location, HISTORY)
    state = loaded(location, 3)
    configuration = {**(state.metadata.configuration or {}), "delta.requireCheckpointProtectionBeforeVersion": "4"}
    features = (*(state.protocol.writer_features or ()), "checkpointProtection")
    protocol = replace_struct(state.protocol, writer_features=features)
    guarded = replace(state, metadata=replace_struct(state.metadata, configuration=configuration), protocol=protocol)
    with pytest.raises(Invalid, match="protects its checkpoints before version 4"):
        write_checkpoint(guarded, env())


def replace_struct(value: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(value, **changes)


@pytest.mark.parametrize("policy", POLICIES)
def test_writing_twice_writes_once(policy: Policy) -> None:
    location = at(store())
    smith_of(location, HISTORY)
    first = write_checkpoint(loaded(location), env(), policy=policy)
    kept = {name: location.store.get(location.key("_delta_log", name)) for name in (*first.names, LAST_CHECKPOINT)}
    second = write_checkpoint(loaded(location), fixed(start_ms=1_800_000_000_000), policy=policy)
    assert not second.created
    assert second.names == first.names
    assert (second.actions, second.size_bytes) == (first.actions, first.size_bytes)
    assert {name: location.store.get(location.key("_delta_log", name)) for name in kept} == kept


@pytest.mark.parametrize("policy", POLICIES)
def test_writers_at_once_leave_one_state(policy: Policy) -> None:
    location = at(store())
    smith = smith_of(location, HISTORY)
    state = loaded(location)
    before = facts(state)

    def write(seed: int) -> CheckpointWritten:
        return write_checkpoint(state, fixed(start_ms=1_700_000_500_000 + seed, seed=seed), policy=policy)

    with ThreadPoolExecutor(4) as pool:
        written = list(pool.map(write, range(8)))
    assert any(one.created for one in written)
    forget(location, smith.version)
    assert facts(loaded(location)) == before


def test_a_broken_checkpoint_is_replaced_and_a_good_one_is_not() -> None:
    location = at(store())
    smith = smith_of(location, HISTORY)
    before = facts(loaded(location))
    name = f"_delta_log/{smith.version:020}.checkpoint.parquet"
    smith.put(name, b"PAR1 but no more")
    assert write_checkpoint(load(location), env()).created
    good = location.store.get(location.key(name))
    assert not write_checkpoint(loaded(location), env()).created
    assert location.store.get(location.key(name)) == good
    forget(location, smith.version)
    assert facts(loaded(location)) == before


def test_the_hint_never_goes_back() -> None:
    location = at(store())
    smith = smith_of(location, HISTORY)
    write_checkpoint(loaded(location), env())
    newest = hint(location)
    write_checkpoint(load(location, version=2), env())
    assert hint(location) == newest
    # Unless it points to nothing.
    smith.delete(f"_delta_log/{smith.version:020}.checkpoint.parquet")
    write_checkpoint(load(location, version=2), env())
    assert hint(location)["version"] == 2


def test_a_partition_value_of_another_type_keeps_only_its_text() -> None:
    location = at(store())
    smith = Tablesmith(
        location, schema=[("id", "long"), ("n", "integer")], partition_by=["n"], properties=STATS["both"]
    )
    smith.append([{"id": 1, "n": 7}])
    first = write_checkpoint(loaded(location), env())
    assert _add_fields(location, first) >= {"partitionValues_parsed", "stats_parsed"}
    smith.commit([{"add": {**smith.live()[0], "path": "odd", "partitionValues": {"n": "seven"}}}])
    second = write_checkpoint(loaded(location), env())
    assert "partitionValues_parsed" not in _add_fields(location, second)
    assert "stats_parsed" in _add_fields(location, second)


def _add_fields(location: Location, written: CheckpointWritten) -> set[str]:
    schema = pq.read_schema(_reader(location, location.key("_delta_log", written.names[0])))
    return {field.name for field in schema.field("add").type}


@pytest.mark.parametrize(("policy", "stats"), [("classic", "json"), ("v2", "struct")])
def test_no_fault_changes_what_the_table_holds(policy: Policy, stats: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.formats.delta.checkpoint.writer.SIDECAR_ACTIONS", 3)
    table = store()
    smith = smith_of(at(table), HISTORY[:3], properties=STATS[stats])
    write_checkpoint(loaded(at(table)), fixed(start_ms=1_700_000_400_000, seed=9), policy=policy)
    for step in HISTORY[3:]:
        take(smith, step)
    make = copies(table)
    expected, lean = facts(loaded(at(make()))), facts(loaded(at(make())), stats=False)

    def run(faulty: ObjectStore) -> None:
        write_checkpoint(load(at(faulty)), env(), policy=policy)

    def check(store_after: ObjectStore) -> None:
        assert facts(load(at(store_after)), stats=False) == lean
        write_checkpoint(load(at(store_after)), fixed(start_ms=1_700_000_600_000, seed=1), policy=policy)
        state = loaded(at(store_after))
        assert state.segment.deltas == ()
        assert facts(state) == expected

    assert every_fault(run, check, make=make) > 20


def test_a_state_that_was_refreshed_reads_removals_from_the_last_checkpoint_on() -> None:
    location = at(store())
    smith = smith_of(location, HISTORY)
    state: DeltaState = loaded(location)
    for n in range(5):
        smith.append([row(n)])
        state = refresh(state)
        write_checkpoint(state, env())
        forget(location, state.version - 1)
    smith.remove(0)
    state = refresh(state)
    before = facts(load(location))
    write_checkpoint(state, env())
    forget(location, smith.version)
    assert facts(loaded(location)) == before
