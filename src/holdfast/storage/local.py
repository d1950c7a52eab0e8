"""An object store over the local file system.

A key is an absolute path without its leading slash. A write goes to a temporary name in the same directory, is synced
to disk, and is renamed only then.

1. A write that returned survives a power failure: the bytes and the directory entry are both on disk.
2. A temporary name starts with `.` and ends with TEMPORARY; such files are never listed, and no reader ever sees one
   half written.
3. put_if_absent takes the name by a hard link, which only one writer can create. Where a file system has no hard links
   an empty file claims the name first, which a reader may see for a moment.
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
        with file_system("read", path), open_regular_file(path) as file:
            check_size(path, os.fstat(file.fileno()).st_size, most)
            return file.read()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        assert min(start, length) >= 0, "a range is counted from the start of the object"
        path = _path(key)
        with file_system("read", path), open_regular_file(path) as file:
            available = min(length, max(0, os.fstat(file.fileno()).st_size - start))
            check_size(path, available, LARGEST_BYTES)
            file.seek(start)
            return file.read(available)

    def head(self, key: str) -> ObjectMeta:
        path = _path(key)
        with file_system("read", path):
            status = os.stat(path)
            if not os.path.isfile(path):
                raise NotFound(key, url=self.url)
        return file_meta(key, status)

    def list_from(self, directory: str, start: str = "") -> Iterator[ObjectMeta]:
        listed: list[bytes] = []
        with _listing(directory):
            listed = os.listdir(os.fsencode(_path(directory)))
        first = os.fsencode(start)
        # A log has many names, and a caller needs few: only these are decoded and statted.
        names = map(os.fsdecode, sorted(name for name in listed if name >= first))
        metas = (_listed_meta(_below(directory, name)) for name in names if not is_temporary(name))
        return (meta for meta in metas if meta is not None)

    def list_all(self, directory: str) -> Iterator[ObjectMeta]:
        inner: list[str] = []
        with _listing(directory), os.scandir(_path(directory)) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    inner.append(_below(directory, entry.name))
                elif not is_temporary(entry.name) and (meta := _listed_meta(_below(directory, entry.name))) is not None:
                    yield meta
        for below in inner:
            yield from self.list_all(below)

    def put(self, key: str, data: bytes) -> None:
        path = _path(key)
        with self._written(path, data) as temporary:
            os.replace(temporary, path)
        sync_entry(path)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        path = _path(key)
        if os.path.lexists(path):
            return False
        with self._written(path, data) as temporary:
            created = take_name(temporary, path)
        if created:
            sync_entry(path)
        return created

    def delete(self, key: str) -> None:
        path = _path(key)
        try:
            os.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise os_error_as_table_error(error, "delete", path) from error
        sync_entry(path)

    @contextmanager
    def _written(self, path: str, data: bytes) -> Iterator[str]:
        """Write bytes to disk under a temporary name, which exists only inside the `with`."""
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
                with suppress(OSError):  # a leftover is hidden, and must not make a finished write fail
                    os.unlink(temporary)


def open_regular_file(path: str) -> BinaryIO:
    """Opens a regular file to read; reading a device or a pipe might never end, or never begin."""
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
            return True  # over NFS a link can succeed and its response be lost; the name is our own file's
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


def sync_entry(path: str) -> None:
    """Force a changed directory entry to disk."""
    try:
        _sync_directory(os.path.dirname(path))
    except OSError as error:
        raise OutcomeUnknown(f"{path} was changed, but its directory could not be synced: {error.strerror}") from error


def make_directory(directory: str) -> None:
    """Make a directory and its parents, each synced to disk before the next; an invalid name raises first."""
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


def is_temporary(name: str) -> bool:
    """Whether a file is one that a writer has not finished."""
    """Whether a file is one that a writer has not finished."""
    return name.startswith(".") and name.endswith(TEMPORARY)


def file_meta(key: str, status: os.stat_result) -> ObjectMeta:
    """What a file's status says of the object it holds."""
    return ObjectMeta(key, status.st_size, status.st_mtime_ns // 1_000_000)


def _below(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def _listed_meta(key: str) -> ObjectMeta | None:
    """The meta of a listed file; None for a directory, and for a file that was deleted since."""
    path = _path(key)
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise os_error_as_table_error(error, "read", path) from error
    return file_meta(key, status) if stat.S_ISREG(status.st_mode) else None


@contextmanager
def _listing(directory: str) -> Iterator[None]:
    """A directory that does not exist has no entries."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_SUCH_FILE:
            raise os_error_as_table_error(error, "list", f"/{directory}") from error
