"""Vectorised evaluation says, on every row, what three-valued logic with Spark's rules for NaN says."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Invalid, UnknownColumn, Unsupported
from holdfast.predicate.evaluate import matches, truth
from holdfast.predicate.records import (
    And,
    Compare,
    IsNull,
    Not,
    Op,
    Opaque,
    Predicate,
    conjuncts,
    negate,
    pushed,
    untrue,
)
from holdfast.schema.arrow import arrow_type
from tests.predicate import model
from tests.support.depth import examples

NAMES = tuple(model.TYPES)
ROWS = st.lists(st.fixed_dictionaries({n: st.none() | model.VALUES[n] for n in NAMES}), max_size=6)
ARROW = pa.schema([(n, arrow_type(t)) for n, t in model.TYPES.items()])


@examples(80)
@given(ROWS, model.predicates(NAMES))
def test_rows_match_as_in_the_model(rows: list[dict[str, Any]], predicate: Predicate) -> None:
    table = pa.Table.from_pylist(rows, schema=ARROW)
    expected = [model.truth(predicate, row) for row in rows]
    assert truth(table, predicate).to_pylist() == expected
    assert matches(table, predicate).to_pylist() == [t is True for t in expected]


@examples(50)
@given(ROWS, model.predicates(NAMES, Opaque("f(s)")), st.sampled_from([True, False, None]))
def test_changes_of_shape_keep_the_truth(rows: list[dict[str, Any]], predicate: Predicate, opaque: bool | None) -> None:
    def opposite(value: bool | None) -> bool | None:
        return None if value is None else not value

    for row in rows:
        plain = model.truth(predicate, row, None)
        assert model.truth(pushed(predicate), row, None) == plain
        assert model.truth(negate(predicate), row, None) == opposite(plain)
        assert (model.truth(And(conjuncts(predicate)), row, opaque) is True) == (
            model.truth(pushed(predicate), row, opaque) is True
        )


@examples(50)
@given(ROWS, model.predicates(NAMES))
def test_untrue_is_false_or_null(rows: list[dict[str, Any]], predicate: Predicate) -> None:
    for row in rows:
        assert model.truth(untrue(predicate), row) is (model.truth(predicate, row) is not True)


def test_a_field_of_a_null_struct_is_null() -> None:
    rows = [{"st": {"c": 1}}, {"st": {"c": None}}, {"st": None}]
    table = pa.Table.from_pylist(rows, schema=pa.schema([("st", pa.struct([("c", pa.int64())]))]))
    assert truth(table, Compare(Op.EQ, ("st", "c"), 1)).to_pylist() == [True, None, None]
    assert truth(table, IsNull(("st", "c"))).to_pylist() == [False, True, True]
    assert truth(table, IsNull(("st",))).to_pylist() == [False, False, True]


def test_chunks_and_empty_tables_are_evaluated_too() -> None:
    chunked = pa.table({"i": pa.chunked_array([[1, 2], [], [3]], pa.int32())})
    assert matches(chunked, Compare(Op.GE, ("i",), 2)).to_pylist() == [False, True, True]
    assert len(matches(chunked.slice(0, 0), Not(IsNull(("i",))))) == 0


def test_what_only_spark_can_evaluate_is_named() -> None:
    with pytest.raises(Unsupported, match=r"only Spark can evaluate `f\(i\) > 3`"):
        matches(pa.table({"i": [1]}), And((Compare(Op.EQ, ("i",), 1), Opaque("f(i) > 3"))))


def test_a_column_or_value_that_does_not_fit_is_named() -> None:
    with pytest.raises(UnknownColumn, match="no column j"):
        matches(pa.table({"i": [1]}), IsNull(("j",)))
    with pytest.raises(Invalid, match="column i is int64"):
        matches(pa.table({"i": [1]}), Compare(Op.EQ, ("i",), "x"))
