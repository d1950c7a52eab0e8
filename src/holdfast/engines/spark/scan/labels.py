"""Packs a number per row for Spark to look up: which move of its file a row belongs to, 0 for none.

A number takes a power of two of bits, as many as the largest needs, and stands in the words of its chunk of 64Ki rows.
So a look-up is two array accesses and a shift, whether there are two numbers or thousands: a condition per bit would
grow the generated code beyond what a JVM compiles.

1. A chunk without a number takes no space; words end with the last that is not zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.rows.words import CHUNK_ROWS, words


def width_of(bits: int) -> int:
    """The bits that numbers of so many bits are given."""
    return 1 << max(bits - 1, 0).bit_length()


def packed(files: Sequence[Sequence[BitMap64]], width: int) -> pa.Array:
    """Per file an array of chunks of words; `files` are the bit slices of the numbers, lowest first."""
    ends, chunk_ends, numbers = [0], [0], []
    present: list[bool] = []
    for slices in files:
        at = 0
        for number, chunk in sorted(_chunks(slices, width).items()):
            present += [False] * (number - at) + [True]
            chunk_ends += [chunk_ends[-1]] * (number - at) + [chunk_ends[-1] + len(chunk)]
            numbers.append(chunk)
            at = number + 1
        ends.append(len(present))
    flat = np.concatenate(numbers) if numbers else np.zeros(0, np.int64)
    absent = pa.array([not p for p in present], pa.bool_())
    inner = pa.ListArray.from_arrays(pa.array(chunk_ends, pa.int32()), pa.array(flat), mask=absent)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), inner)


def look_up(chunks: str, position: str, width: int) -> str:
    """The number of the row at a position, as SQL."""
    per_word = 64 // width
    chunk = f"get({chunks}, cast(shiftright({position}, 16) AS int))"
    word = f"get({chunk}, cast(shiftright({position} & {CHUNK_ROWS - 1}, {per_word.bit_length() - 1}) AS int))"
    shift = f"cast(({position} & {per_word - 1}) * {width} AS int)"
    return f"cast(coalesce(shiftright({word}, {shift}) & {(1 << width) - 1}, 0) AS int)"


def _chunks(slices: Sequence[BitMap64], width: int) -> dict[int, NDArray[np.int64]]:
    """The words of each chunk of a file that has a number."""
    sets: dict[int, NDArray[np.uint64]] = defaultdict(lambda: np.zeros(CHUNK_ROWS, np.uint64))
    for bit, chosen in enumerate(slices):
        for number, bits in words(chosen):
            set_ = np.unpackbits(bits.view(np.uint8), bitorder="little").astype(np.uint64)
            sets[number][: len(set_)] |= set_ << np.uint64(bit)
    shifts = np.arange(64 // width, dtype=np.uint64) * np.uint64(width)
    chunks = {}
    for number, rows in sets.items():
        whole = np.bitwise_or.reduce(rows.reshape(-1, 64 // width) << shifts, axis=1).view(np.int64)
        chunks[number] = whole[: int(np.flatnonzero(whole)[-1]) + 1]
    return chunks
