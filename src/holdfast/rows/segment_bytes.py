"""Encodes and decodes row-id segments.

    version u8 | count u32 | segments | CRC-32 u32 of all before it                       everything little-endian
    segment    kind u8 | body
    body       range           start u64, span u64
               with holes      start u64, span u64, numbers: id - start of each hole
               with bitmap     start u64, span u64, ceil(span / 8) bytes
               sorted, array   smallest id u64, numbers: id - smallest
    numbers    width u8 (1, 2, 4 or 8), count u64, count * width bytes

1. Decoding returns segments that satisfy the invariants of `rows.segments`, or raises Damaged.
2. Decoding allocates memory in proportion to the given bytes only.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from struct import pack, unpack_from
from typing import assert_never

import numpy as np

from holdfast.errors import Damaged
from holdfast.rows.segments import (
    IdArray,
    IdRange,
    Ids,
    RangeWithBitmap,
    RangeWithHoles,
    Segment,
    SortedArray,
    width,
)
from holdfast.rows.stamp import LARGEST_ID

VERSION = 1
_RANGE, _HOLES, _BITMAP, _SORTED, _ARRAY = range(5)


def encode(segments: Sequence[Segment]) -> bytes:
    """The bytes of these segments."""
    content = pack("<BI", VERSION, len(segments)) + b"".join(map(_encode_one, segments))
    return content + pack("<I", zlib.crc32(content))


def decode(data: bytes, *, where: str) -> tuple[Segment, ...]:
    """Decodes segments; `where` names the bytes in errors."""
    if len(data) < 9:
        raise Damaged(f"row ids in {where}: {len(data)} bytes are too few", path=where, found=str(len(data)))
    if data[0] != VERSION:
        raise Damaged(
            f"row ids in {where}: written in version {data[0]} of the format, this library reads {VERSION}",
            path=where,
            expected=str(VERSION),
            found=str(data[0]),
        )
    (crc,) = unpack_from("<I", data, len(data) - 4)
    if crc != zlib.crc32(data[:-4]):
        raise Damaged(f"row ids in {where}: CRC-32 does not match", path=where, offset=len(data) - 4)
    reader = _ByteReader(data[:-4], where, 1)
    segments = tuple(_decode_one(reader, reader.at) for _ in range(reader.number("<I")))
    if reader.at != len(data) - 4:
        raise reader.damaged(reader.at, "bytes follow the last segment")
    return segments


def _encode_one(segment: Segment) -> bytes:
    match segment:
        case IdRange(start, end):
            return pack("<BQQ", _RANGE, start, end - start)
        case RangeWithHoles(start, end, holes):
            return pack("<BQQ", _HOLES, start, end - start) + _numbers(holes - start, end - start)
        case RangeWithBitmap(start, end, words):
            bits = words.astype("<u8").tobytes()[: (end - start + 7) // 8]
            return pack("<BQQ", _BITMAP, start, end - start) + bits
        case SortedArray(ids):
            return pack("<BQ", _SORTED, segment.low) + _numbers(ids - segment.low, segment.high - segment.low)
        case IdArray(ids):
            return pack("<BQ", _ARRAY, segment.low) + _numbers(ids - segment.low, segment.high - segment.low)
        case never:
            assert_never(never)


def _numbers(numbers: Ids, largest: int) -> bytes:
    size = width(largest)
    return pack("<BQ", size, len(numbers)) + numbers.astype(f"<u{size}").tobytes()


@dataclass(slots=True)
class _ByteReader:
    """Reads bytes from an offset on."""

    data: bytes
    where: str
    at: int

    def damaged(self, at: int, what: str) -> Damaged:
        return Damaged(f"row ids in {self.where}, byte {at}: {what}", path=self.where, offset=at)

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise self.damaged(self.at, f"{count} bytes expected, {len(self.data) - self.at} left")
        taken = self.data[self.at : self.at + count]
        self.at += count
        return taken

    def number(self, layout: str) -> int:
        (number,) = unpack_from(layout, self.take({"<B": 1, "<I": 4, "<Q": 8}[layout]))
        return int(number)

    def ids(self, start: int) -> Ids:
        """Numbers counted from an id."""
        at = self.at
        size = self.number("<B")
        if size not in (1, 2, 4, 8):
            raise self.damaged(at, f"numbers of {size} bytes")
        count = self.number("<Q")
        offsets = np.frombuffer(self.take(count * size), f"<u{size}")
        if count == 0 or int(offsets.max()) > LARGEST_ID - start:
            raise self.damaged(at, f"row ids lie between 0 and {LARGEST_ID}, and there is at least one")
        return offsets.astype(np.int64) + start


def _decode_one(reader: _ByteReader, at: int) -> Segment:
    kind = reader.number("<B")
    start = reader.number("<Q")
    if start > LARGEST_ID:
        raise reader.damaged(at, f"row id {start} is above {LARGEST_ID}")
    if kind in (_SORTED, _ARRAY):
        return _decode_array(reader, at, kind, start)
    if kind not in (_RANGE, _HOLES, _BITMAP):
        raise reader.damaged(at, f"unknown shape {kind}")
    end = start + reader.number("<Q")
    if end - 1 > LARGEST_ID:
        raise reader.damaged(at, f"row id {end - 1} is above {LARGEST_ID}")
    if kind == _RANGE:
        return IdRange(start, end)
    if kind == _HOLES:
        return _decode_holes(reader, at, start, end)
    return _decode_bitmap(reader, at, start, end)


def _decode_holes(reader: _ByteReader, at: int, start: int, end: int) -> Segment:
    holes = reader.ids(start)
    if not (holes[1:] > holes[:-1]).all() or holes[0] == start or holes[-1] >= end - 1:
        raise reader.damaged(at, "holes ascend and lie between the first and the last id")
    return RangeWithHoles(start, end, holes)


def _decode_bitmap(reader: _ByteReader, at: int, start: int, end: int) -> Segment:
    span = end - start
    bits = reader.take((span + 7) // 8)
    # The topmost bit that is set must be the last id: neither a row short nor a bit in the padding.
    if span == 0 or not bits[0] & 1 or bits[-1].bit_length() != (span - 1) % 8 + 1:
        raise reader.damaged(at, "a bitmap has its first and its last id, and nothing beyond")
    return RangeWithBitmap(start, end, np.frombuffer(bits + bytes(-len(bits) % 8), "<u8").astype(np.uint64))


def _decode_array(reader: _ByteReader, at: int, kind: int, start: int) -> Segment:
    ids = reader.ids(start)
    if kind == _ARRAY:
        return IdArray(ids)
    if not (ids[1:] > ids[:-1]).all():
        raise reader.damaged(at, "a sorted array ascends")
    return SortedArray(ids)
