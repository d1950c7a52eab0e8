"""Arrays made from buffers are those that pyarrow makes of the same values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.storage.arrays import longs, maps, mask, positions, strings, truths
from tests.support.depth import examples

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
MAPS = st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3)


def _same(ours: pa.Array, theirs: pa.Array) -> None:
    ours.validate(full=True)
    assert ours.type == theirs.type
    assert ours.equals(theirs)


@examples(100)
@given(st.lists(st.none() | TEXTS))
def test_strings(values: list[str | None]) -> None:
    _same(strings(values), pa.array(values, pa.string()))


@examples(100)
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_longs(values: list[int | None]) -> None:
    _same(longs(values), pa.array(values, pa.int64()))


@examples(100)
@given(st.lists(st.none() | MAPS))
def test_maps(values: list[dict[str, str | None] | None]) -> None:
    pairs = [None if v is None else list(v.items()) for v in values]
    _same(maps(values), pa.array(pairs, pa.map_(pa.string(), pa.string())))


@examples(100)
@given(st.lists(st.booleans()), st.integers(0, 20))
def test_masks_there_and_back(values: list[bool], skipped: int) -> None:
    array = mask(np.array(values, bool))
    _same(array, pa.array(values, pa.bool_()))
    assert truths(array.slice(skipped)).tolist() == values[skipped:]
    halves = pa.chunked_array([array.slice(0, skipped), array.slice(skipped)])
    assert truths(halves).tolist() == values


def test_positions() -> None:
    _same(positions(np.array([3, 1, 2**40])[::2]), pa.array([3, 2**40], pa.int64()))
    _same(positions(np.zeros(0, np.int64)), pa.array([], pa.int64()))
