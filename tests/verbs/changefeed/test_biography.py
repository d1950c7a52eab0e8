"""The life of every row of random histories is what comparing its versions one by one says it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import DeltaTable, Invalid, NoRowIdentity
from holdfast.formats.delta.state import load
from holdfast.parquet.pages.find import CandidateFile, RowPosition, find_row
from holdfast.plan.changefeed.biography import Biography, What
from holdfast.storage.base import ObjectStore
from holdfast.storage.memory import MemoryStore
from tests.support.damage import append, commit_key, created, opened, sample
from tests.support.depth import examples
from tests.support.faulty import CountingStore

_METADATA = ["_row_id", "_row_commit_version", "_file", "_row_index"]
_step = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 5)),
    st.tuples(st.just("delete"), st.integers(2, 5)),
    st.tuples(st.just("rewritten delete"), st.integers(2, 5)),
    st.tuples(st.just("update"), st.integers(2, 5)),
    st.tuples(st.just("rewrite"), st.integers(2, 5)),
    st.tuples(st.just("compact"), st.integers(5, 40)),
    st.tuples(st.just("purge"), st.just(0)),
    st.tuples(st.just("restore"), st.integers(0, 20)),
)


def grown(store: ObjectStore, steps: list[tuple[str, int]], **properties: str) -> DeltaTable:
    table = created(store, properties)
    first = 0
    for verb, n in [("append", 4), *steps]:
        match verb:
            case "append":
                append(table, range(first, first + n))
                first += n
            case "delete":
                table.delete(f"id % {n} = 0")
            case "rewritten delete":
                table.delete(f"id % {n} = 1", mode="copy-on-write")
            case "update":
                table.update(f"id % {n} = 1", {"v": "'u'"})
            case "rewrite":
                table.update(f"id % {n} = 1", {"v": "'w'"}, mode="copy-on-write")
            case "compact":
                table.optimize(targetRows=n).executeCompaction()
            case "purge":
                table.purge()
            case _:
                table.restoreToVersion(n % (table.version + 1))
    return table


def spots(table: DeltaTable, version: int) -> dict[int, tuple[str, int, int]]:
    """File, position and row version of every live row of a version."""
    found = table.toArrow(version=version, metadata=_METADATA).to_pylist()
    return {
        row["_row_id"]: (row["_file"].rpartition("/")[2], row["_row_index"], row["_row_commit_version"])
        for row in found
    }


def expected(table: DeltaTable) -> dict[int, list[tuple[Any, ...]]]:
    """What happened to each row, by comparing versions: what, version, file, position."""
    operations = {row["version"]: row["operation"] for row in table.historyArrow().to_pylist()}
    told: dict[int, list[tuple[Any, ...]]] = {}
    before: dict[int, tuple[str, int, int]] = {}
    for version in range(table.version + 1):
        after = spots(table, version)
        for row_id in before.keys() | after.keys():
            was, now = before.get(row_id), after.get(row_id)
            if was is not None and now is None:
                told[row_id].append((What.DELETED, version, *was[:2]))
            elif now is not None and (was is None or was[0] != now[0]):
                if row_id not in told:
                    what = What.BORN
                elif was is None or operations[version] == "RESTORE":
                    what = What.RESTORED
                else:
                    what = What.CHANGED if now[2] == version else What.MOVED
                told.setdefault(row_id, []).append((what, version, *now[:2]))
        before = after
    return told


def shown(life: Biography) -> list[tuple[Any, ...]]:
    return [(event.what, event.version, event.file, event.position) for event in life.events]


@examples(6)
@given(st.lists(_step, min_size=1, max_size=8))
def test_every_life_is_what_the_versions_say(steps: list[tuple[str, int]]) -> None:
    table = grown(MemoryStore(), steps)
    lives = expected(table)
    alive = spots(table, table.version)
    for row_id, events in sorted(lives.items())[::2]:
        life = table.biography(row_id)
        assert shown(life) == events
        assert life.alive == (row_id in alive)
        assert life.notes == ()
        assert bool(life.remains) == (row_id not in alive)
    highest = load(table.handle.newest().snapshot.location).snapshot.identity
    assert highest is not None
    for row_id in sorted(set(range(highest.high_water + 1)) - lives.keys())[:5]:
        assert table.biography(row_id).events == ()


def test_it_reads_as_a_timeline() -> None:
    table = opened(sample())
    text = str(table.biography(15))
    first, *lines = text.split("\n")
    assert first == "row 15 of memory:///t: in the table"
    assert [line.split()[5:7] for line in lines] == [["WRITE", "born"], ["UPDATE", "changed"]]
    gone = str(table.biography(3)).split("\n")
    assert gone[0].endswith("not in the table")
    assert gone[-1].startswith("  its bytes are still in part-")


def test_only_files_that_may_hold_the_row_are_opened() -> None:
    store = MemoryStore()
    table = grown(store, [("append", 4)] * 10)
    table.update("id = 9", {"v": "'u'"})
    counting = CountingStore(store)
    life = opened(counting).biography(9)
    assert [event.what for event in life.events] == [What.BORN, What.CHANGED]
    read = {key for verb, key in counting.keys if verb in ("get", "get_range") and key.endswith(".zstd.parquet")}
    assert {key.rpartition("/")[2] for key in read} == {event.file for event in life.events}


def test_a_row_whose_files_are_gone_is_purged() -> None:
    store = sample()
    table = opened(store)
    table.purge()
    for key in set(table.biography(3).remains):
        store.delete(f"t/{key}")
    life = opened(store).biography(3)
    assert life.events[-1].what is What.PURGED
    assert life.remains == ()
    assert not life.alive


def test_what_a_vacuum_leaves_tells_the_living_from_the_dead() -> None:
    """The vectors that would tell are gone with the files they belong to."""
    store = MemoryStore()
    table = grown(store, [])
    table.delete("id = 3")
    table.delete("id = 1")
    table.purge()
    table.vacuum(0, enforceRetention=False)
    alive, dead = opened(store).biography(2), opened(store).biography(3)
    assert alive.alive
    assert [(event.what, event.version) for event in alive.events] == [(What.BORN, 1), (What.MOVED, 4)]
    assert not dead.alive
    assert [event.what for event in dead.events] == [What.BORN, What.DELETED, What.PURGED]
    assert dead.events[1].version == 2
    assert "or later, until version 3" in dead.events[1].detail
    assert dead.events[-1].operation == "VACUUM END"


@examples(6)
@given(st.lists(_step, min_size=2, max_size=7))
def test_after_a_vacuum_the_living_are_alive(steps: list[tuple[str, int]]) -> None:
    table = grown(MemoryStore(), steps)
    lives, alive = expected(table), spots(table, table.version)
    table.vacuum(0, enforceRetention=False)
    for row_id in sorted(lives)[::2]:
        life = table.biography(row_id)
        assert life.alive == (row_id in alive), str(life)
        if life.alive:
            last = [event for event in life.events if event.file][-1]
            assert (last.file, last.position) == alive[row_id][:2], str(life)


@examples(6)
@given(st.lists(_step, min_size=3, max_size=8), st.integers(1, 3), st.booleans())
def test_without_the_beginning_of_the_log_the_living_are_alive(
    steps: list[tuple[str, int]], interval: int, vacuumed: bool
) -> None:
    store = MemoryStore()
    table = grown(store, steps, **{"delta.checkpointInterval": str(interval)})
    lives, alive = expected(table), spots(table, table.version)
    first = table.version // 2 // interval * interval
    for meta in list(store.list_from("t/_delta_log")):
        if meta.name < f"{first:020d}":
            store.delete(meta.key)
    table = opened(store)
    if vacuumed:
        table.vacuum(0, enforceRetention=False)
    for row_id in sorted(lives)[::2]:
        life = table.biography(row_id)
        assert life.alive == (row_id in alive), str(life)
        if life.alive:
            last = [event for event in life.events if event.file][-1]
            assert (last.file, last.position) == alive[row_id][:2], str(life)


def test_a_way_that_cannot_be_followed_is_said_and_taken_up_again() -> None:
    store = MemoryStore()
    table = grown(store, [])
    table.update("id = 2", {"v": "'u'"})
    between = table.biography(2).events[-1].file
    table.optimize(targetRows=100).executeCompaction()
    table.update("id = 2", {"v": "'w'"}, mode="copy-on-write")
    store.delete(f"t/{between}")
    life = opened(store).biography(2)
    assert [event.what for event in life.events] == [What.BORN, What.LOST, What.FOUND]
    assert life.alive
    assert "last changed in version 4" in life.events[-1].detail


def test_a_log_without_its_beginning() -> None:
    store = sample()
    for version in range(5):
        store.delete(commit_key(version))
    for meta in list(store.list_from("t/_delta_log")):
        if meta.name.startswith(f"{3:020d}"):
            store.delete(meta.key)
    table = opened(store)
    there = table.biography(15)
    assert [(event.what, event.version) for event in there.events] == [(What.SEEN, 6)]
    assert "last changed in version 4" in there.events[0].detail
    assert "begins with version 6" in there.notes[0]
    gone = table.biography(3)
    assert [(event.what, event.version) for event in gone.events] == [(What.DELETED, None)]
    assert gone.remains


def test_what_has_no_biography() -> None:
    table = opened(sample())
    with pytest.raises(Invalid, match="up to 25"):
        table.biography(26)
    with pytest.raises(Invalid, match="whole number"):
        table.biography(-1)
    plain = created(MemoryStore(), {"delta.enableRowTracking": "false"})
    with pytest.raises(NoRowIdentity, match="enableRowTracking"):
        plain.biography(0)


@examples(60)
@given(
    st.lists(st.one_of(st.none(), st.integers(0, 30)), min_size=1, max_size=25),
    st.integers(1, 6),
    st.integers(0, 60),
)
def test_a_row_is_found_whatever_the_row_groups(ids: list[int | None], group: int, wanted: int) -> None:
    store, sink = MemoryStore(), pa.BufferOutputStream()
    table = pa.table({"x": ids, "ids": pa.array(ids, pa.int64()), "versions": pa.array([7] * len(ids), pa.int64())})
    pq.write_table(table, sink, row_group_size=group)
    store.put("f", sink.getvalue().to_pybytes())
    effective = [31 + at if own is None else own for at, own in enumerate(ids)]
    file = CandidateFile("f", store.head("f").size, 31, 5, "ids", "versions")
    found = find_row(store, file, wanted)
    assert found == (RowPosition(effective.index(wanted), 7) if wanted in effective else None)


def test_a_biography_needs_no_spark(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = DeltaTable.create(None).location(path).addColumn("id", "long").addColumn("v", "string").execute()
    append(table, range(3))
    table.delete("id = 1")
    assert [event.what for event in DeltaTable.forPath(None, path).biography(1).events] == [What.BORN, What.DELETED]
