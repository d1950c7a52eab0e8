"""Encodes and decodes deletion vectors: the bitmap of a file's hidden positions.

The blob is a magic number and a 64-bit roaring bitmap: buckets by the high 32 bits of a position, each a 32-bit
roaring bitmap. Two formats exist: portable, which everybody writes, and native, which old writers left behind. On disk
a blob is framed by its size and its CRC-32, both big-endian, while everything inside it is little-endian.

1. Positions count the rows of the file as it was written, from 0, and are below 2**63.
2. Every byte must be part of the bitmap; anything else is Damaged, with the offset.
3. The number of positions equals the descriptor's cardinality and the sum of the containers' counts.
4. This module checks the extents of containers; the bitmap library checks their contents.
5. Encoding writes the portable format, with runs where they are shorter, and no empty bucket.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct, pack, unpack_from

import numpy as np
from pyroaring import BitMap64

from holdfast.errors import Damaged, LimitReached

PORTABLE = 1681511377
NATIVE = 1681511376
LARGEST_POSITION = 2**63 - 1

_NO_RUNS = 12346
_RUNS = 12347
_OFFSETS_FROM = 4  # containers from which a bitmap with runs has an offset header
_LARGEST_ARRAY = 4096
_BITSET_BYTES = 8192
_SMALLEST_BITMAP = 8
_FRAME = Struct(">i")


def decode(blob: bytes, *, expected_cardinality: int | None, where: str) -> BitMap64:
    """The positions in a blob; `where` names it in errors."""
    if len(blob) < 4:
        raise _damaged(where, 0, f"a bitmap of {len(blob)} bytes has no magic number")
    (magic,) = unpack_from("<I", blob)
    if magic == PORTABLE:
        buckets = list(_portable_buckets(blob, where))
    elif magic == NATIVE:
        buckets = list(_native_buckets(blob, where))
    else:
        raise _damaged(where, 0, "not a bitmap", expected=str(PORTABLE), actual=str(magic))
    end = buckets[-1].end if buckets else (12 if magic == PORTABLE else 8)
    if end != len(blob):
        raise _damaged(where, end, "bytes follow the bitmap", expected=str(end), actual=str(len(blob)))
    return _assemble(blob, buckets, expected_cardinality, where)


def encode(bitmap: BitMap64) -> bytes:
    """Encodes positions in the portable format."""
    if bitmap and bitmap.max() > LARGEST_POSITION:
        raise LimitReached(
            f"position {bitmap.max()} is above {LARGEST_POSITION}, the largest a deletion vector can hold"
        )
    smallest = bitmap.copy()
    smallest.run_optimize()
    return pack("<I", PORTABLE) + smallest.serialize()


def frame(blob: bytes) -> bytes:
    """A blob as a file of deletion vectors stores it: size, blob, CRC-32."""
    if len(blob) > 2**31 - 1:
        raise LimitReached(f"a deletion vector of {len(blob)} bytes does not fit the 32-bit size field")
    return _FRAME.pack(len(blob)) + blob + pack(">I", zlib.crc32(blob))


def unframe(data: bytes, *, size: int, where: str) -> bytes:
    """The blob inside its frame; `size` is the one in the descriptor."""
    if size < 0:
        raise _damaged(where, 0, f"a deletion vector cannot have {size} bytes")
    if len(data) != size + 8:
        raise _damaged(where, 0, "wrong number of bytes", expected=str(size + 8), actual=str(len(data)))
    (stored,) = _FRAME.unpack_from(data)
    if stored != size:
        raise _damaged(where, 0, "size differs from the descriptor", expected=str(size), actual=str(stored))
    blob = data[4:-4]
    (crc,) = unpack_from(">I", data, size + 4)
    if crc != zlib.crc32(blob):
        raise _damaged(
            where, size + 4, "CRC-32 does not match", expected=f"{crc:08x}", actual=f"{zlib.crc32(blob):08x}"
        )
    return blob


@dataclass(frozen=True, slots=True)
class _Bucket:
    """A 32-bit bitmap at blob[start:end] for positions whose high half is `key`."""

    key: int
    start: int
    end: int
    cardinality: int


def _portable_buckets(blob: bytes, where: str) -> Iterator[_Bucket]:
    count = _number("<q", blob, 4, where)
    if not 0 <= count <= (len(blob) - 12) // (4 + _SMALLEST_BITMAP):
        raise _damaged(where, 4, f"{count} buckets cannot stand in {len(blob)} bytes")
    at = 12
    last_key = -1
    for _ in range(count):
        key = _number("<I", blob, at, where)
        if not last_key < key < 2**31:
            raise _damaged(where, at, f"bucket key {key} after {last_key}: keys ascend and stay below 2**31")
        bucket = _bucket(blob, key, at + 4, where)
        yield bucket
        at = bucket.end
        last_key = key


def _native_buckets(blob: bytes, where: str) -> Iterator[_Bucket]:
    count = _number("<i", blob, 4, where)
    if not 0 <= count <= (len(blob) - 8) // (4 + _SMALLEST_BITMAP):
        raise _damaged(where, 4, f"{count} buckets cannot stand in {len(blob)} bytes")
    at = 8
    for key in range(count):
        length = _number("<i", blob, at, where)
        bucket = _bucket(blob, key, at + 4, where)
        if bucket.end - bucket.start != length:
            raise _damaged(where, at, "bucket length", expected=str(length), actual=str(bucket.end - bucket.start))
        yield bucket
        at = bucket.end


def _bucket(blob: bytes, key: int, start: int, where: str) -> _Bucket:
    cookie = _number("<I", blob, start, where)
    if cookie == _NO_RUNS:
        count = _number("<I", blob, start + 4, where)
        flags = b""
        at = start + 8
    elif cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        flags = blob[start + 4 : start + 4 + (count + 7) // 8]
        at = start + 4 + (count + 7) // 8
    else:
        raise _damaged(where, start, "not a roaring bitmap", expected=f"{_NO_RUNS} or {_RUNS}", actual=str(cookie))
    has_offsets = not flags or count >= _OFFSETS_FROM
    body = at + 4 * count + (4 * count if has_offsets else 0)
    if count > 65536 or body > len(blob):
        raise _damaged(where, start, f"a bitmap of {count} containers ends after the blob")
    cardinalities = np.frombuffer(blob, "<u2", 2 * count, at)[1::2].astype(np.int64) + 1
    starts = _container_starts(blob, cardinalities, flags, body, where)
    end = int(starts[-1])
    if end > len(blob):
        raise _damaged(where, start, f"a bitmap of {count} containers ends after the blob")
    # Some readers follow the offsets and others read on: both must come to the same rows.
    if has_offsets and not np.array_equal(np.frombuffer(blob, "<u4", count, at + 4 * count), starts[:-1] - start):
        raise _damaged(where, at + 4 * count, "container offsets differ from where the containers are")
    return _Bucket(key, start, end, int(cardinalities.sum()))


def _container_starts(blob: bytes, cardinalities: np.ndarray, flags: bytes, body: int, where: str) -> np.ndarray:
    """Where each container starts, and where the last one ends."""
    sizes = np.where(cardinalities <= _LARGEST_ARRAY, 2 * cardinalities, _BITSET_BYTES)
    is_run = np.unpackbits(np.frombuffer(flags, np.uint8), bitorder="little")[: len(sizes)]
    # A run container has its size at its own start, so the loop is over these only.
    shift = 0
    before = body + np.concatenate(([0], np.cumsum(sizes)))
    for index in np.flatnonzero(is_run).tolist():
        size = 2 + 4 * _number("<H", blob, int(before[index]) + shift, where)
        shift += size - int(sizes[index])
        sizes[index] = size
    return body + np.concatenate(([0], np.cumsum(sizes)))


def _assemble(blob: bytes, buckets: list[_Bucket], expected: int | None, where: str) -> BitMap64:
    nonempty = [bucket for bucket in buckets if bucket.cardinality]
    parts = [pack("<I", bucket.key) + blob[bucket.start : bucket.end] for bucket in nonempty]
    try:
        bitmap: BitMap64 = BitMap64.deserialize(pack("<Q", len(nonempty)) + b"".join(parts))
    except ValueError as error:
        raise _damaged(where, 4, f"bitmap out of order ({error})") from error
    claimed = sum(bucket.cardinality for bucket in nonempty)
    if len(bitmap) != claimed:
        raise _damaged(where, 4, "container counts", expected=str(claimed), actual=str(len(bitmap)))
    if expected is not None and len(bitmap) != expected:
        raise _damaged(where, 4, "cardinality", expected=str(expected), actual=str(len(bitmap)))
    return bitmap


def _number(layout: str, blob: bytes, at: int, where: str) -> int:
    width = Struct(layout).size
    if at + width > len(blob):
        raise _damaged(where, at, f"the bitmap ends in the middle, after {len(blob)} bytes")
    (number,) = unpack_from(layout, blob, at)
    return int(number)


def _damaged(where: str, offset: int, what: str, *, expected: str | None = None, actual: str | None = None) -> Damaged:
    facts = "" if expected is None else f": expected {expected}, found {actual}"
    message = f"deletion vector {where}, byte {offset}: {what}{facts}; restore it or an earlier version of the table"
    return Damaged(message, path=where, offset=offset, expected=expected, found=actual)
