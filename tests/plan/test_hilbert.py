"""Curves number every cell of a grid once, and the Hilbert curve goes from cell to neighbouring cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from holdfast.plan.maintain.hilbert import hilbert, interleave
from tests.support.depth import examples

GRIDS = [(1, 6), (2, 1), (2, 5), (3, 1), (3, 4), (4, 3), (5, 2), (6, 2)]


def _cells(columns: int, bits: int) -> list[NDArray[np.int64]]:
    return list(np.indices((1 << bits,) * columns).reshape(columns, -1).astype(np.int64))


@pytest.mark.parametrize(("columns", "bits"), GRIDS)
def test_every_cell_has_a_number_of_its_own(columns: int, bits: int) -> None:
    cells = _cells(columns, bits)
    for curve in (hilbert, interleave):
        assert np.array_equal(np.sort(curve(cells, bits)), np.arange(1 << columns * bits))


@pytest.mark.parametrize(("columns", "bits"), GRIDS)
def test_the_hilbert_curve_takes_one_step_at_a_time(columns: int, bits: int) -> None:
    cells = _cells(columns, bits)
    along = np.stack(cells)[:, np.argsort(hilbert(cells, bits))]
    assert (np.abs(np.diff(along, axis=1)).sum(axis=0) == 1).all()


@examples(50)
@given(st.integers(1, 6), st.data())
def test_a_number_depends_on_its_own_cell_only(columns: int, data: st.DataObject) -> None:
    bits = data.draw(st.integers(1, 62 // columns))
    coordinate = st.integers(0, (1 << bits) - 1)
    rows = data.draw(st.lists(st.tuples(*[coordinate] * columns), min_size=1, max_size=20))
    for curve in (hilbert, interleave):
        together = curve(list(np.array(rows, np.int64).T), bits)
        alone = [int(curve([np.array([c]) for c in row], bits)[0]) for row in rows]
        assert together.tolist() == alone
        assert len(set(alone)) == len(set(rows))
        assert all(0 <= number < 1 << columns * bits for number in alone)


def test_too_many_bits_are_refused() -> None:
    with pytest.raises(AssertionError, match="fit no number"):
        hilbert([np.zeros(1, np.int64)] * 7, 9)
