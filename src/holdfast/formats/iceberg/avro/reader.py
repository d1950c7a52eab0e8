"""Reads Avro object container files (manifests and manifest lists) as Arrow columns.

1. A column has a value per record, in the order of the file; a field that the writer's schema lacks has no column.
2. Fields are known by name, and carry the field ids of the writer's schema where it has some.
3. Every length lies within the file, every block ends with the sync marker of the header, and its records take exactly
   its bytes; anything else is Damaged and names the file.
4. The decompressed blocks, and the columns made of them, stay below `LIMIT_BYTES` + `LIMIT_RATIO` times the file.
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
PART_BYTES = 1 << 20  # blocks are decoded together up to this size
RECORD_BYTES = 8 << 20  # bytes of a window, and so the most that a record may have
_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CHECKSUM_BYTES = 4  # some Python writers leave zlib's checksum, or a part of it, behind the deflated bytes
_SNAPPY_RATIO = 32  # a copy of 64 bytes takes three bytes, so that no writer compresses better than 1:22
_BROKEN = (
    Malformed,
    zlib.error,
    UnicodeDecodeError,
    msgspec.DecodeError,
    RecursionError,
    pa.ArrowException,
    OSError,  # Arrow's, for a stream that it cannot decompress
)

_Decompress = Callable[[bytes, int], bytes]


@dataclass(frozen=True)
class Container:
    """The content of an object container file: the metadata of its header, and its records as a struct array."""

    header: Mapping[str, bytes]
    records: pa.StructArray


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Consecutive blocks; `counts` and `ends` are cumulative: records and bytes up to the end of each block."""

    data: bytes
    counts: Places
    ends: Places

    @classmethod
    def of(cls, pieces: list[bytes], counts: list[int]) -> _Blocks:
        return cls(b"".join(pieces), np.cumsum(counts), np.cumsum([len(piece) for piece in pieces]))


def read_container(data: bytes, *, wanted: Collection[str] | None = None, where: str) -> Container:
    """Reads the records of a file; `wanted` names the fields to decode, with all that is inside them (None: all)."""
    if data[:4] != _MAGIC:
        raise Damaged(f"{where} is no Avro file; restore it", path=where, expected=repr(_MAGIC), found=repr(data[:4]))
    try:
        return _read(data, wanted, where)
    except IndexError as error:
        raise Damaged(f"{where} ends too early to be read as Avro: {error}; restore it", path=where) from error
    except _BROKEN as error:
        raise Damaged(f"{where} cannot be read as Avro: {error}; restore it", path=where) from error


def read_same_schema(files: Sequence[bytes]) -> tuple[Container, list[int]] | None:
    """Reads files with the same writer schema as one file; gives the records, and how many each file has.

    None where the schemas or codecs differ, where the files are large, or where one of them is malformed.
    """
    try:
        if not all(data[:4] == _MAGIC for data in files):
            return None
        headers = [_header(data) for data in files]
        if len({(header.get("avro.schema"), header.get("avro.codec")) for header, _ in headers}) != 1:
            return None
        header, _ = headers[0]
        record = record_layout(msgspec.json.decode(header["avro.schema"]), None, "")
        decompress = _codec(header.get("avro.codec", b"null").decode(), "")
        pieces, counts = list[bytes](), list[int]()
        for data, (_, start) in zip(files, headers, strict=True):
            groups = list(_groups(data, start, decompress, LIMIT_BYTES))
            pieces.append(b"".join(group.data for group in groups))
            counts.append(sum(int(group.counts[-1]) for group in groups))
            if sum(map(len, pieces)) > LIMIT_BYTES:
                return None
        parts = list(_parts(_Blocks.of(pieces, counts), record)) if any(counts) else []
    except (*_BROKEN, IndexError, KeyError, Unsupported):
        return None
    return (Container(header, pa.concat_arrays(parts)), counts) if parts else None


def _read(data: bytes, wanted: Collection[str] | None, where: str) -> Container:
    header, start = _header(data)
    if "avro.schema" not in header:
        raise Malformed("its header has no schema")
    record = record_layout(msgspec.json.decode(header["avro.schema"]), wanted, where)
    decompress = _codec(header.get("avro.codec", b"null").decode(), where)
    limit = LIMIT_BYTES + LIMIT_RATIO * len(data)
    parts: list[pa.StructArray] = []
    held = 0
    for group in _groups(data, start, decompress, limit):
        for part in _parts(group, record):
            held += part.nbytes
            if held > limit:
                raise Malformed(f"its {len(data)} bytes hold more than {limit} bytes of values")
            parts.append(part)
    if not parts:
        parts = [record.read(AvroWindow(b""), np.zeros(0, np.int64))[0]]
    return Container(header, parts[0] if len(parts) == 1 else pa.concat_arrays(parts))


def _parts(group: _Blocks, record: Record) -> Iterator[pa.StructArray]:
    """The records of some blocks, decoded in windows over their bytes."""
    start = decoded = 0
    while start < len(group.data):
        window = AvroWindow(group.data[start : start + RECORD_BYTES])
        records, places = read_records(record, window, cut=start + window.size < len(group.data))
        blocks = slice(*np.searchsorted(group.counts, [decoded, decoded + len(places)]))
        if (places[group.counts[blocks] - decoded] != group.ends[blocks] - start).any():
            raise Malformed("a block has more bytes than its records, or more records than it claims")
        yield records
        start, decoded = start + int(places[-1]), decoded + len(places) - 1
    if decoded != group.counts[-1]:
        raise Malformed(f"blocks claim {group.counts[-1]} records and have {decoded}")


def _header(data: bytes) -> tuple[dict[str, bytes], int]:
    """The metadata of the file header, and the offset of the first block, behind the sync marker."""
    header: dict[str, bytes] = {}
    count, at = number_at(data, len(_MAGIC))
    while count:
        if count < 0:
            count = -count
            _, at = number_at(data, at)
        if count > len(data) - at:
            raise Malformed("its header ends too early")
        for _ in range(count):
            name, at = _blob_at(data, at)
            header[name.decode()], at = _blob_at(data, at)
        count, at = number_at(data, at)
    if at + _SYNC_BYTES > len(data):
        raise Malformed("its header ends too early")
    return header, at + _SYNC_BYTES


def _blob_at(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = number_at(data, at)
    if not 0 <= size <= len(data) - at:
        raise Malformed(f"a length of {size} stands where {len(data) - at} bytes are left")
    return data[at : at + size], at + size


def _groups(data: bytes, at: int, decompress: _Decompress, limit: int) -> Iterator[_Blocks]:
    """The blocks of a file that have records, decompressed; small ones are grouped."""
    sync = data[at - _SYNC_BYTES : at]
    pieces: list[bytes] = []
    counts: list[int] = []
    size = total = 0
    while at < len(data):
        count, at = number_at(data, at)
        compressed, at = _blob_at(data, at)
        if data[at : at + _SYNC_BYTES] != sync:
            raise Malformed("a block does not end with the sync marker of its file")
        at += _SYNC_BYTES
        piece = decompress(compressed, limit - total)
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


def _codec(name: str, where: str) -> _Decompress:
    match name:
        case "null":
            return _within
        case "deflate":
            return _inflate
        case "zstandard":
            return _decompress_zstd
        case "snappy":
            return _decompress_snappy
        case _:
            raise Unsupported(f"{where} is compressed by {name!r}, which Holdfast does not read")


def _within(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise Malformed(f"a block unpacks to more than the {limit} bytes that a file of this size may have left")
    return data


def _inflate(compressed: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj(-15)
    data = _within(stream.decompress(compressed, limit + 1), limit)
    if not stream.eof or len(stream.unused_data) > _CHECKSUM_BYTES:
        raise Malformed("a block ends before its deflated bytes do, or well after them")
    return data


def _decompress_zstd(compressed: bytes, limit: int) -> bytes:
    with pa.input_stream(pa.BufferReader(compressed), compression="zstd") as stream:
        return _within(bytes(stream.read(limit + 1)), limit)


def _decompress_snappy(compressed: bytes, limit: int) -> bytes:
    """Raw snappy begins with its uncompressed size; the checksum of the uncompressed bytes follows it."""
    compressed, checksum = compressed[:-4], compressed[-4:]
    size = shift = 0
    for byte in compressed[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > min(limit, _SNAPPY_RATIO * len(compressed)):
        raise Malformed(f"a block of {len(compressed)} bytes claims to unpack to {size}")
    data = bytes(pa.Codec("snappy").decompress(compressed, decompressed_size=size))
    if zlib.crc32(data) != int.from_bytes(checksum, "big"):
        raise Malformed("a block has another checksum than it says")
    return data
