"""Opens an object as a file that pyarrow reads in ranges, so that it fetches only the columns it needs.

1. Objects up to WHOLE_BYTES are fetched in one request, because a second one costs more than the bytes.
2. Larger ones are read with a request per range; nothing is cached.
"""

from __future__ import annotations

import io

import pyarrow as pa

from holdfast.storage.base import ObjectMeta, ObjectStore

WHOLE_BYTES = 4 << 20


def open_source(store: ObjectStore, meta: ObjectMeta) -> pa.NativeFile:
    """A file over a listed object."""
    if meta.size <= WHOLE_BYTES:
        return pa.BufferReader(store.get(meta.key, WHOLE_BYTES))
    return pa.PythonFile(_RangedFile(store, meta), mode="r")


class _RangedFile(io.RawIOBase):
    """A file that reads ranges of an object."""

    def __init__(self, store: ObjectStore, meta: ObjectMeta) -> None:
        super().__init__()
        self._store = store
        self._meta = meta
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._meta.size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        remaining = max(self._meta.size - self._position, 0)
        length = remaining if size < 0 else min(size, remaining)
        if length == 0:
            return b""
        data = self._store.get_range(self._meta.key, self._position, length)
        self._position += len(data)
        return data
