"""Versions as spans."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.versions import Versions
from tests.support.depth import examples

SETS = st.sets(st.integers(0, 30))


@examples(50)
@given(SETS, SETS)
def test_spans_are_sets(one: set[int], other: set[int]) -> None:
    versions = Versions.of(one)
    assert list(versions) == sorted(one)
    assert len(versions) == len(one)
    assert all((v in versions) == (v in one) for v in range(-1, 32))
    assert set(versions - Versions.of(other)) == one - other
    assert all(b[0] > a[1] + 1 for a, b in zip(versions.spans, versions.spans[1:], strict=False))


def test_they_read_as_people_write_them() -> None:
    assert str(Versions.of([3, 0, 1, 2, 7])) == "0 to 3, 7"
    assert str(Versions()) == "none"
    assert str(Versions.of(range(0, 40, 2))) == "0, 2, 4, ..., 36, 38"
