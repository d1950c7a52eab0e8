"""Numbers a table hands out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import LimitReached
from holdfast.schema.identity import HIGH_WATER, IdentityColumn, advanced, identity_metadata, identity_of
from holdfast.schema.types import LONG, Field, Struct
from tests.support.depth import examples

STEPS = st.integers(-50, 50).filter(bool)


@examples(200)
@given(st.integers(-100, 100), STEPS, st.none() | st.integers(-1000, 1000), st.integers(1, 50))
def test_the_next_values_lie_on_the_grid_beyond_the_mark(start: int, step: int, mark: int | None, count: int) -> None:
    identity = IdentityColumn("n", start, step, mark, False)
    first, last = identity.next_value, identity.last_of(count)
    assert (first - start) % step == 0
    assert (first - start) * step >= 0
    assert last == first + (count - 1) * step
    if mark is not None:
        assert (first - mark) * step > 0
        assert first == start or (first - step - mark) * step <= 0


def test_running_over_is_refused() -> None:
    identity = IdentityColumn("n", 2**63 - 3, 1, None, False)
    assert identity.last_of(3) == 2**63 - 1
    with pytest.raises(LimitReached, match="identity column n has no numbers left"):
        identity.last_of(4)
    with pytest.raises(LimitReached):
        IdentityColumn("n", 0, -(2**62), None, False).last_of(4)


@examples(100)
@given(STEPS, st.none() | st.integers(-100, 100), st.integers(-100, 100))
def test_the_mark_moves_only_with_the_step(step: int, old: int | None, new: int) -> None:
    metadata = {**identity_metadata(start=0, step=step, explicit=True), "comment": "c"}
    field = Field("n", LONG, True, metadata if old is None else {**metadata, HIGH_WATER: old})
    (got,) = advanced(Struct((field,)), {"n": new}).fields
    expected = new if old is None else max(old, new) if step > 0 else min(old, new)
    assert got.metadata == {**field.metadata, HIGH_WATER: expected}


def test_only_identity_columns_have_a_mark() -> None:
    plain = Struct((Field("a", LONG), Field("n", LONG, True, identity_metadata(start=3, step=2, explicit=False))))
    assert identity_of(plain.fields[0]) is None
    assert identity_of(plain.fields[1]) == IdentityColumn("n", 3, 2, None, False)
    assert advanced(plain, {"a": 7}) == plain
