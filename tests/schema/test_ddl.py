"""Types as SQL spells them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Invalid
from holdfast.schema.ddl import parse_type
from holdfast.schema.show import type_text
from holdfast.schema.types import LONG, STRING, Array, DataType, Decimal, Field, Map, Primitive, Struct
from tests.schema.strategies import types
from tests.support.depth import examples


def _nullable(type_: DataType) -> DataType:
    match type_:
        case Struct(fields):
            return Struct(tuple(Field(f"c{i}", _nullable(f.type), f.nullable) for i, f in enumerate(fields)))
        case Array(element, _):
            return Array(_nullable(element))
        case Map(key, value, _):
            return Map(_nullable(key), _nullable(value))
        case _:
            return type_


@examples(100)
@given(types().map(_nullable), st.booleans())
def test_what_is_shown_is_read_back(type_: DataType, upper: bool) -> None:
    text = type_text(type_)
    assert parse_type(text) == type_
    assert isinstance(parse_type(text.upper()), type(type_))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BIGINT", LONG),
        (" int ", Primitive("integer")),
        ("tinyint", Primitive("byte")),
        ("timestamp_ltz", Primitive("timestamp")),
        ("decimal", Decimal(10, 0)),
        ("numeric(7)", Decimal(7, 0)),
        ("dec( 38 , 38 )", Decimal(38, 38)),
        ("map<string,array<long>>", Map(STRING, Array(LONG))),
        ("struct<>", Struct()),
        ("struct<a int NOT NULL COMMENT 'it\\'s', `b c``d`:string>",
         Struct((Field("a", Primitive("integer"), False, {"comment": "it's"}), Field("b c`d", STRING)))),
    ],
)  # fmt: skip
def test_spellings(text: str, expected: DataType) -> None:
    assert parse_type(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "intt", "varchar(3)", "array", "array<int", "array<int>>", "map<string>", "decimal(39)", "decimal(2,3)",
     "decimal(a)", "struct<a>", "struct<a: int,>", "int int", "array<" * 200 + "int" + ">" * 200],
)  # fmt: skip
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is no type"):
        parse_type(text)
