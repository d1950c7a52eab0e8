"""Turns exceptions of the file system and of decoders into errors of `holdfast.errors`.

1. An OSError becomes the error that says what to do next: NotFound (no such file), Invalid (this user may not, or the
   name cannot be) or Unavailable (the disk is full or does not answer).
2. A name that is too long is the name of no file: reading it raises NotFound, writing it raises Invalid.
3. An exception of MALFORMED while bytes are decoded means that the bytes are Damaged. AssertionError is not in that
   list, and a TableError passes unchanged.
"""

from __future__ import annotations

import errno
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from holdfast.errors import Damaged, Invalid, TableError, Unavailable
from holdfast.storage.base import NotFound

T = TypeVar("T")

MALFORMED: tuple[type[Exception], ...] = (
    ValueError,  # also bytes that are no UTF-8, and what Arrow calls invalid
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    NotImplementedError,
    EOFError,
    struct.error,
    zlib.error,
    pa.ArrowException,
)
"""What decoders raise on malformed bytes."""

MALFORMED_JSON: tuple[type[Exception], ...] = (msgspec.MsgspecError, *MALFORMED)

Long: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]  # a number of JSON that fits a column

NO_SUCH_FILE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.ENXIO}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_BAD_NAME = {errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.EILSEQ, errno.ENOTDIR, errno.EISDIR}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def os_error_as_table_error(error: OSError, verb: str, path: str) -> TableError:
    """An OSError as an error of `holdfast.errors`; `verb` is read, list, write or delete."""
    reason = error.strerror or str(error)
    if verb == "read" and error.errno in NO_SUCH_FILE:
        return NotFound(path.removeprefix("/"), url="file://")
    if error.errno in _DENIED:
        return Invalid(f"cannot {verb} {path}: {reason}; let this user {verb} it, or run as another user")
    if verb != "read" and error.errno in _BAD_NAME:
        return Invalid(f"cannot {verb} {path}: {reason}; choose another place")
    if error.errno in _FULL:
        return Unavailable(f"cannot {verb} {path}: {reason}; nothing was written: make room, then try again")
    return Unavailable(f"cannot {verb} {path}: {reason}")


@contextmanager
def file_system(verb: str, path: str) -> Iterator[None]:
    """Turns an OSError about a path into an error of `holdfast.errors`."""
    try:
        yield
    except OSError as error:
        raise os_error_as_table_error(error, verb, path) from error


@contextmanager
def parsing(path: str, what: str = "cannot be read", *, remedy: str = "restore it") -> Iterator[None]:
    """Turns an exception of MALFORMED while a file is decoded into Damaged; the message is "{path} {what}"."""
    try:
        yield
    except OSError as error:
        # Arrow raises OSError for malformed bytes too, but only the file system sets errno.
        if error.errno is not None:
            raise os_error_as_table_error(error, "read", path) from error
        raise damage(path, what, error, remedy=remedy) from error
    except MALFORMED as error:
        raise damage(path, what, error, remedy=remedy) from error


def json_record(
    data: bytes | str, type_: type[T], *, path: str, what: str = "cannot be read", remedy: str = "restore it"
) -> T:
    """Decodes JSON into a record of a type; anything else is Damaged."""
    try:
        return msgspec.json.decode(data, type=type_)
    except MALFORMED_JSON as error:
        raise damage(path, what, error, remedy=remedy) from error


def damage(path: str, what: str, error: Exception, *, remedy: str = "restore it") -> Damaged:
    """The error for a file with malformed bytes."""
    return Damaged(f"{path} {what}: {reason_of(error)}; {remedy}", path=path)


def reason_of(error: Exception) -> str:
    """The first line of a decoding error."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, KeyError):
        return f"it lacks {error}"
    return str(error).partition("\n")[0] or repr(error)
