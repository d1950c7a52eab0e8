"""Converts bitmaps of hidden positions to what engines filter with: words per chunk of rows, or a mask.

1. Bit b of word w of chunk c stands for position c * chunk_rows + w * 64 + b; bit 63 is the sign.
2. Only chunks with a hidden row appear, in ascending order, without trailing zero words.
3. Work and memory depend on the hidden positions, window by window, and not on the largest position.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

CHUNK_ROWS = 65536
_WINDOW_ROWS = 1 << 22


def words(bitmap: BitMap64, *, chunk_rows: int = CHUNK_ROWS) -> list[tuple[int, NDArray[np.int64]]]:
    """The chunks that have a hidden row, each with its number and its words."""
    chunk_words = chunk_rows // 64
    assert 0 < chunk_words * 64 == chunk_rows, "a chunk is a whole number of words"
    return [chunk for hidden in _windows(bitmap, chunk_rows) for chunk in _chunks(hidden, chunk_words)]


def mask(bitmap: BitMap64, start: int, length: int) -> NDArray[np.bool_]:
    """Whether each position from `start` on is hidden."""
    hidden = np.zeros(length, np.bool_)
    hidden[_between(bitmap, start, start + length) - np.uint64(start)] = True
    return hidden


def _windows(bitmap: BitMap64, chunk_rows: int) -> Iterator[NDArray[np.uint64]]:
    """The positions in ascending pieces of at most one window of rows, which never cut a chunk."""
    if not bitmap:
        return
    width = max(_WINDOW_ROWS // chunk_rows, 1) * chunk_rows
    last = bitmap.max()
    at = bitmap.min()
    while True:
        start = at // width * width
        yield _between(bitmap, start, start + width)
        if start + width > last:
            return
        at = bitmap.next_set_bit(start + width)


def _chunks(positions: NDArray[np.uint64], chunk_words: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
    word_of = positions >> np.uint64(6)
    firsts = _group_starts(word_of)
    bits = np.bitwise_or.reduceat(np.uint64(1) << (positions & np.uint64(63)), firsts).view(np.int64)
    numbers = word_of[firsts]
    chunk_of = numbers // np.uint64(chunk_words)
    starts = _group_starts(chunk_of)
    within = (numbers - chunk_of * np.uint64(chunk_words)).astype(np.int64)
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(numbers)], strict=True):
        filled = np.zeros(within[stop - 1] + 1, np.int64)
        filled[within[start:stop]] = bits[start:stop]
        yield int(chunk_of[start]), filled


def _group_starts(ascending: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Where each run of equal numbers begins."""
    return np.concatenate((np.zeros(1, np.intp), np.flatnonzero(ascending[1:] != ascending[:-1]) + 1))


def _between(bitmap: BitMap64, start: int, stop: int) -> NDArray[np.uint64]:
    return np.frombuffer((bitmap & BitMap64(range(start, stop))).to_array(), np.uint64)
