"""Refreshing an open table, and the layers of file actions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Damaged, Unsupported
from holdfast.formats.delta.state import DeltaState, load, refresh
from holdfast.storage.location import Location
from tests.formats.delta.handlog import HandLog, add, domain, metadata, protocol, remove, vector
from tests.support.depth import examples
from tests.support.faulty import CountingStore


def live(state: DeltaState) -> list[tuple[str, str | None]]:
    rows = state.snapshot.files.table.select(["key", "dv"]).to_pylist()
    return sorted(((r["key"], r["dv"] and r["dv"]["id"]) for r in rows), key=str)


def test_nothing_new_is_the_same_state() -> None:
    log = HandLog()
    log.create(add("a"))
    state = load(log.location)
    assert refresh(state) is state


def test_new_commits_are_all_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    log = HandLog()
    log.create(add("a"))
    log.checkpoint(0, protocol(), metadata(), add("a"))
    state = load(log.location)
    log.commit(1, add("b"), remove("a"), {"txn": {"appId": "x", "version": 1}})
    log.commit(2, add("c"), domain("d", {}))
    fetched: list[str] = []
    get = log.store.get
    monkeypatch.setattr(log.store, "get", lambda key, *most: fetched.append(key) or get(key, *most))
    new = refresh(state)
    assert sorted(key.rpartition("/")[2] for key in fetched) == [f"{1:020d}.json", f"{2:020d}.json"]
    assert (new.version, live(new)) == (2, [("b", None), ("c", None)])
    assert set(new.txns) == {"x"}
    assert set(new.domains) == {"d"}
    assert live(state) == [("a", None)], "the old state still stands"
    assert new.snapshot.timestamp_ms > state.snapshot.timestamp_ms


def test_an_old_version_is_refreshed_to_the_latest() -> None:
    log = HandLog()
    log.create(add("a"))
    log.commit(1, remove("a"), add("b"))
    assert live(refresh(load(log.location, version=0))) == [("b", None)]


def test_a_changed_schema_or_protocol_is_seen() -> None:
    log = HandLog()
    log.create()
    state = load(log.location)
    log.commit(1, metadata('{"type":"struct","fields":[{"name":"x","type":"long","nullable":true,"metadata":{}}]}'))
    new = refresh(state)
    assert new.snapshot.schema.names == ("x",)
    log.commit(2, protocol(3, 7, rf=["holograms"]))
    with pytest.raises(Unsupported, match="holograms"):
        refresh(new)


def test_a_log_cleaned_up_in_between_is_read_anew() -> None:
    log = HandLog()
    log.create(add("a"))
    state = load(log.location)
    for version in (1, 2, 3):
        log.commit(version, add(str(version)))
    log.checkpoint(2, protocol(), metadata(), add("a"), add("1"), add("2"))
    for version in (0, 1):
        log.delete(f"{version:020d}.json")
    new = refresh(state)
    assert (new.version, len(new.snapshot.files)) == (3, 4)
    assert new.snapshot.notes == ()


@pytest.mark.parametrize("latest", [0, 1, 2])
def test_a_replaced_log_is_said_to_be_one(latest: int) -> None:
    log = HandLog()
    log.create(add("a"))
    log.commit(1, add("b"))
    state = load(log.location)
    log.delete(f"{1:020d}.json")
    log.create(add("new"))
    for version in range(1, latest + 1):
        log.commit(version, add(f"new-{version}"))
    new = refresh(state)
    assert new.version == latest
    assert ("new", None) in live(new)
    assert ("b", None) not in live(new)
    assert "rewound or replaced since version 1" in new.snapshot.notes[0]


def test_a_torn_new_commit_is_an_error_that_names_it() -> None:
    log = HandLog()
    log.create(add("a"))
    state = load(log.location)
    log.put(f"{1:020d}.json", b'{"add":')
    with pytest.raises(Damaged, match=r"line 1 of .*00000000000000000001\.json"):
        refresh(state)


@pytest.mark.parametrize(("new", "listings"), [(0, 0), (1, 0), (2, 0), (30, 0), (70, 1)])
def test_a_store_on_this_machine_is_listed_only_when_much_is_new(new: int, listings: int) -> None:
    log = HandLog()
    log.create(add("a"))
    store = CountingStore(log.store)
    state = load(Location(store, "t"))
    for version in range(1, new + 1):
        log.commit(version, add(str(version)))
    store.calls.clear()
    assert refresh(state).version == new
    assert store.calls["list_from"] == listings
    assert store.calls["get"] == new


def test_a_hole_in_the_log_is_not_its_end() -> None:
    log = HandLog()
    log.create(add("a"))
    state = load(log.location)
    log.commit(2, add("b"))
    with pytest.raises(Damaged, match="the commit of version 1 is missing"):
        refresh(state)


FILES = st.tuples(st.sampled_from("abcd"), st.sampled_from([None, "x", "y"]))


@st.composite
def histories(draw: st.DrawFn) -> list[list[tuple[bool, tuple[str, str | None]]]]:
    """Commits of adds and removes, each logical file at most once per commit."""
    commit = st.lists(st.tuples(st.booleans(), FILES), max_size=6, unique_by=lambda a: a[1])
    return draw(st.lists(commit, min_size=1, max_size=12))


def action(is_add: bool, file: tuple[str, str | None]) -> dict[str, Any]:
    path, dv = file
    descriptor = None if dv is None else vector(dv, offset=None)
    return add(path, dv=descriptor) if is_add else remove(path, dv=descriptor)


@examples(25)
@given(histories(), st.data())
def test_however_it_is_read_it_is_what_a_plain_replay_says(
    history: list[list[tuple[bool, tuple[str, str | None]]]], data: st.DataObject
) -> None:
    log = HandLog()
    log.create()
    model: dict[tuple[str, str | None], bool] = {}
    states: list[list[tuple[str, str | None]]] = []
    walked = load(log.location)
    checkpoint_at = data.draw(st.integers(0, len(history)))
    for version, actions in enumerate(history, start=1):
        log.commit(version, *(action(*a) for a in actions))
        model |= {file: is_add for is_add, file in actions}
        alive = [(path, dv and f"u{dv}") for (path, dv), is_add in model.items() if is_add]
        states.append(sorted(alive, key=str))
        if version == checkpoint_at:
            files = [action(is_add, file) for file, is_add in model.items()]
            log.checkpoint(version, protocol(), metadata(), *files)
        if data.draw(st.booleans()):
            walked = refresh(walked)
    walked = refresh(walked)
    assert live(load(log.location)) == states[-1]
    assert live(walked) == states[-1]
    for version, expected in enumerate(states, start=1):
        assert live(load(log.location, version=version)) == expected
    assert len(walked.layers) <= 8
    assert isinstance(walked.snapshot.files.table, pa.Table)
