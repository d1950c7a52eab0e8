"""What a table demands of its rows, collected from schema and properties."""

from __future__ import annotations

import pytest

from holdfast.errors import Unsupported
from holdfast.schema.constraints import CHAR_VARCHAR, Demand, DemandKind, demands, pinned, references
from holdfast.schema.ddl import parse_type
from holdfast.schema.enforce import fit
from holdfast.schema.types import LONG, STRING, Array, Field, Primitive, Struct


def schema(text: str) -> Struct:
    struct = parse_type(f"struct<{text}>")
    assert isinstance(struct, Struct)
    return struct


def test_nothing_is_demanded_of_a_plain_table() -> None:
    assert demands(schema("a int, s struct<x: int>, l array<int>"), {"delta.appendOnly": "true"}) == ()


def test_not_null_at_every_depth() -> None:
    table = Struct(
        (
            *schema("a int not null, s struct<x: int not null, `y``z`: struct<q: int not null>>").fields,
            Field("l", Array(schema("p int not null"), contains_null=False)),
            *schema("m map<string, struct<v: int not null>>").fields,
        )
    )
    assert [(d.name, d.expression) for d in demands(table, {})] == [
        ("a", "`a` IS NOT NULL"),
        ("s.x", "(`s` IS NULL OR `s`.`x` IS NOT NULL)"),
        ("s.y`z.q", "(`s` IS NULL OR (`s`.`y``z` IS NULL OR `s`.`y``z`.`q` IS NOT NULL))"),
        ("l.element", "coalesce(forall(`l`, x0 -> x0 IS NOT NULL), true)"),
        ("l.element.p", "coalesce(forall(`l`, x0 -> (x0 IS NULL OR x0.`p` IS NOT NULL)), true)"),
        ("m.value.v", "coalesce(forall(map_values(`m`), x0 -> (x0 IS NULL OR x0.`v` IS NOT NULL)), true)"),
    ]
    assert {d.columns for d in demands(table, {})} == {("a",), ("s",), ("l",), ("m",)}


def test_invariants_and_checks() -> None:
    rule = '{"expression":{"expression":"s.x > 3 AND V < 5"}}'
    table = Struct((Field("v", LONG), Field("s", Struct((Field("x", LONG, True, {"delta.invariants": rule}),)))))
    got = demands(table, {"delta.constraints.b": "s.x < 9", "delta.constraints.a": "v <> 2", "other": "x"})
    assert got == (
        Demand("s.x", DemandKind.INVARIANT, "s.x > 3 AND V < 5", ("s", "v")),
        Demand("a", DemandKind.CHECK, "v <> 2", ("v",)),
        Demand("b", DemandKind.CHECK, "s.x < 9", ("s",)),
    )
    assert [d.title for d in got] == ["invariant s.x", "CHECK constraint a", "CHECK constraint b"]


def test_an_invariant_that_cannot_be_read_is_refused() -> None:
    table = Struct((Field("v", LONG, True, {"delta.invariants": "{}"}),))
    with pytest.raises(Unsupported, match=r"column v has the invariant \{\}"):
        demands(table, {})


def test_a_generated_column_is_checked_only_where_rows_bring_it() -> None:
    table = Struct((Field("v", LONG), Field("g", LONG, True, {"delta.generationExpression": "v * 2"})))
    (demand,) = demands(table, {}, fit(table, table))
    assert demand == Demand("g", DemandKind.GENERATED, "`g` <=> (v * 2)", ("g", "v"))
    assert demands(table, {}, fit(schema("v long"), table)) == ()


def test_lengths() -> None:
    table = Struct((Field("c", STRING, True, {CHAR_VARCHAR: "varchar(3)"}),))
    (demand,) = demands(table, {})
    assert (demand.kind, demand.expression) == (DemandKind.LENGTH, "(`c` IS NULL OR length(`c`) <= 3)")
    inside = Struct((Field("s", Struct(table.fields)),))
    with pytest.raises(Unsupported, match="column s has a length limit inside"):
        demands(inside, {})
    with pytest.raises(Unsupported, match="array<varchar"):
        demands(Struct((Field("c", Array(STRING), True, {CHAR_VARCHAR: "array<varchar(3)>"}),)), {})


def test_columns_that_others_depend_on_are_pinned() -> None:
    table = Struct(
        (Field("v", LONG), Field("w", LONG, False), Field("g", LONG, True, {"delta.generationExpression": "v * 2"}))
    )
    assert pinned(table, {"delta.constraints.small": "W < 5"}) == {
        "g": "the generated column g depends on it",
        "v": "the generated column g depends on it",
        "w": "the CHECK constraint small depends on it",
    }


def test_references() -> None:
    table = Struct((Field("a", LONG), Field("s", Struct((Field("x", LONG),))), Field("d", Primitive("date"))))
    assert references("year(D) > 3 and s.x = 1", table) == ("s", "d")
    assert references("no sql (", table) == ("a", "s", "d")
    assert references("true", table) == ()
