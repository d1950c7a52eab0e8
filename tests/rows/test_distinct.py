from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rows.distinct import distinct
from tests.support.depth import examples


@examples(50)
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)))
def test_every_value_stands_once_and_they_ascend(values: list[int]) -> None:
    assert distinct(np.array(values, np.int64)).tolist() == sorted(set(values))
