"""Opens a file of any store for Arrow to read.

1. A local file is mapped into memory, a small remote one is fetched in one get, and a large one by ranges, its end
   first.
2. A missing file raises MissingFile and an empty one raises Damaged, both with its name.
"""

from __future__ import annotations

import io

import pyarrow as pa

from holdfast.errors import Damaged, MissingFile
from holdfast.parquet.pages.footer import FOOTER_GUESS
from holdfast.storage.base import NotFound, ObjectStore
from holdfast.storage.error_mapping import file_system
from holdfast.storage.local import open_regular_file

WHOLE = 4 * 1024 * 1024  # up to here one get is quicker than several ranges


def open_source(store: ObjectStore, key: str, size: int | None) -> pa.NativeFile:
    """Open one file; `size` is the one in the log, and only decides how the file is fetched."""
    uri = f"{store.url}/{key}"
    try:
        source = _local(key) if store.url == "file://" else _remote(store, key, size)
    except NotFound as error:
        raise MissingFile(f"{uri} is not there, but the table refers to it; restore it", path=uri) from error
    if source is None:
        raise Damaged(f"{uri} is empty, which is no Parquet file; restore it", path=uri, found="0 bytes")
    return source


def _local(key: str) -> pa.NativeFile | None:
    path = f"/{key}"
    with file_system("read", path):
        with open_regular_file(path) as file:
            if not file.read(1):
                return None
        return pa.memory_map(path)


def _remote(store: ObjectStore, key: str, size: int | None) -> pa.NativeFile | None:
    if size is not None and size <= WHOLE:
        data = store.get(key)
        return pa.BufferReader(data) if data else None
    actual = store.head(key).size
    return pa.PythonFile(_Ranges(store, key, actual), mode="r") if actual else None


class _Ranges(io.RawIOBase):
    """A seekable file over ranged gets. Arrow reads whole column chunks, so only the end of the file is cached."""

    def __init__(self, store: ObjectStore, key: str, size: int) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._size = size
        self._at = 0
        self._tail_at = max(0, size - FOOTER_GUESS)
        self._tail = store.get_range(key, self._tail_at, size - self._tail_at)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        stop = self._size if size < 0 else min(self._at + size, self._size)
        if stop <= self._at:
            return b""
        if self._at >= self._tail_at:
            data = self._tail[self._at - self._tail_at : stop - self._tail_at]
        else:
            data = self._store.get_range(self._key, self._at, stop - self._at)
        self._at += len(data)
        return data
