"""Parses the headers and levels of plain data pages (version 1), whose values are read without Arrow.

1. Any other header, and one with optional parts such as statistics, gives None.
2. Headers that differ only in their numbers, and not in the width of these, are parsed together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from holdfast.parquet.pages import thrift

Numbers: TypeAlias = NDArray[np.int64]
Headers: TypeAlias = tuple[Numbers, Numbers, Numbers, Numbers]

_PLAIN, _RLE = 0, 3
_LONGEST = 64  # bytes of a header without statistics
_FORMS = 16  # different headers among the pages of one read
_NUMBER, _CONTINUES = 0x7F, 0x80  # bits of a varint's byte: its part of the number, and whether a byte follows
_FIELD, _RECORD, _RECORD_AFTER_CRC = 0x15, 0x2C, 0x1C  # first bytes of a number, and of the record behind the sizes


@dataclass(frozen=True, slots=True)
class Header:
    """The parsed header of a plain page."""

    raw: bytes
    size: int  # bytes of the page behind the header, uncompressed
    stored: int  # as stored
    values: int
    places: tuple[tuple[int, int], ...]  # of these three numbers in `raw`, and of the checksum if there is one

    def are_alike(self, others: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which of some headers differ from this one only in their numbers."""
        compared = np.full(len(self.raw), 0xFF, np.uint8)
        for start, end in self.places:
            compared[start:end] = _CONTINUES
        differs = (others ^ np.frombuffer(self.raw, np.uint8)) & compared
        alike: NDArray[np.bool_] = (differs == 0).all(axis=1)
        return alike


def plain_header(data: NDArray[np.uint8], at: int, repetition: int, definition: int) -> Header | None:
    """The header of a plain page at an offset; None for any other page.

    `repetition` and `definition` are the maximum levels of the leaf; its levels must be run-length encoded.
    """
    raw = data[at : at + _LONGEST].tobytes()
    try:
        kind, place = _field(raw, 0)
        size, size_end = _field(raw, place)
        stored, end = _field(raw, size_end)
        places = [(place + 1, size_end), (size_end + 1, end)]
        total = end
        if raw[end] == _FIELD:
            _, total = _field(raw, end)
        if raw[total] != (_RECORD if total == end else _RECORD_AFTER_CRC):
            return None
        values, inner = _field(raw, total + 1)
        places.append((total + 2, inner))
        if total > end:
            places.append((end + 1, total))
        encoding, inner = _field(raw, inner)
        defined_by, inner = _field(raw, inner)
        repeated_by, inner = _field(raw, inner)
        ends = raw[inner : inner + 2] == b"\0\0"
    except (ValueError, IndexError):
        return None
    runs = (not definition or defined_by == _RLE) and (not repetition or repeated_by == _RLE)
    if kind or encoding != _PLAIN or not runs or not ends:
        return None
    return Header(raw[: inner + 2], size, stored, values, tuple(places))


def plain_headers(data: NDArray[np.uint8], at: Numbers, repetition: int, definition: int) -> Headers | None:
    """Header ends, uncompressed sizes, stored sizes and value counts of plain pages; None where a page is not plain."""
    numbers = np.empty((4, len(at)), np.int64)
    remaining = np.arange(len(at))
    for _ in range(_FORMS):
        header = plain_header(data, int(at[remaining[0]]), repetition, definition)
        if header is None:
            return None
        try:
            raw = bytes_at(data, at[remaining], len(header.raw))
        except IndexError:
            return None
        same = header.are_alike(raw)
        here = remaining[same]
        numbers[0, here] = at[here] + len(header.raw)
        for row, (start, end) in enumerate(header.places[:3], 1):
            numbers[row, here] = _numbers(raw[same, start:end])
        remaining = remaining[~same]
        if not len(remaining):
            return numbers[0], numbers[1], numbers[2], numbers[3]
    return None


def bytes_at(data: NDArray[np.uint8], at: Numbers, width: int) -> NDArray[np.uint8]:
    """The `width` bytes at each offset, as a row each."""
    if not width:
        return np.empty((len(at), 0), np.uint8)
    every: NDArray[np.void] = np.ndarray((len(data) - width + 1,), f"V{width}", data.data, strides=(1,))
    return every[at].view(np.uint8).reshape(len(at), width)


def are_full(levels: bytes, rows: int, length: int, repetition: int, definition: int) -> bool:
    """Whether the levels of a page stand for `rows` rows of `length` values each, none of them null."""
    count, at = rows * length, 0
    new_rows = np.arange(count) % length == 0
    for deepest, expected in (
        (repetition, np.where(new_rows, 0, repetition)),
        (definition, np.full(count, definition)),
    ):
        if deepest:
            size = int.from_bytes(levels[at : at + 4], "little")
            actual = decoded_levels(levels[at + 4 : at + 4 + size], deepest.bit_length(), count)
            if actual is None or not np.array_equal(actual, expected):
                return False
            at += 4 + size
    return at == len(levels)


def decoded_levels(runs: bytes, bits: int, count: int) -> NDArray[np.int64] | None:
    """Levels from run-length and bit-packed runs; None where there are not `count` of them."""
    parts, at, remaining = [], 0, count
    try:
        while remaining > 0:
            header, at = thrift.varint(runs, at)
            if header & 1:
                size = (header >> 1) * bits
                if size > len(runs) - at:
                    return None
                packed = np.frombuffer(runs, np.uint8, size, at)
                unpacked = np.unpackbits(packed, bitorder="little").reshape(-1, bits)
                part = (unpacked << np.arange(bits)).sum(axis=1)
                at += len(packed)
            else:
                part = np.full(min(header >> 1, remaining), runs[at])
                at += 1
            parts.append(part[:remaining])
            remaining -= len(part)
    except (ValueError, IndexError):
        return None
    return np.concatenate(parts) if parts and at == len(runs) else None


def _field(raw: bytes, at: int) -> tuple[int, int]:
    """The value of the next field, a number, and where it ends."""
    if raw[at] != _FIELD:
        raise ValueError("the header has another form")
    return thrift.signed(raw, at + 1)


def _numbers(raw: NDArray[np.uint8]) -> Numbers:
    """Signed numbers from varints of the same width, a row each."""
    numbers = np.zeros(len(raw), np.int64)
    for byte in range(raw.shape[1]):
        numbers |= (raw[:, byte] & _NUMBER).astype(np.int64) << 7 * byte
    signed: Numbers = numbers >> 1 ^ -(numbers & 1)
    return signed
