"""Output files that Arrow writes into, and copies of objects; both appear whole or not at all.

A sink belongs to one table's directory and opens outputs by file key. It can be pickled into tasks.

1. An output is visible once `close` has returned, and not before; one that is aborted or dropped never is.
2. No output replaces an object of a local or memory store; names in a remote one are expected to be fresh.
3. A local file is streamed to disk and a remote object uploaded in parts, so neither is held in memory whole. Any other
   store is given the object in one put.
4. Within one bucket the server copies; otherwise bytes pass through this process in pieces of 8 MiB. An object of the
   same size at the target counts as the copy, because a failed attempt may have made it and objects never change.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Protocol

import obstore
import pyarrow as pa

from holdfast.errors import Invalid, MissingFile, Unavailable
from holdfast.storage.base import NotFound, ObjectStore
from holdfast.storage.error_mapping import file_system
from holdfast.storage.local import TEMPORARY, LocalStore, make_directory, sync_entry, take_name
from holdfast.storage.location import Location
from holdfast.storage.remote import RemoteStore, Upload

_COPY_BYTES = 8 << 20


class OutputFile(Protocol):
    """An object that is being written."""

    @property
    def file(self) -> pa.NativeFile:
        """What Arrow writes into, within `writing`."""

    def writing(self) -> AbstractContextManager[None]:
        """Turns errors of the file system during a write into errors of `holdfast.errors`."""

    def close(self) -> int:
        """Make the object appear; returns its time of change in milliseconds."""

    def abort(self) -> None:
        """Leave nothing behind that could be taken for the object."""


class FileSink(Protocol):
    """Opens outputs by key, relative to a table's directory."""

    def open(self, key: str) -> OutputFile: ...


def open_sink(location: Location, now_ms: Callable[[], int]) -> FileSink:
    """The sink of a table's directory."""
    match location.store:
        case LocalStore():
            return LocalSink(location.directory)
        case RemoteStore() as remote:
            return RemoteSink(remote, location.directory)
        case store:
            return StoreSink(store, location.directory, now_ms)


def put(sink: FileSink, key: str, pieces: Iterable[bytes]) -> None:
    """Write an object from pieces; where a piece raises, no object appears."""
    output = sink.open(key)
    try:
        for piece in pieces:
            with output.writing():
                output.file.write(piece)
        output.close()
    except BaseException:
        output.abort()
        raise


def copy(source: ObjectStore, key: str, target: Location, file_key: str, now_ms: Callable[[], int]) -> int:
    """Copy an object below a directory; gives its size."""
    try:
        size = source.head(key).size
    except NotFound as error:
        path = f"{source.url}/{key}"
        raise MissingFile(f"{path} is not there, so it cannot be copied; restore it", path=path) from error
    if _has_copy(target, file_key, size):
        return size
    if (
        isinstance(source, RemoteStore)
        and isinstance(target.store, RemoteStore)
        and source.config == target.store.config
    ):
        with source.translating_errors("write", target.key(file_key)):
            obstore.copy(source.client, key, target.key(file_key))
        return size
    pieces = (source.get_range(key, start, min(_COPY_BYTES, size - start)) for start in range(0, size, _COPY_BYTES))
    put(open_sink(target, now_ms), file_key, pieces)
    return size


def _has_copy(target: Location, file_key: str, size: int) -> bool:
    try:
        actual = target.store.head(target.key(file_key)).size
    except NotFound:
        return False
    if actual != size:
        raise Invalid(
            f"{target.file_url(file_key)} is there already, with {actual} bytes instead of {size}: another file has "
            "its name; choose an empty directory"
        )
    return True


@dataclass(frozen=True, slots=True)
class LocalSink:
    """Files of this machine."""

    directory: str

    def open(self, key: str) -> OutputFile:
        return _LocalOutput("/" + _joined(self.directory, key))


@dataclass(frozen=True, slots=True)
class RemoteSink:
    """Objects of a bucket."""

    store: RemoteStore
    directory: str

    def open(self, key: str) -> OutputFile:
        return _RemoteOutput(self.store.upload(_joined(self.directory, key)))


@dataclass(frozen=True, slots=True)
class StoreSink:
    """Objects of any store, kept in memory until they are complete."""

    store: ObjectStore
    directory: str
    now_ms: Callable[[], int]

    def open(self, key: str) -> OutputFile:
        return _StoreOutput(self.store, _joined(self.directory, key), self.now_ms)


class _LocalOutput:
    def __init__(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        self._path = path
        self._temporary = f"{directory}/.{name}{TEMPORARY}"
        with self.writing():
            make_directory(directory)
            self.file = pa.OSFile(self._temporary, "wb")

    def writing(self) -> AbstractContextManager[None]:
        return file_system("write", self._path)

    def close(self) -> int:
        with self.writing():
            self.file.close()
            descriptor = os.open(self._temporary, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if not take_name(self._temporary, self._path):
                raise Unavailable(f"{self._path} exists already; nothing was written: try again under a fresh name")
            modified_ms = os.stat(self._path).st_mtime_ns // 1_000_000
        self._discard()
        sync_entry(self._path)
        return modified_ms

    def abort(self) -> None:
        with suppress(OSError):
            self.file.close()
        self._discard()

    def _discard(self) -> None:
        with suppress(OSError):  # a leftover is hidden from every listing
            os.unlink(self._temporary)


class _RemoteOutput:
    def __init__(self, upload: Upload) -> None:
        self._upload = upload
        self.file = pa.PythonFile(upload, mode="w")

    def writing(self) -> AbstractContextManager[None]:
        return nullcontext()  # the upload translates its errors itself

    def close(self) -> int:
        self._upload.finish()
        return time.time_ns() // 1_000_000

    def abort(self) -> None:
        """Uploaded parts never become an object; the bucket's lifecycle rules remove them."""


@dataclass(slots=True)
class _StoreOutput:
    store: ObjectStore
    key: str
    now_ms: Callable[[], int]
    file: pa.BufferOutputStream = field(default_factory=pa.BufferOutputStream)

    def writing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> int:
        if not self.store.put_if_absent(self.key, self.file.getvalue().to_pybytes()):
            place = f"{self.store.url}/{self.key}"
            raise Unavailable(f"{place} exists already; nothing was written: try again under a fresh name")
        return self.now_ms()

    def abort(self) -> None:
        """Nothing has left this process."""


def _joined(directory: str, key: str) -> str:
    return f"{directory}/{key}" if directory else key
