"""Which values survive which change of type."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.schema.arrow import arrow_type
from holdfast.schema.casts import is_assignable, is_castable, is_lossless, widens, wider
from holdfast.schema.types import PRIMITIVES, DataType, Decimal, Primitive
from tests.schema.strategies import types
from tests.support.depth import examples

EXTREMES = {
    "byte": [-(2**7), 2**7 - 1],
    "short": [-(2**15), 2**15 - 1],
    "integer": [-(2**31), 2**31 - 1],
    "long": [-(2**63), 2**63 - 1],
}


def P(name: str) -> Primitive:
    return Primitive(name)


@pytest.mark.parametrize(
    ("source", "target", "allowed"),
    [
        (P("byte"), P("long"), True),
        (P("long"), P("integer"), False),
        (P("integer"), P("double"), True),
        (P("long"), P("double"), False),
        (P("integer"), P("float"), False),
        (P("float"), P("double"), True),
        (P("date"), P("timestamp_ntz"), True),
        (P("date"), P("timestamp"), False),
        (P("integer"), Decimal(10, 0), True),
        (P("integer"), Decimal(11, 2), False),
        (P("byte"), Decimal(9, 0), False),
        (P("long"), Decimal(20, 0), True),
        (P("long"), Decimal(19, 0), False),
        (Decimal(10, 2), Decimal(12, 4), True),
        (Decimal(10, 2), Decimal(11, 4), False),
        (Decimal(10, 2), Decimal(10, 2), False),
        (P("string"), P("binary"), False),
    ],
)
def test_widening_is_what_the_protocol_lists(source: DataType, target: DataType, allowed: bool) -> None:
    assert widens(source, target) is allowed


@examples(150)
@given(types(0), types(0))
def test_the_three_relations_are_nested(a: DataType, b: DataType) -> None:
    if widens(a, b):
        assert is_lossless(a, b)
        assert not is_lossless(b, a)
    if is_lossless(a, b):
        assert is_assignable(a, b)


def test_lossless_is_transitive() -> None:
    decimals = [Decimal(p, s) for p, s in ((3, 0), (5, 2), (10, 0), (20, 0), (22, 2), (38, 10))]
    every: list[DataType] = [*(Primitive(name) for name in sorted(PRIMITIVES)), *decimals]
    chains = [(a, b, c) for a in every for b in every for c in every if is_lossless(a, b) and is_lossless(b, c)]
    assert len(chains) > 100
    assert all(is_lossless(a, c) for a, b, c in chains)


@examples(150)
@given(types(0), types(0))
def test_a_wider_type_holds_both(a: DataType, b: DataType) -> None:
    common = wider(a, b)
    if common is not None:
        assert widens(a, common)
        assert is_lossless(b, common)


@examples(100)
@given(st.sampled_from(sorted(EXTREMES)), types(0))
def test_the_greatest_integers_survive(name: str, target: DataType) -> None:
    assume(is_lossless(P(name), target))
    values = pa.array(EXTREMES[name], arrow_type(P(name)))
    assert [int(v) for v in values.cast(arrow_type(target)).to_pylist()] == EXTREMES[name]


def test_decimals_and_integers_meet_in_a_decimal() -> None:
    assert wider(P("integer"), Decimal(5, 2)) == Decimal(12, 2)
    assert wider(Decimal(5, 2), P("long")) == Decimal(22, 2)
    assert wider(Decimal(38, 0), Decimal(38, 10)) is None
    assert wider(P("float"), P("integer")) == P("double")


def test_what_an_insert_converts() -> None:
    assert is_assignable(P("long"), P("integer"))
    assert is_assignable(Decimal(10, 2), P("string"))
    assert is_assignable(P("timestamp"), P("date"))
    assert not is_assignable(P("string"), P("integer"))
    assert not is_assignable(P("boolean"), P("integer"))
    assert not is_assignable(P("variant"), P("string"))


def test_what_an_update_converts_beyond_an_insert() -> None:
    for target in (P("integer"), P("double"), P("boolean"), P("date"), P("timestamp_ntz"), P("binary"), Decimal(5, 2)):
        assert is_castable(P("string"), target)
    assert is_castable(P("boolean"), P("integer"))
    assert is_castable(Decimal(5, 2), P("boolean"))
    assert is_castable(P("timestamp"), P("date"))
    assert not is_castable(P("integer"), P("date"))
    assert not is_castable(P("boolean"), P("date"))
    assert not is_castable(P("string"), P("variant"))
