"""Prefetching: results are in order, for local and remote stores."""

from __future__ import annotations

from threading import Event, get_ident

import pytest

from holdfast.storage.memory import MemoryStore
from holdfast.storage.prefetch import AHEAD, beside, each


class FarStore(MemoryStore):
    """A store that says it is not on this machine."""

    @property
    def url(self) -> str:
        return "s3://far"


def test_far_results_come_in_order_and_overlap() -> None:
    second_started = Event()

    def fetch(n: int) -> int:
        if n == 0:
            assert second_started.wait(10), "the next one is fetched while the first is on its way"
        second_started.set()
        return n * n

    numbers = list(range(3 * AHEAD))
    assert list(each(FarStore(), fetch, numbers)) == [n * n for n in numbers]


def test_near_results_come_from_the_same_thread() -> None:
    assert set(each(MemoryStore(), lambda _: get_ident(), range(5))) == {get_ident()}


@pytest.mark.parametrize("store", [FarStore(), MemoryStore()])
def test_an_error_comes_where_its_result_would_have(store: MemoryStore) -> None:
    results = each(store, lambda n: 1 // n, [1, 1, 0, 1])
    assert [next(results), next(results)] == [1, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_nothing_wanted_is_nothing_fetched() -> None:
    assert list(each(FarStore(), lambda n: n, [])) == []


def test_one_fetch_runs_beside_others_where_it_is_a_round_trip() -> None:
    started, read = Event(), Event()

    def fetch() -> int:
        started.set()
        assert read.wait(10), "the body goes on while the fetch is on its way"
        return get_ident()

    with beside(FarStore(), fetch) as answer:
        assert started.wait(10)
        read.set()
        assert answer() != get_ident()
    with beside(MemoryStore(), get_ident) as answer:
        assert (answer(), answer()) == (get_ident(), get_ident())
