from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from holdfast.rows.bitsets import CHUNK_BITS, of_bitsets
from tests.support.depth import examples

_STRETCHES = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, 3, 131_071, 131_072, 131_073]), st.integers(0, CHUNK_BITS - 1), st.integers(1, 9000)
    ),
    max_size=8,
)


@examples(60)
@given(_STRETCHES, st.randoms(use_true_random=False))
def test_bits_and_positions_say_the_same(stretches, random) -> None:
    chunks: dict[int, np.ndarray] = {}
    expected = BitMap64()
    for chunk, first, length in stretches:
        bits = chunks.setdefault(chunk, np.zeros(CHUNK_BITS, np.bool_))
        stop = min(first + length, CHUNK_BITS)
        bits[first:stop] = True
        expected |= BitMap64(range(chunk * CHUNK_BITS + first, chunk * CHUNK_BITS + stop))
    chunks.setdefault(5, np.zeros(CHUNK_BITS, np.bool_))
    numbers = list(chunks)
    random.shuffle(numbers)
    packed = np.stack([np.packbits(chunks[n], bitorder="little") for n in numbers])

    bitmap = of_bitsets(np.array(numbers, np.int64), packed)

    assert bitmap == expected
    assert bitmap.serialize()  # what is made can be written


def test_no_chunk_is_no_position() -> None:
    assert of_bitsets(np.zeros(0, np.int64), np.zeros((0, CHUNK_BITS // 8), np.uint8)) == BitMap64()
