"""How incoming rows become rows of a table, and what the error shows when they cannot."""

from __future__ import annotations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from holdfast.errors import Invalid, SchemaMismatch
from holdfast.schema.ddl import parse_type
from holdfast.schema.enforce import (
    Assignment,
    Cast,
    Default,
    Elements,
    Fields,
    FittedField,
    Generated,
    MapEntries,
    Null,
    Numbered,
    Same,
    fit,
)
from holdfast.schema.identity import identity_metadata
from holdfast.schema.types import LONG, STRING, Field, Primitive, Struct
from tests.schema.strategies import near, structs
from tests.support.depth import examples

INT = Primitive("integer")


def schema(text: str) -> Struct:
    struct = parse_type(f"struct<{text}>")
    assert isinstance(struct, Struct)
    return struct


def how(incoming: str, table: str) -> list[object]:
    return [p.how for p in fit(schema(incoming), schema(table)).parts]


@examples(100)
@given(structs())
def test_a_table_takes_its_own_rows_as_they_are(table: Struct) -> None:
    assert [(p.field, p.source, p.how) for p in fit(table, table).parts] == [(f, f.name, Same()) for f in table.fields]


@examples(100)
@given(st.data())
def test_the_parts_are_the_tables_columns_in_order(data: st.DataObject) -> None:
    table = data.draw(structs())
    incoming = data.draw(near(table))
    try:
        parts = fit(incoming, table).parts
    except SchemaMismatch as error:
        marked = [line for line in str(error).splitlines() if line.startswith("!")]
        event("refused")
        if len(marked) != len(error.columns):
            pytest.fail(f"{error.columns} are marked as {marked}")
        return
    assert tuple(p.field for p in parts) == table.fields
    assert {p.source for p in parts} - {None} == set(incoming.names)


def test_names_meet_without_regard_to_case_and_order() -> None:
    parts = fit(schema("B int, a string"), schema("a string, b int, c date")).parts
    assert [(p.field.name, p.source, p.how) for p in parts] == [
        ("a", "a", Same()),
        ("b", "B", Same()),
        ("c", None, Null()),
    ]


def test_nested_structs_are_made_by_name() -> None:
    (only,) = how("s struct<b: int, a: short>", "s struct<a: int, b: int, c: string>")
    assert isinstance(only, Fields)
    assert [(p.field.name, p.source, p.how) for p in only.parts] == [
        ("a", "a", Cast(INT, True)),
        ("b", "b", Same()),
        ("c", None, Null()),
    ]


def test_lists_and_maps_are_made_inside() -> None:
    table = "l array<bigint>, m map<string, struct<x: int, y: int>>, same array<struct<q: int>>"
    lists, maps, same = how("l array<int>, m map<string, struct<x: int>>, same array<struct<q: int>>", table)
    assert lists == Elements(Cast(LONG, True))
    assert isinstance(maps, MapEntries)
    assert isinstance(maps.key, Same)
    assert isinstance(maps.value, Fields)
    assert same == Same()


def test_a_missing_column_gets_what_the_table_gives_it() -> None:
    table = Struct(
        (
            Field("n", LONG, False, identity_metadata(start=1, step=1, explicit=True)),
            Field("d", STRING, False, {"CURRENT_DEFAULT": "'x'"}),
            Field("g", LONG, True, {"delta.generationExpression": "v * 2"}),
            Field("v", LONG),
        )
    )
    n, d, g, v = (p.how for p in fit(schema("v long"), table).parts)
    assert isinstance(n, Numbered)
    assert n.identity.next_value == 1
    assert isinstance(d, Default)
    assert isinstance(g, Generated)
    assert (d.expression.text, g.expression.text, g.expression.sql, v) == ("'x'", "v * 2", "`v` * 2", Same())
    given_ones = fit(schema("n int, v long, g long, d string"), table).parts
    assert given_ones[0] == FittedField(table.fields[0], "n", Cast(LONG, True))
    assert [p.how for p in given_ones[1:]] == [Same(), Same(), Same()]


def test_numbers_that_are_always_generated_cannot_be_given() -> None:
    table = Struct((Field("n", LONG, True, identity_metadata(start=1, step=1, explicit=False)), Field("v", LONG)))
    with pytest.raises(SchemaMismatch, match="numbered by the table itself"):
        fit(schema("n long, v long"), table)


def test_the_error_shows_both_schemas_with_marks() -> None:
    table = schema("id long not null, v int, s struct<a: int, b: string>, day date not null")
    incoming = schema("ID long, v string, s struct<a: long, b: string, x: int>, extra boolean")
    with pytest.raises(SchemaMismatch) as caught:
        fit(incoming, table)
    lines = str(caught.value).splitlines()
    assert caught.value.columns == ("v", "s.a", "s.x", "day", "extra")
    first_line = "the rows do not fit the table, because of v, s.a, s.x, day, extra: what to do stands beside each"
    assert lines[0] == first_line
    shown = {tuple(line.split()[:4]) for line in lines}
    assert ("id", "long", "not", "null") in shown
    assert ("!", "v", "integer", "v") in shown
    assert ("!", "a", "integer", "a") in shown
    assert ("!", "-", "x", "integer") in shown
    assert ("!", "day", "date", "not") in shown
    assert ("!", "-", "extra", "boolean") in shown
    marked = [line for line in lines if line.startswith("!")]
    assert len(marked) == 5
    assert "let the write widen types" in next(line for line in marked if " a integer" in line)
    assert caught.value.table.splitlines()[0] == "id long not null"
    assert caught.value.incoming.splitlines()[-1] == "extra boolean"


def test_columns_that_agree_do_not_fill_the_screen() -> None:
    many = ", ".join(f"c{i} int" for i in range(1000))
    with pytest.raises(SchemaMismatch) as caught:
        fit(schema(many + ", z string"), schema(many + ", z int"))
    lines = str(caught.value).splitlines()
    assert len(lines) < 60
    assert any(line.startswith("! z") for line in lines)
    assert lines[-1] == "  … and 960 more columns that agree"


def test_an_insert_converts_more() -> None:
    with pytest.raises(SchemaMismatch):
        fit(schema("a long"), schema("a int"))
    parts = fit(schema("a long"), schema("a int"), assignment=Assignment.ANSI).parts
    assert parts[0].how == Cast(INT, False)
    with pytest.raises(SchemaMismatch):
        fit(schema("a string"), schema("a int"), assignment=Assignment.ANSI)


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(Invalid, match=r"more than one column a \(a, A\)"):
        fit(Struct((Field("a", INT), Field("A", INT))), schema("a int"))


def test_a_null_column_fits_any_type() -> None:
    assert how("a void", "a array<int>") == [Cast(parse_type("array<int>"), True)]
