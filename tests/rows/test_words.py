from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import integers, sampled_from
from pyroaring import BitMap64

from holdfast.rows.words import mask, words
from tests.rows.bitmaps import bitmaps
from tests.support.depth import examples
from tests.support.effort import effort


def positions_of(chunks: list[tuple[int, np.ndarray]], chunk_rows: int) -> BitMap64:
    """Read the words back the slow way."""
    bits = BitMap64()
    for chunk, filled in chunks:
        within = np.flatnonzero(np.unpackbits(filled.astype("<i8").view(np.uint8), bitorder="little"))
        bits |= BitMap64((within.astype(np.uint64) + np.uint64(chunk * chunk_rows)).tolist())
    return bits


@examples(100)
@given(bitmaps(), sampled_from([64, 640, 65536, 1 << 23]))
def test_words_say_what_the_bitmap_says(hidden: BitMap64, chunk_rows: int) -> None:
    chunks = words(hidden, chunk_rows=chunk_rows)
    assert positions_of(chunks, chunk_rows) == hidden
    numbers = [number for number, _ in chunks]
    assert numbers == sorted(set(numbers))
    assert all(filled.dtype == np.int64 and filled[-1] != 0 and len(filled) <= chunk_rows // 64 for _, filled in chunks)


def test_bit_63_is_the_sign_and_trailing_words_are_not_there() -> None:
    [(first, low), (second, high)] = words(BitMap64([63, 65536 + 64]))
    assert (first, low.tolist()) == (0, [-(2**63)])
    assert (second, high.tolist()) == (1, [0, 1])


def test_a_chunk_of_odd_size_is_refused() -> None:
    with pytest.raises(AssertionError, match="whole number of words"):
        words(BitMap64([1]), chunk_rows=100)


@examples(100)
@given(bitmaps(), sampled_from([0, 1000, (1 << 32) - 800, 1 << 32]), integers(0, 3000))
def test_a_mask_is_membership(hidden: BitMap64, start: int, length: int) -> None:
    assert mask(hidden, start, length).tolist() == [p in hidden for p in range(start, start + length)]


def test_millions_of_positions_take_a_moment() -> None:
    hidden = BitMap64(range(0, 18_000_000, 3))
    chunks = words(hidden)
    assert effort(lambda: words(hidden)) < 5  # measured 0.4; a loop over positions takes 20
    assert sum(int(np.bitwise_count(filled.view(np.uint64)).sum()) for _, filled in chunks) == 6_000_000
