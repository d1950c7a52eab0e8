"""The fault injector finds what it should (tests/support/faulty.py)."""

from __future__ import annotations

import pytest

from holdfast.errors import OutcomeUnknown, Unavailable
from holdfast.storage.base import NotFound, ObjectStore
from holdfast.storage.memory import MemoryStore
from tests.support.faulty import CountingStore, Crash, Fault, FaultyStore, every_fault


def present(store: ObjectStore, key: str) -> bool:
    try:
        store.head(key)
    except NotFound:
        return False
    return True


@pytest.mark.parametrize(
    ("fault", "raised", "happens"),
    [(Fault.BEFORE, Unavailable, False), (Fault.ANSWER_LOST, OutcomeUnknown, True), (Fault.CRASH_AFTER, Crash, True)],
)
def test_each_fault_does_what_it_says(fault: Fault, raised: type[BaseException], happens: bool) -> None:
    store = FaultyStore(MemoryStore(), at=2, fault=fault)
    store.put("a", b"")
    with pytest.raises(raised):
        store.put_if_absent("b", b"")
    assert present(store.inner, "b") is happens
    assert store.fired == "put_if_absent b"
    if fault is Fault.CRASH_AFTER:
        with pytest.raises(Crash):
            store.get("a")
    else:
        assert store.get("a") == b""


def test_a_read_whose_answer_is_lost_is_unavailable() -> None:
    store = FaultyStore(MemoryStore(), at=1, fault=Fault.ANSWER_LOST)
    with pytest.raises(Unavailable):
        store.list_from("a")
    assert list(store.list_from("a")) == []


def test_the_sweep_visits_every_call_in_every_way() -> None:
    def run(store: ObjectStore) -> None:
        store.put("a", b"")
        store.put("b", b"")

    seen: list[tuple[bool, bool]] = []
    assert every_fault(run, lambda store: seen.append((present(store, "a"), present(store, "b")))) == 6
    none, a, both = (False, False), (True, False), (True, True)
    assert seen == [none, a, both, a, both, both, a, both, both]


def test_the_sweep_finds_a_blind_repetition() -> None:
    def add_twice_when_unsure(store: ObjectStore) -> None:
        version = len(list(store.list_from("log")))
        try:
            store.put_if_absent(f"log/{version}", b"+1")
        except OutcomeUnknown:
            store.put_if_absent(f"log/{version + 1}", b"+1")

    def added_at_most_once(store: ObjectStore) -> None:
        assert len(list(store.list_from("log"))) <= 1

    with pytest.raises(AssertionError):
        every_fault(add_twice_when_unsure, added_at_most_once)


def test_counting_counts_calls_and_bytes() -> None:
    store = CountingStore(MemoryStore())
    store.put("a", b"123")
    store.put_if_absent("a", b"12345")
    store.get("a")
    store.get_range("a", 1, 1)
    assert store.calls == {"put": 1, "put_if_absent": 1, "get": 1, "get_range": 1}
    assert (store.bytes_written, store.bytes_read) == (3, 4)
    assert store.keys[-1] == ("get_range", "a")
