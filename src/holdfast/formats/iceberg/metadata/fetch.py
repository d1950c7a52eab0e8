"""Small files of a table, fetched side by side where that helps: from stores that answer after a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from holdfast.storage.location import Location

_WORKERS = 16
_NEAR = ("file:", "memory:")  # here a thread costs more than what it would wait for
Item = TypeVar("Item")
Made = TypeVar("Made")


def each(location: Location, work: Callable[[Item], Made], items: Sequence[Item]) -> Iterator[Made]:
    """What `work` makes of each item, in order."""
    if len(items) < 2 or location.store.url.startswith(_NEAR):
        yield from map(work, items)
        return
    with ThreadPoolExecutor(min(_WORKERS, len(items))) as pool:
        yield from pool.map(work, items)
