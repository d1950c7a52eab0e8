"""Avro object containers as Arrow columns: manifests and manifest lists, whatever their writer put into them.

1. A column has a value per record, in the order of the file; what the writer's schema lacks is absent from the result.
2. Fields are known by their names, and carry the field ids of the writer's schema where it has some.
3. Every length lies within the file, every block ends with the sync marker of the header, and its records take exactly
   its bytes; whatever does not add up is Damaged and names the file.
4. What blocks unpack to, and what is held of them, stays below `LIMIT_BYTES` and `LIMIT_RATIO` times the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from holdfast.errors import Damaged, Unsupported
from holdfast.formats.iceberg.avro.layouts import Record
from holdfast.formats.iceberg.avro.records import read_records
from holdfast.formats.iceberg.avro.window import AvroWindow, Malformed, Places, number_at
from holdfast.formats.iceberg.avro.writer_schema import record_layout

LIMIT_BYTES, LIMIT_RATIO = 32 << 20, 100
PART_BYTES = 1 << 20  # blocks are decoded together up to this size, and what was walked is made into columns
RECORD_BYTES = 8 << 20  # that a record has at most, all but a part
_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CHECKSUM_BYTES = 4  # of zlib, which writers in Python leave, or a part of it, behind deflated bytes
_SNAPPY_RATIO = 32  # a copy of 64 bytes takes three, so that no writer gets above 22

_BROKEN = (
    Malformed,
    zlib.error,
    UnicodeDecodeError,
    msgspec.DecodeError,
    RecursionError,
    pa.ArrowException,
    OSError,  # Arrow's, of a stream that cannot be unpacked
)

_Unpack = Callable[[bytes, int], bytes]


@dataclass(frozen=True)
class Container:
    """What an object container holds: the writer's notes, and its records as a struct array."""

    notes: Mapping[str, bytes]
    records: pa.StructArray


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks behind each other: how many records there are, and where the bytes end, with each of them."""

    data: bytes
    counts: Places
    ends: Places

    @classmethod
    def of(cls, pieces: list[bytes], counts: list[int]) -> _Blocks:
        return cls(b"".join(pieces), np.cumsum(counts), np.cumsum([len(piece) for piece in pieces]))


def read_container(data: bytes, *, wanted: Collection[str] | None = None, where: str) -> Container:
    """The records of a file. `wanted` are names of fields to decode, with all that is inside them; None: all."""
    if data[:4] != _MAGIC:
        raise Damaged(f"{where} is no Avro file; restore it", path=where, expected=repr(_MAGIC), found=repr(data[:4]))
    try:
        return _read(data, wanted, where)
    except IndexError as error:
        raise Damaged(f"{where} ends too early to be read as Avro: {error}; restore it", path=where) from error
    except _BROKEN as error:
        raise Damaged(f"{where} cannot be read as Avro: {error}; restore it", path=where) from error


def read_same_schema(files: Sequence[bytes]) -> tuple[Container, list[int]] | None:
    """The records of files as those of one, and how many each has: a file costs its records and little else.

    None where their writers gave them different schemas, or where one is to be looked at by itself.
    """
    try:
        if not all(data[:4] == _MAGIC for data in files):
            return None
        heads = [_notes(data) for data in files]
        if len({(notes.get("avro.schema"), notes.get("avro.codec")) for notes, _ in heads}) != 1:
            return None
        notes, _ = heads[0]
        record = record_layout(msgspec.json.decode(notes["avro.schema"]), None, "")
        unpack = _codec(notes.get("avro.codec", b"null").decode(), "")
        pieces, counts = list[bytes](), list[int]()
        for data, (_, start) in zip(files, heads, strict=True):
            groups = list(_groups(data, start, unpack, LIMIT_BYTES))
            pieces.append(b"".join(group.data for group in groups))
            counts.append(sum(int(group.counts[-1]) for group in groups))
            if sum(map(len, pieces)) > LIMIT_BYTES:
                return None
        parts = list(_parts(_Blocks.of(pieces, counts), record)) if any(counts) else []
    except (*_BROKEN, IndexError, KeyError, Unsupported):
        return None
    return (Container(notes, pa.concat_arrays(parts)), counts) if parts else None


def _read(data: bytes, wanted: Collection[str] | None, where: str) -> Container:
    notes, start = _notes(data)
    if "avro.schema" not in notes:
        raise Malformed("its header has no schema")
    record = record_layout(msgspec.json.decode(notes["avro.schema"]), wanted, where)
    unpack = _codec(notes.get("avro.codec", b"null").decode(), where)
    limit = LIMIT_BYTES + LIMIT_RATIO * len(data)
    parts: list[pa.StructArray] = []
    held = 0
    for group in _groups(data, start, unpack, limit):
        for part in _parts(group, record):
            held += part.nbytes
            if held > limit:
                raise Malformed(f"its {len(data)} bytes hold more than {limit} bytes of values")
            parts.append(part)
    if not parts:
        parts = [record.read(AvroWindow(b""), np.zeros(0, np.int64))[0]]
    return Container(notes, parts[0] if len(parts) == 1 else pa.concat_arrays(parts))


def _parts(group: _Blocks, record: Record) -> Iterator[pa.StructArray]:
    """The records of some blocks, decoded in windows over their bytes."""
    start = done = 0
    while start < len(group.data):
        window = AvroWindow(group.data[start : start + RECORD_BYTES])
        records, places = read_records(record, window, cut=start + window.size < len(group.data))
        blocks = slice(*np.searchsorted(group.counts, [done, done + len(places)]))
        if (places[group.counts[blocks] - done] != group.ends[blocks] - start).any():
            raise Malformed("a block has more bytes than its records, or more records than it claims")
        yield records
        start, done = start + int(places[-1]), done + len(places) - 1
    if done != group.counts[-1]:
        raise Malformed(f"blocks claim {group.counts[-1]} records and have {done}")


def _notes(data: bytes) -> tuple[dict[str, bytes], int]:
    """What the header says, and where the first block begins, behind the sync marker."""
    notes: dict[str, bytes] = {}
    count, at = number_at(data, len(_MAGIC))
    while count:
        if count < 0:
            count = -count
            _, at = number_at(data, at)
        if count > len(data) - at:
            raise Malformed("its header ends too early")
        for _ in range(count):
            name, at = _blob_at(data, at)
            notes[name.decode()], at = _blob_at(data, at)
        count, at = number_at(data, at)
    if at + _SYNC_BYTES > len(data):
        raise Malformed("its header ends too early")
    return notes, at + _SYNC_BYTES


def _blob_at(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = number_at(data, at)
    if not 0 <= size <= len(data) - at:
        raise Malformed(f"a length of {size} stands where {len(data) - at} bytes are left")
    return data[at : at + size], at + size


def _groups(data: bytes, at: int, unpack: _Unpack, limit: int) -> Iterator[_Blocks]:
    """The blocks of a file that have records, unpacked; those that are small together."""
    sync = data[at - _SYNC_BYTES : at]
    pieces: list[bytes] = []
    counts: list[int] = []
    size = total = 0
    while at < len(data):
        count, at = number_at(data, at)
        packed, at = _blob_at(data, at)
        if data[at : at + _SYNC_BYTES] != sync:
            raise Malformed("a block does not end with the sync marker of its file")
        at += _SYNC_BYTES
        piece = unpack(packed, limit - total)
        total += len(piece)
        if not min(1, len(piece)) <= count <= len(piece):
            raise Malformed(f"a block of {len(piece)} bytes claims {count} records")
        if pieces and size + len(piece) > PART_BYTES:
            yield _Blocks.of(pieces, counts)
            pieces, counts, size = [], [], 0
        if piece:
            size += len(piece)
            pieces.append(piece)
            counts.append(count)
    if pieces:
        yield _Blocks.of(pieces, counts)


def _codec(name: str, where: str) -> _Unpack:
    match name:
        case "null":
            return _within
        case "deflate":
            return _inflated
        case "zstandard":
            return lambda packed, limit: _within(_unpacked_zstd(packed, limit), limit)
        case "snappy":
            return _unpacked_snappy
        case _:
            raise Unsupported(f"{where} is compressed by {name!r}, which Holdfast does not read")


def _within(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise Malformed(f"a block unpacks to more than the {limit} bytes that a file of this size may have left")
    return data


def _inflated(packed: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(-15)
    data = _within(stream.decompress(packed, limit + 1), limit)
    if not stream.eof or len(stream.unused_data) > _CHECKSUM_BYTES:
        raise Malformed("a block ends before its deflated bytes do, or well after them")
    return data


def _unpacked_zstd(packed: bytes, limit: int) -> bytes:
    with pa.input_stream(pa.BufferReader(packed), compression="zstd") as stream:
        return bytes(stream.read(limit + 1))


def _unpacked_snappy(packed: bytes, limit: int) -> bytes:
    """Raw snappy says its own size first; the checksum of what it unpacks to stands behind it."""
    packed, checksum = packed[:-4], packed[-4:]
    size = shift = 0
    for byte in packed[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > min(limit, _SNAPPY_RATIO * len(packed)):
        raise Malformed(f"a block of {len(packed)} bytes claims to unpack to {size}")
    data = bytes(pa.Codec("snappy").decompress(packed, decompressed_size=size))
    if zlib.crc32(data) != int.from_bytes(checksum, "big"):
        raise Malformed("a block has another checksum than it says")
    return data
