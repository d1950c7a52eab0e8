from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists

from holdfast.errors import LimitReached
from holdfast.rows.stamp import LARGEST_ID, NO_IDS_YET, Stamp, stamp
from tests.support.depth import examples


@examples(100)
@given(lists(integers(0, 50)), integers(-1, 10**6))
def test_ranges_tile_the_ids_above_the_old_mark(counts: list[int], mark: int) -> None:
    got = stamp(counts, high_water=mark)
    handed_out = [b + i for b, n in zip(got.bases, counts, strict=True) for i in range(n)]
    assert handed_out == list(range(mark + 1, got.high_water + 1))


def test_without_files_the_mark_stays() -> None:
    assert stamp([]) == Stamp((), NO_IDS_YET)


def test_the_last_id_can_be_handed_out_and_none_beyond() -> None:
    assert stamp([2], high_water=LARGEST_ID - 2).high_water == LARGEST_ID
    with pytest.raises(LimitReached, match="3 rows do not fit above"):
        stamp([1, 2], high_water=LARGEST_ID - 2)
