"""Stores that fail on purpose, and stores that count.

1. Calls are counted across all verbs, in the order they are made; the one numbered `at` fails, and no other.
2. BEFORE: nothing happens. ANSWER_LOST: it happens, and the caller is told that nobody knows. CRASH_AFTER: it happens,
   and the process is gone: every later call raises Crash too.
3. A listing is one call, made when it is asked for, not when it is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from itertools import count
from typing import TypeVar

from holdfast.errors import OutcomeUnknown, TableError, Unavailable
from holdfast.storage.base import LARGEST_BYTES, ObjectMeta, ObjectStore
from holdfast.storage.memory import MemoryStore

T = TypeVar("T")


class Crash(BaseException):
    """The process is gone. Not an Exception, so that no handler mistakes it for a failure it may survive."""


class Fault(Enum):
    """The three ways a call can go wrong."""

    BEFORE = "before"
    ANSWER_LOST = "answer lost"
    CRASH_AFTER = "crash after"


class _Wrapped:
    """Every verb of a store through one door."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner

    @property
    def url(self) -> str:
        return self.inner.url

    def _call(self, verb: str, key: str, run: Callable[[], T], *, writes: bool = False) -> T:
        raise NotImplementedError

    def get(self, key: str, most: int = LARGEST_BYTES) -> bytes:
        return self._call("get", key, lambda: self.inner.get(key, most))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._call("get_range", key, lambda: self.inner.get_range(key, start, length))

    def head(self, key: str) -> ObjectMeta:
        return self._call("head", key, lambda: self.inner.head(key))

    def list_from(self, directory: str, start: str = "") -> Iterator[ObjectMeta]:
        return iter(self._call("list_from", directory, lambda: list(self.inner.list_from(directory, start))))

    def list_all(self, directory: str) -> Iterator[ObjectMeta]:
        return iter(self._call("list_all", directory, lambda: list(self.inner.list_all(directory))))

    def put(self, key: str, data: bytes) -> None:
        self._call("put", key, lambda: self.inner.put(key, data), writes=True)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        return self._call("put_if_absent", key, lambda: self.inner.put_if_absent(key, data), writes=True)

    def delete(self, key: str) -> None:
        self._call("delete", key, lambda: self.inner.delete(key), writes=True)


class FaultyStore(_Wrapped):
    """A store whose call number `at` (from 1) goes wrong."""

    def __init__(self, inner: ObjectStore, *, at: int, fault: Fault) -> None:
        super().__init__(inner)
        self.at = at
        self.fault = fault
        self.calls = 0
        self.fired: str | None = None

    def _call(self, verb: str, key: str, run: Callable[[], T], *, writes: bool = False) -> T:
        if self.fired and self.fault is Fault.CRASH_AFTER:
            raise Crash(f"the process ended at {self.fired}")
        self.calls += 1
        if self.calls != self.at:
            return run()
        self.fired = f"{verb} {key}"
        if self.fault is Fault.BEFORE:
            raise Unavailable(f"injected before {self.fired}")
        run()
        if self.fault is Fault.CRASH_AFTER:
            raise Crash(f"injected after {self.fired}")
        if writes:
            raise OutcomeUnknown(f"injected: answer of {self.fired} lost")
        raise Unavailable(f"injected: answer of {self.fired} lost")


class FaultyWrites(FaultyStore):
    """A store of which a write goes wrong: calls that only read are not counted."""

    def _call(self, verb: str, key: str, run: Callable[[], T], *, writes: bool = False) -> T:
        is_gone = bool(self.fired) and self.fault is Fault.CRASH_AFTER
        return super()._call(verb, key, run, writes=writes) if writes or is_gone else run()


def every_fault(
    run: Callable[[ObjectStore], object],
    check: Callable[[ObjectStore], object],
    *,
    make: Callable[[], ObjectStore] = MemoryStore,
    faulty: type[FaultyStore] = FaultyStore,
) -> int:
    """Run with each call failing in each way, and check what is left each time; the number of faults tried.

    `run` may answer with any TableError, and with nothing else.
    """
    tried = 0
    for fault in Fault:
        for at in count(1):
            store = faulty(make(), at=at, fault=fault)
            with suppress(TableError, Crash):
                run(store)
            check(store.inner)
            if not store.fired:
                break
            tried += 1
    return tried


class CountingStore(_Wrapped):
    """A store that counts its calls by verb, and the bytes read and written."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.calls: Counter[str] = Counter()
        self.keys: list[tuple[str, str]] = []
        self.bytes_read = 0
        self.bytes_written = 0

    def _call(self, verb: str, key: str, run: Callable[[], T], *, writes: bool = False) -> T:
        self.calls[verb] += 1
        self.keys.append((verb, key))
        answer = run()
        if isinstance(answer, bytes):
            self.bytes_read += len(answer)
        return answer

    def put(self, key: str, data: bytes) -> None:
        super().put(key, data)
        self.bytes_written += len(data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        created = super().put_if_absent(key, data)
        self.bytes_written += len(data) if created else 0
        return created
