"""Deletion vectors in storage: from the descriptors of a file table to hidden positions, and from bitmaps to files.

A vector stands in its descriptor, or with others in a file: a version byte, then one frame after another.

1. Every vector of the files asked for is loaded and checked (version, size, CRC, magic, cardinality), or it raises:
   a table is never read with rows showing that its log hides.
2. A position at or past the file's row count is Damaged, where the log knows that count.
3. A file of vectors is fetched once, whatever the number of vectors asked of it: what lies close in one request.
4. Paths of vectors are as untrusted as paths of data files.
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
CLOSE_BYTES = 1 << 20  # fetching this much for nothing is cheaper than another request
_WORKERS = 16
_GROUP = 5  # characters of Z85 for four bytes


def load_hidden(location: Location, files: FileTable) -> HiddenRows:
    """The positions hidden in these files."""
    with parsing(location.url, "has deletion vectors that cannot be read"):
        return _loaded(location, files)


def _loaded(location: Location, files: FileTable) -> HiddenRows:
    wanted = _wanted(location, files)
    loaded = {want.key: _inline_positions(want) for want in wanted if want.file is None}
    by_file: dict[str, list[_Want]] = {}
    for want in wanted:
        if want.file is not None:
            by_file.setdefault(want.file, []).append(want)
    if len(by_file) < 2:
        found = [_stored_positions(location, file, wants) for file, wants in by_file.items()]
    else:
        with ThreadPoolExecutor(min(_WORKERS, len(by_file))) as pool:
            found = list(pool.map(lambda item: _stored_positions(location, *item), by_file.items()))
    loaded.update(chain.from_iterable(found))
    return HiddenRows(loaded)


@dataclass(frozen=True, slots=True)
class DvFile:
    """A file of vectors: its file key, its bytes, and a descriptor for each vector in it."""

    key: str
    data: bytes
    vectors: tuple[DeletionVector, ...]


def pack(bitmaps: Sequence[BitMap64], *, uuid: UUID, prefix: str = "") -> DvFile:
    """Vectors of these positions, one after another in one file named by the uuid."""
    data = bytearray([FILE_VERSION])
    vectors = []
    for positions in bitmaps:
        blob = bitmap.encode(positions)
        vectors.append(DeletionVector("u", prefix + z85.encode_uuid(uuid), len(blob), len(positions), len(data)))
        data += bitmap.frame(blob)
    return DvFile(_relative(prefix, uuid), bytes(data), tuple(vectors))


def inline(positions: BitMap64) -> DeletionVector:
    """A vector of these positions that stands in its own descriptor."""
    blob = bitmap.encode(positions)
    return DeletionVector("i", z85.encode(blob), len(blob), len(positions))


@dataclass(frozen=True, slots=True)
class _Want:
    """A data file's vector: where it is, and what must be true of it."""

    key: str  # of the data file
    file: str | None  # file key of the vector file; None: inline
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


def _wanted(location: Location, files: FileTable) -> list[_Want]:
    files = files.filter(pc.is_valid(files.column("dv")).combine_chunks())
    rows = zip(
        files.column("key").to_pylist(), files.column("dv").to_pylist(), files.num_records.to_pylist(), strict=True
    )
    wanted: dict[str, _Want] = {}
    for key, dv, num_records in rows:
        if key in wanted:
            raise Damaged(f"the log of {location.url} has {key} twice, with different deletion vectors", path=key)
        wanted[key] = _want(location, key, dv, num_records)
    return list(wanted.values())


def _want(location: Location, key: str, dv: Mapping[str, Any], num_records: int | None) -> _Want:
    missing = [name for name in ("storage", "path", "size", "cardinality") if dv[name] is None]
    if missing or dv["size"] < 0 or (dv["offset"] or 0) < 0:
        raise Damaged(f"the deletion vector of data file {key} has an impossible descriptor: {dict(dv)}", path=key)
    if num_records is not None and dv["size"] > _most_bytes(num_records):
        raise Damaged(
            f"the deletion vector of data file {key} is said to have {dv['size']} bytes, more than {num_records} rows "
            "can need: restore the version before it",
            path=key,
        )
    file = vector_file(location, key, dv["storage"], dv["path"])
    return _Want(key, file, dv["path"], dv["offset"] or 0, dv["size"], dv["cardinality"], num_records)


def _most_bytes(num_records: int) -> int:
    """What positions in so many rows can take, in the worst of encodings: runs of one in every container."""
    return _OVERHEAD + (num_records // _CONTAINER_ROWS + 1) * _CONTAINER_BYTES


def vector_file(location: Location, key: str, storage: str, path: str) -> str | None:
    """The file key of the file that a data file's vector is in; None where it stands in its descriptor."""
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


def _inline_positions(want: _Want) -> BitMap64:
    try:
        return _checked(want, _inline_blob(want))
    except Damaged as error:
        raise Damaged(str(error), path=want.key, expected=error.expected, found=error.found) from error


def _inline_blob(want: _Want) -> bytes:
    """The bytes of an inline vector, in either spelling of a size that is no multiple of four.

    Most writers fill the last group with zero bytes. The Rust z85 library, which some use, writes as many `#` as bytes
    are missing and then the short group; no full group starts with `#`, so the two cannot be confused.
    """
    short = -want.size % 4
    mark = "#" * short
    if not short or want.text[-_GROUP : -_GROUP + short] != mark:
        return z85.decode(want.text, want.size, where=want.where)
    head = z85.decode(want.text[:-_GROUP], want.size - (4 - short), where=want.where)
    return head + z85.decode("0" * short + want.text[short - _GROUP :], 4, where=want.where)[short:]


def _stored_positions(location: Location, file: str, wants: Sequence[_Want]) -> list[tuple[str, BitMap64]]:
    wants = sorted(wants, key=lambda want: want.offset)
    spans = _fetch(location, file, wants)
    (version,) = spans[0].cut(0, 1) or (None,)
    if version != FILE_VERSION:
        raise Damaged(
            f"{file}, with deletion vectors of data file {wants[0].key}, has version {version} where "
            f"{FILE_VERSION} is known; restore it or an earlier version of the table",
            path=file,
            offset=0,
            expected=str(FILE_VERSION),
            found=str(version),
        )
    return [(want.key, _framed_positions(file, want, spans)) for want in wants]


def _framed_positions(file: str, want: _Want, spans: Sequence[_ByteSpan]) -> BitMap64:
    span = next(span for span in reversed(spans) if span.start <= want.offset)
    try:
        frame = span.cut(want.offset, want.end)
        return _checked(want, bitmap.unframe(frame, size=want.size, where=want.where))
    except Damaged as error:
        at = want.offset + (error.offset or 0)
        raise Damaged(str(error), path=file, offset=at, expected=error.expected, found=error.found) from error


def _checked(want: _Want, blob: bytes) -> BitMap64:
    positions = bitmap.decode(blob, expected_cardinality=want.cardinality, where=want.where)
    if want.num_records is not None and positions and positions.max() >= want.num_records:
        raise Damaged(
            f"deletion vector {want.where} hides position {positions.max()}, and the file has {want.num_records} rows; "
            "restore it or an earlier version of the table",
            path=want.where,
            expected=f"below {want.num_records}",
            found=str(positions.max()),
        )
    return positions


@dataclass(frozen=True, slots=True)
class _ByteSpan:
    """A stretch of a file's bytes."""

    start: int
    data: bytes

    def cut(self, start: int, end: int) -> bytes:
        return self.data[start - self.start : end - self.start]


def _fetch(location: Location, file: str, wants: Sequence[_Want]) -> list[_ByteSpan]:
    key = location.store_key(file)
    try:
        return [_ByteSpan(s, location.store.get_range(key, s, e - s)) for s, e in _stretches(wants)]
    except NotFound as error:
        raise MissingFile(
            f"{location.file_url(file)} is not there, and the deletion vector of data file {wants[0].key} is in it; "
            "restore it or an earlier version of the table",
            path=file,
        ) from error


def _stretches(wants: Sequence[_Want]) -> Iterator[tuple[int, int]]:
    """What to fetch, as start and end: the version byte and the vectors, joined where they lie close."""
    start, end = 0, 1
    for want in wants:
        if want.offset > end + CLOSE_BYTES:
            yield start, end
            start = want.offset
        end = max(end, want.end)
    yield start, end
