"""The headers of pages, as far as values are read out of them without Arrow: plain data pages of the first form.

1. A header is believed as it stands in its page. What is not of this form, or has more in it (statistics), gives None.
2. Headers that are written alike are read at once: only their numbers may differ, and not in width.
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
_FORMS = 16  # of headers of different widths
_NUMBER, _GOES_ON = 0x7F, 0x80  # what a byte has of a number, and whether there is another
_FIELD, _RECORD, _RECORD_AFTER_SUM = 0x15, 0x2C, 0x1C  # how a number begins, and the record behind the sizes


@dataclass(frozen=True, slots=True)
class Header:
    """What the header of a plain page says."""

    raw: bytes
    size: int  # of what follows, unpacked
    stored: int  # of what follows
    values: int
    places: tuple[tuple[int, int], ...]  # of these three numbers, and of the checksum if there is one

    def are_alike(self, others: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which of some headers differ from it in nothing but their numbers."""
        compared = np.full(len(self.raw), 0xFF, np.uint8)
        for start, end in self.places:
            compared[start:end] = _GOES_ON
        differs = (others ^ np.frombuffer(self.raw, np.uint8)) & compared
        alike: NDArray[np.bool_] = (differs == 0).all(axis=1)
        return alike


def plain_header(data: NDArray[np.uint8], at: int, repetition: int, definition: int) -> Header | None:
    """The header of a plain page that begins at a place; else None.

    `repetition` and `definition` are the depths of the leaf; levels that it has must be in runs.
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
        if raw[total] != (_RECORD if total == end else _RECORD_AFTER_SUM):
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
    """Of plain pages where their headers end, their bytes unpacked and as stored, and their values; else None."""
    found = np.empty((4, len(at)), np.int64)
    left = np.arange(len(at))
    for _ in range(_FORMS):
        one = plain_header(data, int(at[left[0]]), repetition, definition)
        if one is None:
            return None
        try:
            raw = bytes_at(data, at[left], len(one.raw))
        except IndexError:
            return None
        same = one.are_alike(raw)
        here = left[same]
        found[0, here] = at[here] + len(one.raw)
        for row, (start, end) in enumerate(one.places[:3], 1):
            found[row, here] = _numbers(raw[same, start:end])
        left = left[~same]
        if not len(left):
            return found[0], found[1], found[2], found[3]
    return None


def bytes_at(data: NDArray[np.uint8], at: Numbers, width: int) -> NDArray[np.uint8]:
    """So many bytes at each place, one place after the other."""
    if not width:
        return np.empty((len(at), 0), np.uint8)
    every: NDArray[np.void] = np.ndarray((len(data) - width + 1,), f"V{width}", data.data, strides=(1,))
    return every[at].view(np.uint8).reshape(len(at), width)


def _field(raw: bytes, at: int) -> tuple[int, int]:
    """The number of a field that follows its forerunner, and where it ends."""
    if raw[at] != _FIELD:
        raise ValueError("a header is written otherwise")
    return thrift.signed(raw, at + 1)


def _numbers(raw: NDArray[np.uint8]) -> Numbers:
    """Numbers that are written in so many bytes each."""
    found = np.zeros(len(raw), np.int64)
    for byte in range(raw.shape[1]):
        found |= (raw[:, byte] & _NUMBER).astype(np.int64) << 7 * byte
    signed: Numbers = found >> 1 ^ -(found & 1)
    return signed
