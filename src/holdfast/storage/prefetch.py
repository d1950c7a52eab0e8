"""Many fetches in order, a few of them ahead of the reader where each is a round trip; one fetch beside others.

1. Results come in the order of what was asked for, and an error comes where its result would have.
2. A store on this machine is asked one thing at a time: handing over between threads costs more than the reading.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import TypeVar

from holdfast.storage.base import ObjectStore, is_on_this_machine

AHEAD = 16

A = TypeVar("A")
B = TypeVar("B")


def each(store: ObjectStore, fetch: Callable[[A], B], wanted: Sequence[A]) -> Iterator[B]:
    """What `fetch` gives for each of `wanted`, which it reads from the store."""
    if len(wanted) < 2 or is_on_this_machine(store):
        yield from map(fetch, wanted)
        return
    with ThreadPoolExecutor(AHEAD) as pool:
        waiting = iter(wanted)
        running: deque[Future[B]] = deque(pool.submit(fetch, one) for one in islice(waiting, AHEAD))
        while running:
            result = running.popleft().result()
            running.extend(pool.submit(fetch, one) for one in islice(waiting, 1))
            yield result


@contextmanager
def beside(store: ObjectStore, fetch: Callable[[], B]) -> Iterator[Callable[[], B]]:
    """What `fetch` reads from the store, read while the body reads other things, when the body asks for it."""
    if is_on_this_machine(store):
        yield cache(fetch)
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(fetch).result
