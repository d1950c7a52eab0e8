"""What a schema becomes, and the laws it keeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from holdfast.errors import Invalid, SchemaMismatch
from holdfast.schema.ddl import parse_type
from holdfast.schema.enforce import fit
from holdfast.schema.evolve import TYPE_CHANGES, evolve, overwrite
from holdfast.schema.types import (
    MAPPING_ID,
    MAPPING_NAME,
    Array,
    DataType,
    Field,
    Map,
    Primitive,
    Struct,
    parse_schema,
    render_schema,
)
from tests.schema.strategies import mapped, near, structs
from tests.support.depth import examples


def schema(text: str) -> Struct:
    struct = parse_type(f"struct<{text}>")
    assert isinstance(struct, Struct)
    return struct


def places(type_: DataType, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object, object, int]]:
    """Every field: its path, its id, its physical name and its position."""
    match type_:
        case Struct(fields):
            for i, f in enumerate(fields):
                yield (*path, f.name), f.metadata.get(MAPPING_ID), f.metadata.get(MAPPING_NAME), i
                yield from places(f.type, (*path, f.name))
        case Array(element, _):
            yield from places(element, (*path, "element"))
        case Map(key, value, _):
            yield from places(key, (*path, "key"))
            yield from places(value, (*path, "value"))
        case _:
            return


@examples(150)
@given(st.data(), st.booleans(), st.booleans())
def test_laws(data: st.DataObject, add_columns: bool, widen_types: bool) -> None:
    table = mapped(data.draw(structs()))
    incoming = data.draw(near(table))
    try:
        grown = evolve(table, incoming, add_columns=add_columns, widen_types=widen_types)
    except SchemaMismatch:
        event("refused")
        with pytest.raises(SchemaMismatch):
            fit(incoming, table)
        return
    fit(incoming, grown)
    assert evolve(grown, incoming, add_columns=add_columns, widen_types=widen_types) == grown
    assert set(places(table)) <= set(places(grown))
    assert all(number is None for path, number, *_ in set(places(grown)) - set(places(table)))
    assert parse_schema(render_schema(grown), where="the log") == grown
    if not add_columns and not widen_types:
        assert grown == table


@examples(100)
@given(structs())
def test_a_table_is_not_changed_by_its_own_rows(table: Struct) -> None:
    kept = mapped(table)
    assert evolve(kept, table, add_columns=True, widen_types=True) is kept


def test_new_columns_come_last_and_are_nullable() -> None:
    table = schema("a int not null, s struct<x: int>")
    incoming = schema("b array<struct<q: int not null>> not null, s struct<y: string not null, x: int>, a int")
    grown = evolve(table, incoming, add_columns=True, widen_types=False)
    assert grown == schema("a int not null, s struct<x: int, y: string>, b array<struct<q: int>>")


def test_what_was_not_asked_for_is_refused_by_name() -> None:
    with pytest.raises(SchemaMismatch, match="let the write add columns") as caught:
        evolve(schema("a int"), schema("a long, b int"), add_columns=False, widen_types=True)
    assert caught.value.columns == ("b",)
    with pytest.raises(SchemaMismatch, match="string does not fit integer") as caught:
        evolve(schema("a int"), schema("a string, b int"), add_columns=True, widen_types=True)
    assert caught.value.columns == ("a",)


def test_widenings_are_noted_where_readers_look() -> None:
    table = schema("a int, l array<map<string, short>>, s struct<x: float>")
    incoming = schema("a long, l array<map<string, int>>, s struct<x: double>")
    grown = evolve(table, incoming, add_columns=False, widen_types=True)
    assert [f.type for f in grown.fields] == [f.type for f in incoming.fields[:2]] + [grown.fields[2].type]
    assert grown.fields[0].metadata == {TYPE_CHANGES: [{"fromType": "integer", "toType": "long"}]}
    assert grown.fields[1].metadata == {
        TYPE_CHANGES: [{"fromType": "short", "toType": "integer", "fieldPath": "element.value"}]
    }
    assert grown.fields[2].metadata == {}
    inner = grown.fields[2].type
    assert isinstance(inner, Struct)
    assert inner.fields[0] == Field(
        "x", Primitive("double"), True, {TYPE_CHANGES: [{"fromType": "float", "toType": "double"}]}
    )
    twice = evolve(grown, schema("a decimal(22,2)"), add_columns=False, widen_types=True)
    assert [c["toType"] for c in twice.fields[0].metadata[TYPE_CHANGES]] == ["long", "decimal(22,2)"]


def test_pinned_columns_keep_their_type() -> None:
    pinned = {"a": "the CHECK constraint small depends on it"}
    with pytest.raises(Invalid, match="a cannot change its type: the CHECK constraint small depends on it"):
        evolve(schema("a int"), schema("a long"), add_columns=False, widen_types=True, pinned=pinned)
    grown = evolve(schema("a int"), schema("a int, b int"), add_columns=True, widen_types=True, pinned=pinned)
    assert grown == schema("a int, b int")


def test_a_void_column_takes_any_type() -> None:
    grown = evolve(schema("a void"), schema("a array<int>"), add_columns=True, widen_types=False)
    assert grown == schema("a array<int>")


def test_overwriting_takes_the_new_schema_without_another_tables_log() -> None:
    f = Field("a", Primitive("long"), False, {"comment": "c", MAPPING_ID: 7, MAPPING_NAME: "x", "CURRENT_DEFAULT": "1"})
    assert overwrite(Struct((f,))) == Struct((Field("a", Primitive("long"), True, {"comment": "c"}),))
