"""Stretches of a file in memory, found by their places in the file.

1. A local file is mapped whole. Of a remote one come the stretches asked for, those close to each other in one read
   and very long ones in several, at most `parallel` at a time.
2. What a store gives short of what was asked raises ValueError: the file is not as long as its log says.
"""

from __future__ import annotations

import mmap
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from threading import Lock
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.storage.local import open_regular_file

NEAR = 64 << 10  # bytes that are cheaper to read than to leave out
LONG = 8 << 20  # bytes that come sooner in several reads

Version: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Bytes of a file."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]  # of each stretch in the file, ascending
    at: NDArray[np.int64]  # of each stretch in `data`

    @property
    def view(self) -> memoryview:
        return self.data.data

    def find(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where in `data` the bytes at these places of the file are; they are in some stretch."""
        shifts = self.at - self.starts
        if len(shifts) > 1:
            shifts = shifts[self.starts.searchsorted(places, side="right") - 1]
        found: NDArray[np.int64] = places + shifts
        return found

    def place(self, place: int) -> int:
        """The same of a single place."""
        return (
            int(self.find(np.array([place]))[0]) if len(self.starts) > 1 else place + int(self.at[0] - self.starts[0])
        )


def whole(data: NDArray[np.uint8]) -> Window:
    """All of a file."""
    return Window(data, np.zeros(1, np.int64), np.zeros(1, np.int64))


class Mappings:
    """Local files mapped into memory, the least used of which go first.

    A mapping is kept because touching its pages for the first time is what costs; it also keeps the bytes of a file
    that is deleted meanwhile, so there are not many.
    """

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[Version, NDArray[np.uint8]]] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[Mappings], tuple[int]]:
        return Mappings, (self._most,)  # what travels to a task starts empty

    def get(self, path: str) -> tuple[Version, NDArray[np.uint8]]:
        """The bytes of a file, and what changes when they do."""
        facts = os.stat(path)
        version = (facts.st_size, facts.st_mtime_ns, facts.st_ino)
        with self._lock:
            found = self._kept.get(path)
            if found is not None and found[0] == version:
                self._kept.move_to_end(path)
                return found
        with open_regular_file(path) as file:
            made = (version, np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8))
        with self._lock:
            self._kept[path] = made
            self._kept.move_to_end(path)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return made


def joined(starts: NDArray[np.int64], stops: NDArray[np.int64], *, near: int) -> tuple[NDArray[np.int64], ...]:
    """Stretches in order, those with no more than `near` bytes between them made one."""
    if not len(starts):
        return starts, stops
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], np.maximum.accumulate(stops[order])
    apart = starts[1:] > stops[:-1] + near
    return starts[np.append(True, apart)], stops[np.append(apart, True)]


def fetched(
    read: Callable[[int, int], bytes], starts: NDArray[np.int64], stops: NDArray[np.int64], pool: Executor
) -> Callable[[], Window]:
    """Begin to read stretches of a file; the answer waits for them."""
    starts, stops = joined(starts, stops, near=NEAR)
    lengths = stops - starts
    at = np.cumsum(lengths) - lengths
    data = np.empty(int(lengths.sum()), np.uint8)

    def one(place: int, start: int, length: int) -> None:
        got = read(start, length)
        if len(got) != length:
            raise ValueError(f"{length} bytes at {start} are {len(got)}")
        data[place : place + length] = np.frombuffer(got, np.uint8)

    begun = [pool.submit(one, *piece) for piece in _pieces(at, starts, lengths)]

    def answer() -> Window:
        for reading in begun:
            reading.result()
        return Window(data, starts, at)

    return answer


def _pieces(*stretches: NDArray[np.int64]) -> Iterable[tuple[int, int, int]]:
    for at, start, length in zip(*(s.tolist() for s in stretches), strict=True):
        for offset in range(0, length, LONG):
            yield at + offset, start + offset, min(LONG, length - offset)
