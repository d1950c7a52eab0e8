"""Where a condition is not true, nulls among it, its `untrue` is."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.predicate.evaluate import truth
from holdfast.predicate.parse import parse
from holdfast.predicate.records import untrue
from holdfast.schema.types import LONG, STRING, Field, Struct
from tests.support.depth import examples

LEAVES = ("a > 1", "a <> 2", "a <=> 1", "a IS NULL", "a IN (1, 3)", "b LIKE 'x%'", "b = 'y'", "true", "null")
CONDITIONS = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        inner.map(lambda c: f"NOT ({c})"),
        st.tuples(inner, st.sampled_from(("AND", "OR")), inner).map(lambda c: f"({c[0]}) {c[1]} ({c[2]})"),
    ),
    max_leaves=5,
)


@examples(60)
@given(CONDITIONS)
def test_untrue_is_true_exactly_where_a_condition_is_not(text: str) -> None:
    predicate = parse(text, Struct((Field("a", LONG), Field("b", STRING))))
    table = pa.table({"a": [None, 1, 2, 3] * 3, "b": ["x", "x", "x", "x", "y", "y", "y", "y", None, None, None, None]})
    held = truth(table, predicate).to_pylist()
    assert truth(table, untrue(predicate)).to_pylist() == [value is not True for value in held]
