"""Log cleanup: which files it deletes and keeps, and that every version within the retention stays readable."""

from __future__ import annotations

import io
import re

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.env import Env, fixed
from holdfast.errors import Invalid
from holdfast.formats.delta.checkpoint.crc_write import write_crc
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.commit.post_commit import PostCommitTask, post_commit_tasks
from holdfast.formats.delta.log.cleanup import DAY_MS, clean_log, cutoff_ms, expired
from holdfast.formats.delta.log.compaction import write_log_compaction
from holdfast.formats.delta.log.file_names import commit_name
from holdfast.formats.delta.state import DeltaState, load
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from tests.formats.delta.histories import at, facts, loaded, row
from tests.support.depth import examples
from tests.support.faulty import CountingStore, every_fault
from tests.support.tablesmith import Tablesmith

START = 1_700_006_400_000 // DAY_MS * DAY_MS + 10 * 3_600_000  # ten in the morning


class Days:
    """A table with a commit a day, in a store whose clock is the test's."""

    def __init__(self, *, policy: str = "classic", properties: dict[str, str] | None = None) -> None:
        self.now = START
        self.env = Env(now_ms=lambda: self.now, new_uuid=fixed().new_uuid)
        self.store = MemoryStore(env=self.env)
        self.location = at(self.store)
        settings = {"delta.logRetentionDuration": "interval 3 days", "delta.checkpointPolicy": policy}
        features = ["v2Checkpoint", "checkpointProtection"]
        self.smith = Tablesmith(
            self.location, schema=[("id", "long")], features=features, properties=settings | (properties or {})
        )

    def day(self, *, checkpoint: bool = False) -> None:
        self.now += DAY_MS
        self.smith.append([{"id": self.smith.version}])
        write_crc(self.state)
        if checkpoint:
            write_checkpoint(self.state, self.env)

    @property
    def state(self) -> DeltaState:
        return load(self.location)

    @property
    def names(self) -> list[str]:
        return names(self.location)


def names(location: Location) -> list[str]:
    """Names in the log, uuids and leading zeros left out."""
    names = [meta.key.removeprefix("t/_delta_log/") for meta in location.store.list_all("t/_delta_log")]
    return sorted(re.sub(r"\.[0-9a-f-]{36}\.", ".U.", re.sub(r"(^|/|\.)0+(?=\d)", r"\1", name)) for name in names)


def test_the_cutoff_is_a_midnight() -> None:
    assert cutoff_ms(START, 0) == START - 10 * 3_600_000
    assert cutoff_ms(START, 3 * DAY_MS) == START - 10 * 3_600_000 - 3 * DAY_MS


def test_what_is_older_than_the_kept_checkpoint_goes() -> None:
    table = Days()
    for n in range(1, 10):
        table.day(checkpoint=n in (2, 4, 8))
    write_log_compaction(table.location, 1, 3)
    write_log_compaction(table.location, 6, 7)
    state = table.state
    before = [facts(loaded(table.location, v)) for v in range(4, 10)]
    # Nine days on, less three, at midnight: version 5 is the last one past its time, 4 the last checkpoint before it.
    plan = expired(state, table.env)
    assert clean_log(state, table.env) == plan
    assert table.names == sorted(
        [
            *(f"{v}.{kind}" for v in range(4, 10) for kind in ("json", "crc")),
            *("4.checkpoint.parquet", "8.checkpoint.parquet", "6.7.compacted.json", "_last_checkpoint"),
        ]
    )
    assert [facts(loaded(table.location, v)) for v in range(4, 10)] == before
    assert expired(table.state, table.env).names == ()


def test_nothing_goes_before_its_time_or_when_it_may_not() -> None:
    table = Days()
    for n in range(1, 4):
        table.day(checkpoint=n == 2)
    assert expired(table.state, table.env).names == ()
    for _ in range(6):
        table.day()
    assert expired(table.state, table.env).names != ()
    table.smith.evolve(delta__enableExpiredLogCleanup="false")
    everything = table.names
    assert clean_log(table.state, table.env).names == ()
    assert table.names == everything


def test_a_log_younger_than_its_retention_is_not_even_listed() -> None:
    table = Days()
    table.day(checkpoint=True)
    store = CountingStore(table.store)
    state = load(at(store))
    store.calls.clear()
    assert expired(state, table.env).names == ()
    assert store.calls["list_from"] == 0


def test_without_a_checkpoint_nothing_goes() -> None:
    table = Days()
    for _ in range(9):
        table.day()
    assert clean_log(table.state, table.env).names == ()


@pytest.mark.parametrize("loses", ["everything", "a file"])
def test_a_broken_checkpoint_is_not_the_one_to_keep(loses: str) -> None:
    table = Days()
    for n in range(1, 10):
        table.day(checkpoint=n in (2, 4))
    before = facts(table.state)
    data = b"PAR1"
    if loses == "a file":
        key = table.location.key("_delta_log", "00000000000000000004.checkpoint.parquet")
        whole = pq.read_table(io.BytesIO(table.store.get(key)))
        sink = io.BytesIO()
        pq.write_table(whole.slice(0, whole.num_rows - 1), sink)
        data = sink.getvalue()
    table.smith.put("_delta_log/00000000000000000004.checkpoint.parquet", data)
    plan = clean_log(table.state, table.env)
    assert plan.kept is not None
    assert plan.kept.version == 2
    assert "2.checkpoint.parquet" in table.names
    assert facts(table.state) == before


def test_a_protected_stretch_goes_whole_or_not_at_all() -> None:
    table = Days(properties={"delta.requireCheckpointProtectionBeforeVersion": "5"})
    for _ in range(12):
        table.day()
    for version in (4, 7):
        table.smith.checkpoint(version=version)
    table.now -= 3 * DAY_MS
    assert expired(table.state, table.env).names == ()
    table.now += 3 * DAY_MS
    plan = clean_log(table.state, table.env)
    assert plan.names[:2] == (commit_name(0), commit_name(1))
    assert plan.names[-1].endswith("4.checkpoint.parquet")
    assert "4.checkpoint.parquet" not in table.names


def test_the_hint_is_moved_before_what_it_points_to_goes() -> None:
    table = Days()
    for n in range(1, 10):
        table.day(checkpoint=n == 2)
    table.smith.checkpoint(version=4, last_checkpoint=False)
    clean_log(table.state, table.env)
    state = loaded(table.location)
    assert state.segment.checkpoint is not None
    assert state.segment.checkpoint.version == 4


def test_sidecars_go_with_their_last_checkpoint_and_not_before_a_day_is_over() -> None:
    table = Days(policy="v2")
    for n in range(1, 10):
        table.day(checkpoint=n in (2, 4))
    table.smith.put("_delta_log/_sidecars/left.parquet", b"of a writer that ended in the middle")
    table.now += DAY_MS + 1
    table.smith.put("_delta_log/_sidecars/young.parquet", b"of a writer that is at work")
    before = facts(table.state)
    clean_log(table.state, table.env)
    kept = [name for name in table.names if name.startswith("_sidecars/")]
    assert kept == ["_sidecars/4.checkpoint.1.1.U.parquet", "_sidecars/young.parquet"]
    assert facts(table.state) == before


@examples(20)
@given(st.lists(st.booleans(), min_size=3, max_size=14), st.integers(0, 6), st.sampled_from(["classic", "v2"]))
def test_every_version_within_the_retention_reads_as_before(checkpoints: list[bool], days: int, policy: str) -> None:
    table = Days(policy=policy, properties={"delta.logRetentionDuration": f"interval {days} days"})
    commit_times = {0: table.now}
    for checkpoint in checkpoints:
        table.day(checkpoint=checkpoint)
        commit_times[table.smith.version] = table.now
    young = [v for v, when in commit_times.items() if when >= table.now - days * DAY_MS]
    before = {v: facts(load(table.location, version=v)) for v in young}
    for _ in range(2):
        clean_log(table.state, table.env)
        assert {v: facts(load(table.location, version=v)) for v in young} == before


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_no_fault_changes_what_the_table_holds(policy: str) -> None:
    table = Days(policy=policy)
    for n in range(1, 8):
        table.day(checkpoint=n in (1, 3))
    write_log_compaction(table.location, 1, 2)
    versions = (3, 7)
    expected = {v: facts(loaded(table.location, v)) for v in versions}
    held = [(meta, table.store.get(meta.key)) for meta in table.store.list_all("")]

    def make() -> ObjectStore:
        copied_ms = 0
        copy = MemoryStore(env=Env(now_ms=lambda: copied_ms, new_uuid=fixed().new_uuid))
        for meta, data in held:
            copied_ms = meta.modified_ms
            copy.put(meta.key, data)
        return copy

    def run(faulty: ObjectStore) -> None:
        clean_log(load(at(faulty)), table.env)

    def check(store_after: ObjectStore) -> None:
        assert {v: facts(load(at(store_after), version=v)) for v in versions} == expected
        clean_log(load(at(store_after)), table.env)
        assert facts(loaded(at(store_after))) == expected[7]
        assert not [name for name in names(at(store_after)) if name.split(".")[0] in ("0", "1", "2")]

    assert every_fault(run, check, make=make) > 3 * 12


def test_what_is_due_follows_the_version() -> None:
    location = at(MemoryStore(env=fixed()))
    smith = Tablesmith(location, schema=[("id", "long")], properties={"delta.checkpointInterval": "3"})
    assert post_commit_tasks(loaded(location)) == (PostCommitTask.CRC,)
    tasks = []
    for n in range(6):
        smith.append([{"id": row(n)["id"]}])
        tasks.append(post_commit_tasks(loaded(location)))
    both = (PostCommitTask.CRC, PostCommitTask.CHECKPOINT, PostCommitTask.CLEANUP)
    assert tasks == [
        (PostCommitTask.CRC,),
        (PostCommitTask.CRC,),
        both,
        (PostCommitTask.CRC,),
        (PostCommitTask.CRC,),
        both,
    ]
    smith.evolve(delta__enableExpiredLogCleanup="false", delta__checkpointInterval="1")
    assert post_commit_tasks(loaded(location)) == (PostCommitTask.CRC, PostCommitTask.CHECKPOINT)
    smith.evolve(delta__checkpointInterval="0")
    with pytest.raises(Invalid, match="at least 1"):
        post_commit_tasks(loaded(location))
