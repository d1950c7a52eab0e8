"""Byte ranges of a file in memory, addressed by their offsets in the file.

1. A local file is mapped whole. Of a remote one only the requested ranges are read, those close to each other in one
   read and very long ones in several, at most `parallel` at a time.
2. A read that returns fewer bytes raises ValueError: the file is shorter than its log says.
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
    starts: NDArray[np.int64]  # of each range in the file, ascending
    at: NDArray[np.int64]  # of each range in `data`

    @property
    def view(self) -> memoryview:
        return self.data.data

    def find(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The offsets in `data` of bytes at these offsets of the file, which lie in some range."""
        shifts = self.at - self.starts
        if len(shifts) > 1:
            shifts = shifts[self.starts.searchsorted(places, side="right") - 1]
        offsets: NDArray[np.int64] = places + shifts
        return offsets

    def place(self, place: int) -> int:
        """The same of a single offset."""
        if len(self.starts) > 1:
            return int(self.find(np.array([place]))[0])
        return place + int(self.at[0] - self.starts[0])


def whole(data: NDArray[np.uint8]) -> Window:
    """The window over all bytes of a file."""
    return Window(data, np.zeros(1, np.int64), np.zeros(1, np.int64))


class Mappings:
    """A cache of memory-mapped local files; the least recently used one is dropped first.

    Mappings are kept because touching their pages for the first time is expensive. There are not many, because a
    mapping keeps the bytes of a deleted file on disk.
    """

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[Version, NDArray[np.uint8]]] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[Mappings], tuple[int]]:
        return Mappings, (self._most,)  # in a task the cache starts empty

    def get(self, path: str) -> tuple[Version, NDArray[np.uint8]]:
        """The bytes of a file, and a version that changes when they do."""
        status = os.stat(path)
        version = (status.st_size, status.st_mtime_ns, status.st_ino)
        with self._lock:
            cached = self._kept.get(path)
            if cached is not None and cached[0] == version:
                self._kept.move_to_end(path)
                return cached
        with open_regular_file(path) as file:
            entry = (version, np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8))
        with self._lock:
            self._kept[path] = entry
            self._kept.move_to_end(path)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return entry


def joined(starts: NDArray[np.int64], stops: NDArray[np.int64], *, near: int) -> tuple[NDArray[np.int64], ...]:
    """Ranges in order, with those that are at most `near` bytes apart merged."""
    if not len(starts):
        return starts, stops
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], np.maximum.accumulate(stops[order])
    apart = starts[1:] > stops[:-1] + near
    return starts[np.append(True, apart)], stops[np.append(apart, True)]


def fetched(
    read: Callable[[int, int], bytes], starts: NDArray[np.int64], stops: NDArray[np.int64], pool: Executor
) -> Callable[[], Window]:
    """Begin to read ranges of a file; the returned function waits for them."""
    starts, stops = joined(starts, stops, near=NEAR)
    lengths = stops - starts
    at = np.cumsum(lengths) - lengths
    data = np.empty(int(lengths.sum()), np.uint8)

    def read_piece(place: int, start: int, length: int) -> None:
        received = read(start, length)
        if len(received) != length:
            raise ValueError(f"{length} bytes at {start} are {len(received)}")
        data[place : place + length] = np.frombuffer(received, np.uint8)

    reads = [pool.submit(read_piece, *piece) for piece in _pieces(at, starts, lengths)]

    def wait() -> Window:
        for future in reads:
            future.result()
        return Window(data, starts, at)

    return wait


def _pieces(*ranges: NDArray[np.int64]) -> Iterable[tuple[int, int, int]]:
    for at, start, length in zip(*(s.tolist() for s in ranges), strict=True):
        for offset in range(0, length, LONG):
            yield at + offset, start + offset, min(LONG, length - offset)
