"""Counts that the log states, and checkpoints that lost files."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from holdfast.env import fixed
from holdfast.errors import Damaged
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.state import DeltaState, load
from holdfast.storage.location import Location
from tests.formats.delta.handlog import (
    CHECKPOINT,
    Action,
    HandLog,
    add,
    lines,
    metadata,
    parquet,
    protocol,
    remove,
    vector,
)
from tests.support.faulty import CountingStore

WHOLE = f"{3:020d}.checkpoint.parquet"
V2 = f"{3:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
PARTS = [f"{3:020d}.checkpoint.{part:010d}.{3:010d}.parquet" for part in (1, 2, 3)]
DVS = protocol(3, 7, rf=["deletionVectors"])
STATE: list[Action] = [
    DVS,
    metadata(),
    *(add(f"f{n}") for n in range(5)),
    add("hidden", dv=vector("v", cardinality=2)),
    remove("gone"),
]


@pytest.fixture
def log() -> HandLog:
    """Versions 0 to 4, and a checkpoint of version 3."""
    log = HandLog()
    log.commit(0, DVS, metadata(), add("gone"), add("f0"))
    log.commit(1, remove("gone"), add("f1"), add("f2"))
    log.commit(2, add("f3"), add("hidden", dv=vector("v", cardinality=2)))
    log.commit(3, add("f4"))
    log.commit(4, add("last"))
    log.checkpoint(3, *STATE)
    return log


def live(state: DeltaState) -> list[str]:
    return sorted(state.snapshot.files.column("key").to_pylist())


EVERY = ["f0", "f1", "f2", "f3", "f4", "hidden", "last"]


def forget(log: HandLog) -> None:
    for version in range(4):
        log.delete(f"{version:020d}.json")


def checksum(log: HandLog, version: int, **stated: Any) -> None:
    log.put(f"{version:020d}.crc", json.dumps(stated).encode())


def rewrite(log: HandLog, name: str, change: Callable[[pa.Table], pa.Table]) -> None:
    sink = io.BytesIO()
    pq.write_table(change(pq.read_table(io.BytesIO(log.store.get(f"t/_delta_log/{name}")))), sink)
    log.put(name, sink.getvalue())


def without_column(name: str) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.drop_columns([name])


def without_rows(table: pa.Table) -> pa.Table:
    path = pc.struct_field(table.column("add"), "path")
    return table.filter(pc.fill_null(pc.not_equal(path, "f2"), True))


def without_vectors(table: pa.Table) -> pa.Table:
    adds = table.column("add").combine_chunks()
    kept = [field for field in adds.type if field.name != "deletionVector"]
    lost = pa.StructArray.from_arrays([adds.field(f.name) for f in kept], fields=kept, mask=pc.is_null(adds))
    return table.set_column(table.column_names.index("add"), "add", lost)


def put_parts(log: HandLog, change: Callable[[pa.Table], pa.Table]) -> None:
    """The checkpoint in three parts, the second of them changed."""
    log.delete(WHOLE)
    for part, name in enumerate(PARTS):
        log.put(name, parquet(STATE[part::3]))
    rewrite(log, PARTS[1], change)


def put_v2(log: HandLog, *, tags: dict[str, str] | None = None, stated: int | None = None, lost: bool = False) -> None:
    log.delete(WHOLE)
    files = [a for a in STATE if ("add" in a or "remove" in a) and not (lost and a == add("f2"))]
    data = parquet(files, pa.schema([CHECKPOINT.field("add"), CHECKPOINT.field("remove")]))
    log.put("_sidecars/s.parquet", data)
    sidecar = {"path": "s.parquet", "sizeInBytes": len(data) if stated is None else stated, "modificationTime": 1}
    top = [{"checkpointMetadata": {"version": 3, "tags": tags or {}}}, *STATE[:2], {"sidecar": sidecar}]
    log.put(V2, lines(top))


def foreign(table: pa.Table) -> pa.Table:
    return pa.table({"id": pa.array(range(table.num_rows), pa.int64())})


SELF_EVIDENT: list[Callable[[HandLog], None]] = [
    lambda log: rewrite(log, WHOLE, without_column("add")),
    lambda log: put_parts(log, without_column("add")),
    lambda log: put_parts(log, foreign),
    lambda log: put_parts(log, lambda part: pa.concat_tables([part, part.slice(1)])),
    lambda log: put_v2(log, stated=17),
    lambda log: put_v2(log, tags={"sidecarNumActions": "7"}, lost=True),
    lambda log: put_v2(log, tags={"numOfAddFiles": "6"}, lost=True),
    lambda log: put_v2(log, tags={"sidecarSizeInBytes": "1"}),
]


@pytest.mark.parametrize("damage", SELF_EVIDENT)
def test_a_checkpoint_that_contradicts_itself_is_read_around_or_refused(
    log: HandLog, damage: Callable[[HandLog], None]
) -> None:
    damage(log)
    state = load(log.location)
    assert live(state) == EVERY
    assert len(state.snapshot.notes) == 1
    forget(log)
    with pytest.raises(Damaged) as caught:
        load(log.location)
    assert str(caught.value) in state.snapshot.notes[0]


LOSSES: list[Callable[[HandLog], None]] = [
    lambda log: rewrite(log, WHOLE, without_rows),
    lambda log: rewrite(log, WHOLE, lambda table: table.slice(0, table.num_rows - 2)),
    lambda log: rewrite(log, WHOLE, without_vectors),
    lambda log: put_parts(log, lambda part: part.slice(0, 1)),
    lambda log: put_parts(log, lambda part: pq.read_table(io.BytesIO(parquet([metadata(), add("another file")])))),
    lambda log: put_v2(log, lost=True),
]


@pytest.mark.parametrize("lose", LOSSES)
@pytest.mark.parametrize("of", [3, 4])
def test_a_checkpoint_that_lost_what_a_checksum_counts_is_read_around_or_refused(
    log: HandLog, lose: Callable[[HandLog], None], of: int
) -> None:
    checksum(log, of, numFiles=of + 3, tableSizeBytes=10 * (of + 3), numDeletionVectorsOpt=1, numDeletedRecordsOpt=2)
    lose(log)
    state = load(log.location)
    assert live(state) == EVERY
    assert state.segment.checkpoint is None
    assert state.snapshot.files.column("dv").null_count == len(EVERY) - 1
    assert f"{of:020d}.crc says" in state.snapshot.notes[0]
    forget(log)
    with pytest.raises(Damaged, match=r"delete the \.crc file") as caught:
        load(log.location)
    assert ".checkpoint" in caught.value.path
    assert f"{of:020d}.crc says" in str(caught.value)
    log.delete(f"{of:020d}.crc")
    state = load(log.location)
    assert state.segment.checkpoint is not None
    assert "last" in live(state), "the checkpoint is read as it is, as the error says, and the commit after it"


def test_a_checkpoint_written_over_one_that_lost_files_replaces_it(log: HandLog) -> None:
    log.delete(f"{4:020d}.json")
    checksum(log, 3, numFiles=6)
    rewrite(log, WHOLE, without_rows)
    assert write_checkpoint(load(log.location), fixed()).created
    forget(log)
    state = load(log.location)
    assert (live(state), state.snapshot.notes) == (EVERY[:-1], ())


def test_an_older_checkpoint_that_agrees_is_taken(log: HandLog) -> None:
    checksum(log, 4, numFiles=7)
    log.checkpoint(1, DVS, metadata(), *(add(f"f{n}") for n in range(3)))
    rewrite(log, WHOLE, without_rows)
    log.delete(f"{0:020d}.json")
    state = load(log.location)
    assert (live(state), state.segment.checkpoint and state.segment.checkpoint.version) == (EVERY, 1)


def test_commits_from_the_first_and_a_checkpoint_that_is_vouched_for_outweigh_a_checksum(log: HandLog) -> None:
    checksum(log, 4, numFiles=99)
    state = load(log.location)
    assert (live(state), state.segment.checkpoint) == (EVERY, None)
    assert "99 files where the log has 7" in state.snapshot.notes[-1]
    checksum(log, 3, numFiles=6, tableSizeBytes=60)
    forget(log)
    state = load(log.location)
    assert live(state) == EVERY
    assert [note.split(" says ")[1] for note in state.snapshot.notes] == ["99 files where the log has 7"]


def test_a_compaction_that_lost_files_is_read_around(log: HandLog) -> None:
    checksum(log, 4, numFiles=7)
    log.delete(WHOLE)
    log.put(f"{1:020d}.{3:020d}.compacted.json", lines([remove("gone"), add("f1"), add("f2")]))
    state = load(log.location)
    assert live(state) == EVERY
    log.delete(f"{2:020d}.json")
    with pytest.raises(Damaged, match="compacted"):
        load(log.location)


@pytest.mark.parametrize("stated", [{"numOfAddFiles": 6}, {"size": 9}])
def test_what_only_the_hint_counts_is_read_around_and_never_refused(log: HandLog, stated: dict[str, int]) -> None:
    log.hint(version=3, **stated)
    assert load(log.location).snapshot.notes == ()
    rewrite(log, WHOLE, without_rows)
    state = load(log.location)
    assert live(state) == EVERY
    assert "_last_checkpoint says" in state.snapshot.notes[0]
    forget(log)
    state = load(log.location)
    assert live(state) == [name for name in EVERY if name != "f2"]
    assert "_last_checkpoint says" in state.snapshot.notes[0]


@pytest.mark.parametrize("stated", [{"size": 6}, {"size": None}, {"parts": 2, "numOfAddFiles": 1}])
def test_what_a_hint_counts_in_another_way_is_no_doubt(log: HandLog, stated: dict[str, int | None]) -> None:
    if stated.get("size", 0) is None:
        stated = {"size": log.store.head(f"t/_delta_log/{WHOLE}").size}  # some writers state bytes
    log.hint(version=3, **stated)
    state = load(log.location)
    assert state.segment.checkpoint is not None
    assert (live(state), state.snapshot.notes) == (EVERY, ())


def test_a_checkpoint_without_a_column_for_vectors_is_read_around(log: HandLog) -> None:
    rewrite(log, WHOLE, without_vectors)
    state = load(log.location)
    assert state.segment.checkpoint is None
    assert "no column add.deletionVector" in state.snapshot.notes[0]


@pytest.mark.parametrize("of", [3, 4])
def test_a_sound_log_costs_one_checksum(log: HandLog, of: int) -> None:
    checksum(log, of, numFiles=of + 3)
    log.hint(version=3, numOfAddFiles=6, size=9)
    counting = CountingStore(log.store)
    assert load(Location(counting, "t")).snapshot.notes == ()
    names = [key.rpartition("/")[2] for verb, key in counting.keys if verb == "get"]
    assert sorted(names) == sorted(["_last_checkpoint", WHOLE, f"{4:020d}.json", f"{of:020d}.crc"])
