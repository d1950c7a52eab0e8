"""Reads and writes deletion vectors, inline or in deletion vector files.

A deletion vector file is a version byte, then one frame per deletion vector.

1. Every deletion vector of the files is loaded and checked (version, size, CRC, magic, cardinality), or an error is
   raised: a read never shows rows that the log hides.
2. A position at or above the row count of the file is Damaged, where the log has that count.
3. Vectors of one file that are close together are fetched in one request.
4. Paths of deletion vector files are as untrusted as paths of data files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pyarrow.compute as pc
from pyroaring import BitMap64

from holdfast.errors import Damaged, MissingFile, Unsupported
from holdfast.formats.delta.log.actions import DeletionVector
from holdfast.model.files import FileTable
from holdfast.model.snapshot import HiddenRows
from holdfast.rows import bitmap, z85
from holdfast.storage.base import NotFound
from holdfast.storage.error_mapping import parsing
from holdfast.storage.location import Location

FILE_VERSION = 1
FRAME_BYTES = 8  # the size before a blob and the CRC after it
_CONTAINER_ROWS = 1 << 16
_CONTAINER_BYTES = 4 * (1 << 15) + 64
_OVERHEAD = 1 << 16
CLOSE_BYTES = 1 << 20  # fetching this many unneeded bytes costs less than another request
_WORKERS = 16
_GROUP = 5  # characters of Z85 for four bytes


def load_hidden(location: Location, files: FileTable) -> HiddenRows:
    """The hidden positions of these files."""
    with parsing(location.url, "has deletion vectors that cannot be read"):
        return _loaded(location, files)


def _loaded(location: Location, files: FileTable) -> HiddenRows:
    requests = _requests(location, files)
    positions = {request.key: _inline_positions(request) for request in requests if request.file is None}
    by_file: dict[str, list[_DvRequest]] = {}
    for request in requests:
        if request.file is not None:
            by_file.setdefault(request.file, []).append(request)
    if len(by_file) < 2:
        stored = [_stored_positions(location, file, group) for file, group in by_file.items()]
    else:
        with ThreadPoolExecutor(min(_WORKERS, len(by_file))) as pool:
            stored = list(pool.map(lambda item: _stored_positions(location, *item), by_file.items()))
    positions.update(chain.from_iterable(stored))
    return HiddenRows(positions)


@dataclass(frozen=True, slots=True)
class DvFile:
    """A deletion vector file: its file key, its bytes, and the descriptors of its deletion vectors."""

    key: str
    data: bytes
    vectors: tuple[DeletionVector, ...]


def pack(bitmaps: Sequence[BitMap64], *, uuid: UUID, prefix: str = "") -> DvFile:
    """A deletion vector file with these positions, named by the uuid."""
    data = bytearray([FILE_VERSION])
    vectors = []
    for positions in bitmaps:
        blob = bitmap.encode(positions)
        vectors.append(DeletionVector("u", prefix + z85.encode_uuid(uuid), len(blob), len(positions), len(data)))
        data += bitmap.frame(blob)
    return DvFile(_relative(prefix, uuid), bytes(data), tuple(vectors))


def inline(positions: BitMap64) -> DeletionVector:
    """An inline deletion vector with these positions."""
    blob = bitmap.encode(positions)
    return DeletionVector("i", z85.encode(blob), len(blob), len(positions))


@dataclass(frozen=True, slots=True)
class _DvRequest:
    """A deletion vector to load: where it is, and the checks that it must pass."""

    key: str  # of the data file
    file: str | None  # file key of the deletion vector file; None: inline
    text: str
    offset: int
    size: int
    cardinality: int
    num_records: int | None

    @property
    def where(self) -> str:
        place = "inline" if self.file is None else f"{self.file} at {self.offset}"
        return f"{place} (of data file {self.key})"

    @property
    def end(self) -> int:
        return self.offset + self.size + FRAME_BYTES


def _requests(location: Location, files: FileTable) -> list[_DvRequest]:
    files = files.filter(pc.is_valid(files.column("dv")).combine_chunks())
    rows = zip(
        files.column("key").to_pylist(), files.column("dv").to_pylist(), files.num_records.to_pylist(), strict=True
    )
    requests: dict[str, _DvRequest] = {}
    for key, dv, num_records in rows:
        if key in requests:
            raise Damaged(f"the log of {location.url} has {key} twice, with different deletion vectors", path=key)
        requests[key] = _request(location, key, dv, num_records)
    return list(requests.values())


def _request(location: Location, key: str, dv: Mapping[str, Any], num_records: int | None) -> _DvRequest:
    missing = [name for name in ("storage", "path", "size", "cardinality") if dv[name] is None]
    if missing or dv["size"] < 0 or (dv["offset"] or 0) < 0:
        raise Damaged(f"the deletion vector of data file {key} has an impossible descriptor: {dict(dv)}", path=key)
    if num_records is not None and dv["size"] > _max_bytes(num_records):
        raise Damaged(
            f"the deletion vector of data file {key} is said to have {dv['size']} bytes, more than {num_records} rows "
            "can need: restore the version before it",
            path=key,
        )
    file = dv_file(location, key, dv["storage"], dv["path"])
    return _DvRequest(key, file, dv["path"], dv["offset"] or 0, dv["size"], dv["cardinality"], num_records)


def _max_bytes(num_records: int) -> int:
    """The largest bitmap for this many rows, in the worst encoding: runs of one in every container."""
    return _OVERHEAD + (num_records // _CONTAINER_ROWS + 1) * _CONTAINER_BYTES


def dv_file(location: Location, key: str, storage: str, path: str) -> str | None:
    """The key of the file that holds a data file's deletion vector; None for an inline one."""
    match storage:
        case "i":
            return None
        case "p":
            return location.file_key(path)
        case "u":
            where = f"deletion vector {path!r} of data file {key}"
            uuid = z85.decode_uuid(path[-z85.UUID_LENGTH :], where=where)
            return location.file_key(quote(_relative(path[: -z85.UUID_LENGTH], uuid), safe=""))
        case _:
            raise Unsupported(
                f"the deletion vector of data file {key} is stored in the way {storage!r}, which Holdfast does not know"
            )


def _relative(prefix: str, uuid: UUID) -> str:
    name = f"deletion_vector_{uuid}.bin"
    return f"{prefix}/{name}" if prefix else name


def _inline_positions(request: _DvRequest) -> BitMap64:
    try:
        return _checked(request, _inline_blob(request))
    except Damaged as error:
        raise Damaged(str(error), path=request.key, expected=error.expected, found=error.found) from error


def _inline_blob(request: _DvRequest) -> bytes:
    """The bytes of an inline deletion vector, in either encoding of a size that is no multiple of four.

    Most writers pad the last group with zero bytes. The Rust z85 library writes one `#` per missing byte and then the
    short group; no full group starts with `#`, so the two cannot be confused.
    """
    missing = -request.size % 4
    padding = "#" * missing
    if not missing or request.text[-_GROUP : -_GROUP + missing] != padding:
        return z85.decode(request.text, request.size, where=request.where)
    head = z85.decode(request.text[:-_GROUP], request.size - (4 - missing), where=request.where)
    return head + z85.decode("0" * missing + request.text[missing - _GROUP :], 4, where=request.where)[missing:]


def _stored_positions(location: Location, file: str, requests: Sequence[_DvRequest]) -> list[tuple[str, BitMap64]]:
    requests = sorted(requests, key=lambda request: request.offset)
    spans = _fetch(location, file, requests)
    (version,) = spans[0].cut(0, 1) or (None,)
    if version != FILE_VERSION:
        raise Damaged(
            f"{file}, with deletion vectors of data file {requests[0].key}, has version {version} where "
            f"{FILE_VERSION} is known; restore it or an earlier version of the table",
            path=file,
            offset=0,
            expected=str(FILE_VERSION),
            found=str(version),
        )
    return [(request.key, _framed_positions(file, request, spans)) for request in requests]


def _framed_positions(file: str, request: _DvRequest, spans: Sequence[_ByteSpan]) -> BitMap64:
    span = next(span for span in reversed(spans) if span.start <= request.offset)
    try:
        frame = span.cut(request.offset, request.end)
        return _checked(request, bitmap.unframe(frame, size=request.size, where=request.where))
    except Damaged as error:
        at = request.offset + (error.offset or 0)
        raise Damaged(str(error), path=file, offset=at, expected=error.expected, found=error.found) from error


def _checked(request: _DvRequest, blob: bytes) -> BitMap64:
    positions = bitmap.decode(blob, expected_cardinality=request.cardinality, where=request.where)
    if request.num_records is not None and positions and positions.max() >= request.num_records:
        raise Damaged(
            f"deletion vector {request.where} hides position {positions.max()}, and the file has "
            f"{request.num_records} rows; restore it or an earlier version of the table",
            path=request.where,
            expected=f"below {request.num_records}",
            found=str(positions.max()),
        )
    return positions


@dataclass(frozen=True, slots=True)
class _ByteSpan:
    """A range of a file's bytes."""

    start: int
    data: bytes

    def cut(self, start: int, end: int) -> bytes:
        return self.data[start - self.start : end - self.start]


def _fetch(location: Location, file: str, requests: Sequence[_DvRequest]) -> list[_ByteSpan]:
    key = location.store_key(file)
    try:
        return [_ByteSpan(s, location.store.get_range(key, s, e - s)) for s, e in _ranges(requests)]
    except NotFound as error:
        raise MissingFile(
            f"{location.file_url(file)} is not there, and the deletion vector of data file {requests[0].key} is in it; "
            "restore it or an earlier version of the table",
            path=file,
        ) from error


def _ranges(requests: Sequence[_DvRequest]) -> Iterator[tuple[int, int]]:
    """The byte ranges to fetch: the version byte and the frames, merged where they are close."""
    start, end = 0, 1
    for request in requests:
        if request.offset > end + CLOSE_BYTES:
            yield start, end
            start = request.offset
        end = max(end, request.end)
    yield start, end
