"""What a file system says, and what bytes are not, as errors of the tree."""

from __future__ import annotations

import errno
import os
import struct
import zlib

import msgspec
import pyarrow as pa
import pytest

from holdfast.errors import Damaged, Invalid, TableError, Unavailable
from holdfast.storage.base import NotFound
from holdfast.storage.error_mapping import MALFORMED, file_system, json_record, parsing


class Record(msgspec.Struct):
    version: int


def failing(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("number", "verb", "kind", "what"),
    [
        (errno.ENOENT, "read", NotFound, "no object at file:///x/y"),
        (errno.EISDIR, "read", NotFound, "no object"),
        (errno.ENAMETOOLONG, "read", NotFound, "no object"),
        (errno.ENAMETOOLONG, "write", Invalid, "choose another place"),
        (errno.ENOTDIR, "write", Invalid, "choose another place"),
        (errno.EACCES, "read", Invalid, "let this user read it"),
        (errno.EROFS, "write", Invalid, "let this user write it"),
        (errno.EPERM, "delete", Invalid, "let this user delete it"),
        (errno.ENOSPC, "write", Unavailable, "nothing was written: make room"),
        (errno.EDQUOT, "write", Unavailable, "make room"),
        (errno.EFBIG, "write", Unavailable, "make room"),
        (errno.EIO, "read", Unavailable, "cannot read /x/y"),
    ],
)
def test_what_a_file_system_says_tells_what_to_do(number: int, verb: str, kind: type[TableError], what: str) -> None:
    with pytest.raises(kind, match=what) as caught, file_system(verb, "/x/y"):
        failing(OSError(number, os.strerror(number)))
    assert type(caught.value) is kind
    assert "/x/y" in str(caught.value)


def test_bytes_that_are_no_record_are_damaged() -> None:
    errors = [*(kind("odd") for kind in MALFORMED), struct.error("short"), zlib.error("torn"), KeyError("name")]
    errors += [pa.ArrowInvalid("no"), pa.ArrowNotImplementedError("no"), OSError("Couldn't deserialize thrift")]
    errors.append(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"))
    for error in errors:
        with pytest.raises(Damaged, match=r"^/x/y is torn: .*; restore it$") as caught, parsing("/x/y", "is torn"):
            failing(error)
        assert caught.value.path == "/x/y"
        assert caught.value.__cause__ is error


def test_a_store_that_fails_while_bytes_are_read_is_not_damage() -> None:
    with pytest.raises(Invalid, match="let this user read it"), parsing("/x/y"):
        failing(PermissionError(errno.EACCES, "Permission denied"))
    with pytest.raises(NotFound), parsing("/x/y"):
        failing(FileNotFoundError(errno.ENOENT, "gone"))


@pytest.mark.parametrize("error", [AssertionError("a bug"), Unavailable("later"), KeyboardInterrupt(), MemoryError()])
def test_what_is_no_word_of_the_bytes_passes(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, parsing("/x/y"):
        failing(error)
    assert caught.value is error


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'{"version": "x"}', b"\xff\xfe", b"[" * 100_000])
def test_json_that_is_no_record_is_damaged(data: bytes) -> None:
    with pytest.raises(Damaged, match=r"^/x/y is no record: "):
        json_record(data, Record, path="/x/y", what="is no record")


def test_json_that_is_too_deep_says_so() -> None:
    deep = b'{"version": 1, "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(Damaged, match="it is nested too deeply"):
        json_record(deep, Record, path="/x/y")
