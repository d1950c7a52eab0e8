"""A segment of an index on storage: a directory of files that never change, and a `meta.json` that vouches for them.

    domain of the table  ->  checksum of meta.json  ->  size and checksum of every file

1. Nothing refers to a segment before all of it is there.
2. What does not match its size or checksum, or is not there, is Damaged: whoever asked for it scans instead.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

import msgspec
import pyarrow as pa

from holdfast.errors import Damaged
from holdfast.index.registry import SegmentRef
from holdfast.storage.base import LARGEST_BYTES, NotFound, TooLarge
from holdfast.storage.error_mapping import json_record
from holdfast.storage.location import Location, is_inside

META = "meta.json"
META_BYTES = 256 << 20  # that it has at most
_AT_ONCE = 4


class FileSum(msgspec.Struct, frozen=True):
    """A file of a segment, by what it must be."""

    bytes: int
    crc: int  # CRC-32 of all of it
    extra: dict[str, Any] = {}


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """What a segment says of itself."""

    kind: str
    uuid: str
    version: int  # of the snapshot it was built from
    entries: int
    low_id: int
    high_id: int
    files: dict[str, FileSum]
    extra: dict[str, Any] = {}
    format: int = 1


def checksum(data: bytes | pa.Buffer) -> int:
    """What a file is known by."""
    return zlib.crc32(data)


class SegmentWriting:
    """Files of a segment that are written a few at a time; leaving the block waits for all of them."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="holdfast-index")
        self._begun: deque[Future[None]] = deque()

    def __enter__(self) -> SegmentWriting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._pool:
            while error is None and self._begun:
                self._begun.popleft().result()

    def put(self, directory: str, name: str, data: bytes) -> FileSum:
        """Begin to write a file."""
        while len(self._begun) >= _AT_ONCE:
            self._begun.popleft().result()
        key = self._location.key(directory, name)
        self._begun.append(self._pool.submit(self._location.store.put, key, data))
        return FileSum(len(data), checksum(data))


def put_file(location: Location, directory: str, name: str, data: bytes) -> FileSum:
    """Write one file of a segment."""
    location.store.put(location.key(directory, name), data)
    return FileSum(len(data), checksum(data))


def put_meta(directory: str, meta: Meta, writing: SegmentWriting, extra: Mapping[str, Any] | None = None) -> SegmentRef:
    """Complete a segment: write its `meta.json`; gives how an index refers to it, `extra` included."""
    data = msgspec.json.encode(meta)
    writing.put(directory, META, data)
    return SegmentRef(
        meta.uuid,
        directory,
        meta.version,
        meta.entries,
        meta.low_id,
        meta.high_id,
        len(data) + sum(one.bytes for one in meta.files.values()),
        f"{checksum(data):08x}",
        extra=dict(extra or {}),
    )


def read_meta(location: Location, ref: SegmentRef) -> Meta:
    """What a segment says of itself, once its checksum is right."""
    data = get_file(location, ref.directory, META, None)
    where = f"{location.url}/{ref.directory}/{META}"
    if f"{checksum(data):08x}" != ref.checksum:
        raise Damaged(
            f"{where} is not what was written: its checksum is {checksum(data):08x} instead of {ref.checksum}",
            path=where,
            expected=ref.checksum,
            found=f"{checksum(data):08x}",
        )
    return json_record(data, Meta, path=where, what="is not understood", remedy="rebuild the index")


def get_file(location: Location, directory: str, name: str, told: FileSum | None) -> bytes:
    """The bytes of a file, once they are what they must be; `told` None: whatever they are."""
    where = f"{location.url}/{directory}/{name}"
    if not is_inside(name):
        raise Damaged(f"the index refers to {where}, which is not in the table's directory: rebuild it", path=where)
    try:
        data = location.store.get(
            location.key(directory, name), META_BYTES if told is None else min(told.bytes, LARGEST_BYTES)
        )
    except NotFound as error:
        raise Damaged(f"{where} is not there, but the index refers to it", path=where) from error
    except TooLarge as error:
        raise Damaged(f"{where} is not what was written: {error}; rebuild the index", path=where) from error
    if told is not None and (len(data), checksum(data)) != (told.bytes, told.crc):
        raise Damaged(
            f"{where} is not what was written: {len(data)} bytes with checksum {checksum(data):08x} instead of "
            f"{told.bytes} with {told.crc:08x}",
            path=where,
            expected=f"{told.bytes} bytes, {told.crc:08x}",
            found=f"{len(data)} bytes, {checksum(data):08x}",
        )
    return data
