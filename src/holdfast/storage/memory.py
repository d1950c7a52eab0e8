"""An object store in this process's memory, for tests and simulations.

1. Every call is atomic: threads see calls in some order.
2. A listing is the state at the moment of the call, whatever happens while it is read.
3. Times come from the Env, which is read once per write, so that a run can be repeated exactly.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from threading import Lock
from typing import NoReturn

from holdfast.env import Env, system
from holdfast.storage.base import LARGEST_BYTES, NotFound, ObjectMeta, check_size


class MemoryStore:
    """A store that lives as long as the object does."""

    def __init__(self, name: str = "", env: Env | None = None) -> None:
        self._url = f"memory://{name}"
        self._env = env or system()
        self._lock = Lock()
        self._objects: dict[str, tuple[bytes, int]] = {}
        self._order: list[str] = []  # code point order, which is the order of the UTF-8 bytes

    def __repr__(self) -> str:
        return f"MemoryStore({self._url})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} lives in one process and cannot be sent to another")

    @property
    def url(self) -> str:
        return self._url

    def get(self, key: str, most: int = LARGEST_BYTES) -> bytes:
        data = self._entry(key)[0]
        check_size(f"{self.url}/{key}", len(data), most)
        return data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        assert min(start, length) >= 0, "a range is counted from the start of the object"
        return self._entry(key)[0][start : start + length]

    def head(self, key: str) -> ObjectMeta:
        data, modified_ms = self._entry(key)
        return ObjectMeta(key, len(data), modified_ms)

    def list_from(self, directory: str, start: str = "") -> Iterator[ObjectMeta]:
        prefix = f"{directory}/" if directory else ""
        return iter([meta for meta in self._below(prefix, start) if "/" not in meta.key[len(prefix) :]])

    def list_all(self, directory: str) -> Iterator[ObjectMeta]:
        return iter(self._below(f"{directory}/" if directory else "", ""))

    def put(self, key: str, data: bytes) -> None:
        with self._lock:
            self._set(key, data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with self._lock:
            if key in self._objects:
                return False
            self._set(key, data)
            return True

    def delete(self, key: str) -> None:
        with self._lock:
            if self._objects.pop(key, None) is not None:
                del self._order[bisect_left(self._order, key)]

    def _entry(self, key: str) -> tuple[bytes, int]:
        try:
            return self._objects[key]
        except KeyError:
            raise NotFound(key, url=self._url) from None

    def _below(self, prefix: str, start: str) -> list[ObjectMeta]:
        metas: list[ObjectMeta] = []
        with self._lock:
            for index in range(bisect_left(self._order, prefix + start), len(self._order)):
                key = self._order[index]
                if not key.startswith(prefix):
                    break
                data, modified_ms = self._objects[key]
                metas.append(ObjectMeta(key, len(data), modified_ms))
        return metas

    def _set(self, key: str, data: bytes) -> None:
        if key not in self._objects:
            insort(self._order, key)
        self._objects[key] = (bytes(data), self._env.now_ms())
