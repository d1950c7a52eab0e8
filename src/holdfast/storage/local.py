"""Objects that are files of this machine.

A key is an absolute path without its leading slash. Bytes are written under a temporary name in the same directory,
forced to disk, and only then given their name.

1. An answered write survives a power failure: the bytes and the directory entry are both on disk.
2. A temporary name starts with `.` and ends with TEMPORARY; such files are never listed, and no reader ever sees one
   half written.
3. put_if_absent takes the name by a hard link, which one writer alone can do. Where a file system has no hard links
   the name is first claimed by an empty file, which a reader may meet for a moment.
4. Before the file has its name nothing has happened, so a failure is one of `error_mapping`'s; after that it is
   OutcomeUnknown.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from holdfast.env import Env, system
from holdfast.errors import Damaged, Invalid, OutcomeUnknown
from holdfast.storage.base import LARGEST_BYTES, NotFound, ObjectMeta, check_size
from holdfast.storage.error_mapping import NO_SUCH_FILE, file_system, os_error_as_table_error

TEMPORARY = ".holdfast-tmp"

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class LocalStore:
    """The files of this machine."""

    url = "file://"

    def __init__(self, env: Env | None = None) -> None:
        self._env = env or system()

    def __repr__(self) -> str:
        return "LocalStore()"

    def __reduce__(self) -> tuple[type[LocalStore], tuple[()]]:
        return LocalStore, ()

    def get(self, key: str, most: int = LARGEST_BYTES) -> bytes:
        path = _path(key)
        with file_system("read", path), opened(path) as file:
            check_size(path, os.fstat(file.fileno()).st_size, most)
            return file.read()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        assert min(start, length) >= 0, "a range is counted from the start of the object"
        path = _path(key)
        with file_system("read", path), opened(path) as file:
            there = min(length, max(0, os.fstat(file.fileno()).st_size - start))
            check_size(path, there, LARGEST_BYTES)
            file.seek(start)
            return file.read(there)

    def head(self, key: str) -> ObjectMeta:
        path = _path(key)
        with file_system("read", path):
            found = os.stat(path)
            if not os.path.isfile(path):
                raise NotFound(key, url=self.url)
        return _meta(key, found)

    def list_from(self, directory: str, start: str = "") -> Iterator[ObjectMeta]:
        listed: list[bytes] = []
        with _listing(directory):
            listed = os.listdir(os.fsencode(_path(directory)))
        first = os.fsencode(start)
        # A log has many names, of which few are wanted: only those are decoded and looked at.
        names = map(os.fsdecode, sorted(name for name in listed if name >= first))
        found = (_file_meta(_below(directory, name)) for name in names if not _temporary(name))
        return (meta for meta in found if meta is not None)

    def list_all(self, directory: str) -> Iterator[ObjectMeta]:
        inner: list[str] = []
        with _listing(directory), os.scandir(_path(directory)) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    inner.append(_below(directory, entry.name))
                elif not _temporary(entry.name) and (meta := _file_meta(_below(directory, entry.name))) is not None:
                    yield meta
        for below in inner:
            yield from self.list_all(below)

    def put(self, key: str, data: bytes) -> None:
        path = _path(key)
        with self._written(path, data) as temporary:
            os.replace(temporary, path)
        settle(path)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        path = _path(key)
        if os.path.lexists(path):
            return False
        with self._written(path, data) as temporary:
            created = take_name(temporary, path)
        if created:
            settle(path)
        return created

    def delete(self, key: str) -> None:
        path = _path(key)
        try:
            os.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise os_error_as_table_error(error, "delete", path) from error
        settle(path)

    @contextmanager
    def _written(self, path: str, data: bytes) -> Iterator[str]:
        """The bytes on disk under a temporary name, which is gone afterwards."""
        directory = os.path.dirname(path)
        temporary = os.path.join(directory, f".{self._env.new_uuid()}{TEMPORARY}")
        with file_system("write", path):
            make_directory(directory)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                with open(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(descriptor)
                yield temporary
            finally:
                with suppress(OSError):  # a leftover is hidden, and must not make a done write look failed
                    os.unlink(temporary)


def opened(path: str) -> BinaryIO:
    """A file to read, if it is one: a device or a pipe would never end, or never begin."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return open(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise Damaged(f"{path} is a device or a pipe and no file: put the file that the table means there", path=path)


def take_name(temporary: str, path: str) -> bool:
    """Give a written file its name; False when the name is taken."""
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return _claim_name(temporary, path)
        if os.stat(temporary).st_nlink == 2:
            return True  # over NFS a link can succeed and its answer be lost; what is there is our own file
        if isinstance(error, FileExistsError):
            return False
        raise
    return True


def _claim_name(temporary: str, path: str) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except FileExistsError:
        return False
    try:
        os.replace(temporary, path)
    except OSError as error:
        raise OutcomeUnknown(f"{path} was claimed but not filled: {error.strerror}; remove it if empty") from error
    return True


def settle(path: str) -> None:
    """Force a changed directory entry to disk."""
    try:
        _sync_directory(os.path.dirname(path))
    except OSError as error:
        raise OutcomeUnknown(f"{path} was changed, but its directory could not be synced: {error.strerror}") from error


def make_directory(directory: str) -> None:
    """Make a directory and those above it, each on disk before the next; none where its name is one it cannot have."""
    with suppress(FileNotFoundError):
        os.stat(directory)
    missing: list[str] = []
    while not os.path.isdir(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    for path in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(path)
        _sync_directory(os.path.dirname(path))


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _path(key: str) -> str:
    path = f"/{key}"
    try:
        if b"\x00" not in os.fsencode(path):
            return path
    except UnicodeEncodeError:
        pass
    raise Invalid(f"{key!r} cannot be the name of a file")


def _temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(TEMPORARY)


def _meta(key: str, found: os.stat_result) -> ObjectMeta:
    return ObjectMeta(key, found.st_size, found.st_mtime_ns // 1_000_000)


def _below(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def _file_meta(key: str) -> ObjectMeta | None:
    """What is listed under a key; None for a directory, and for what went away since it was listed."""
    path = _path(key)
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise os_error_as_table_error(error, "read", path) from error
    return _meta(key, found) if stat.S_ISREG(found.st_mode) else None


@contextmanager
def _listing(directory: str) -> Iterator[None]:
    """Nothing is found where there is no directory."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SUCH_FILE:
            raise os_error_as_table_error(error, "list", f"/{directory}") from error
