"""Random schemas, and random rows' schemas that are near a table's."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from hypothesis import strategies as st

from holdfast.schema.types import MAPPING_ID, MAPPING_NAME, Array, DataType, Decimal, Field, Map, Primitive, Struct

NAMES = ("a", "B", "c", "D", "e f", "g.h", "é")
PRIMITIVES = (
    "string",
    "long",
    "integer",
    "short",
    "byte",
    "float",
    "double",
    "boolean",
    "date",
    "timestamp_ntz",
    "void",
)


VOID = Primitive("void")
DECIMALS: st.SearchStrategy[DataType] = st.builds(
    lambda whole, scale: Decimal(max(1, whole + scale), scale), st.integers(0, 28), st.integers(0, 10)
)
LEAVES: st.SearchStrategy[DataType] = st.sampled_from([Primitive(name) for name in PRIMITIVES]) | DECIMALS


@cache
def types(depth: int = 2) -> st.SearchStrategy[DataType]:
    if depth == 0:
        return LEAVES
    inner = types(depth - 1)
    nested = (
        structs(depth - 1)
        | st.builds(lambda e, nulls: Array(e, nulls or e == VOID), inner, st.booleans())
        | st.builds(lambda v, nulls: Map(Primitive("string"), v, nulls or v == VOID), inner, st.booleans())
    )
    return LEAVES | LEAVES | nested


@cache
def structs(depth: int = 2) -> st.SearchStrategy[Struct]:
    field = st.builds(Field, st.sampled_from(NAMES), types(depth))
    return st.lists(field, min_size=1, max_size=4, unique_by=lambda f: f.name.lower()).map(tuple).map(Struct)


def mapped(schema: Struct) -> Struct:
    """The schema with an id and a physical name on every field, as a mapped table has it."""
    numbers = iter(range(1, 10_000))

    def change(type_: DataType) -> DataType:
        match type_:
            case Struct(fields):
                return Struct(tuple(field(f) for f in fields))
            case Array(element, _):
                return replace(type_, element=change(element))
            case Map(key, value, _):
                return replace(type_, key=change(key), value=change(value))
            case _:
                return type_

    def field(f: Field) -> Field:
        number = next(numbers)
        return replace(f, type=change(f.type), metadata={MAPPING_ID: number, MAPPING_NAME: f"col-{number}"})

    return Struct(tuple(field(f) for f in schema.fields))


@st.composite
def near(draw: st.DrawFn, table: Struct) -> Struct:
    """Rows made for this table, roughly: some columns missing, some new, some of another type, in another order."""
    return _near(draw, table)


def _near(draw: st.DrawFn, table: Struct) -> Struct:
    fields = []
    for f in table.fields:
        if fate := draw(st.integers(0, 7)):
            name = f.name.upper() if fate == 1 else f.name
            fields.append(Field(name, _near_type(draw, f.type), fate != 2))
    if not draw(st.integers(0, 2)):
        fields.append(Field("new", draw(types(1))))
    return Struct(tuple(reversed(fields) if draw(st.booleans()) else fields))


def _near_type(draw: st.DrawFn, type_: DataType) -> DataType:
    match type_:
        case Struct():
            return _near(draw, type_)
        case Array(element, _):
            return Array(_near_type(draw, element))
        case Map(key, value, _):
            return Map(key, _near_type(draw, value))
        case _:
            return type_ if draw(st.integers(0, 2)) else draw(LEAVES)
