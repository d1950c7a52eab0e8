"""Row maps: what is stored is what was meant, and nothing else is believed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from holdfast.errors import Damaged
from holdfast.rows.rowmap import DERIVED, RowMap, Runs
from holdfast.rows.stamp import PROVISIONAL
from tests.support.depth import examples
from tests.support.effort import effort

COLUMN = "_row-id-col-1"


@st.composite
def identities(draw: st.DrawFn) -> tuple[list[int | None], list[int | None]]:
    """Ids and versions as a file stores them: stretches of neighbours and scattered ones, null where nothing is."""
    ids: list[int | None] = []
    for start, length, step in draw(
        st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 90), st.sampled_from([0, 1, 1, 1, 3])), max_size=6)
    ):
        ids += [None] * length if step == 0 else range(start, start + step * length, step)
    rng = draw(st.randoms(use_true_random=False))
    if draw(st.booleans()):
        rng.shuffle(ids)
    some = [None, 0, 5] if draw(st.booleans()) else [7]
    return ids, [rng.choice(some) for _ in ids]


def row_map(ids: list[int | None], versions: list[int | None]) -> RowMap:
    return RowMap.of(
        np.array([PROVISIONAL + at if i is None else i for at, i in enumerate(ids)], np.int64),
        np.array([DERIVED if v is None else v for v in versions], np.int64),
    )


def rows(known: RowMap) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return known.ids.to_numpy(), known.versions.at(np.arange(len(known)))


@given(identities(), st.integers(0, 10**9), st.integers(0, 9), st.integers(0, 100))
@examples(150)
def test_a_map_has_every_row_before_and_after_it_is_stored(
    drawn: tuple[list[int | None], list[int | None]], base: int, version: int, cut: int
) -> None:
    ids, versions = drawn
    at = min(cut, len(ids))
    parts = [row_map(ids[:at], versions[:at]), row_map(ids[at:], versions[at:])]
    after, its_versions = rows(parts[1])
    whole = RowMap.joined([parts[0], RowMap.of(np.where(after >= PROVISIONAL, after + at, after), its_versions)])
    back = RowMap.decode(whole.encode(COLUMN), COLUMN, where="a file")
    assert back is not None
    for known in (row_map(ids, versions), whole, back):
        bound = known.bound(base, version)
        found_ids, found_versions = rows(bound)
        assert found_ids.tolist() == [base + at if i is None else i for at, i in enumerate(ids)]
        assert found_versions.tolist() == [version if v is None else v for v in versions]
        own = [i for i in ids if i is not None]
        low, high = (min(own), max(own)) if own else (0, -1)
        assert known.carried() == (low, high, len(ids) - len(own))


@given(identities(), st.data())
@examples(100)
def test_stored_bytes_that_changed_are_damaged(
    drawn: tuple[list[int | None], list[int | None]], data: st.DataObject
) -> None:
    stored = bytearray(row_map(*drawn).encode(COLUMN))
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(stored) - 1))
        stored[at] ^= data.draw(st.integers(1, 255))
    else:
        del stored[data.draw(st.integers(0, len(stored) - 1)) :]
    with pytest.raises(Damaged, match="a file"):
        RowMap.decode(bytes(stored), COLUMN, where="a file")


def test_a_map_of_another_column_is_none_of_this_table() -> None:
    assert RowMap.decode(row_map([5, 6], [1, 1]).encode(COLUMN), "_row-id-col-2", where="a file") is None


@given(st.lists(st.integers(0, 3), max_size=60))
def test_runs_are_the_numbers_they_were_made_of(values: list[int]) -> None:
    runs = Runs.of(np.array(values, np.int64))
    assert runs.at(np.arange(len(values))).tolist() == values
    assert len(runs) == len(values)
    assert (np.diff(runs.values) != 0).all(), "neighbours differ"


def test_a_million_rows_in_order_take_a_few_bytes_and_no_time() -> None:
    ids, versions = np.arange(7, 7 + (1 << 20)), np.full(1 << 20, 3)
    known = RowMap.of(ids, versions)
    assert effort(lambda: RowMap.of(ids, versions)) < 1  # measured 0.04
    assert len(known.encode(COLUMN)) < 100
