"""What no table can be made of."""

from __future__ import annotations

import pytest

from holdfast.errors import Invalid
from holdfast.schema.ddl import parse_type
from holdfast.schema.storable import refuse_partition_columns, refuse_unstorable
from holdfast.schema.types import Struct


def schema(text: str) -> Struct:
    struct = parse_type(f"struct<{text}>")
    assert isinstance(struct, Struct)
    return struct


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "at least one column"),
        ("a int, A int", "more than one column a"),
        ("a struct<b: int, B: int>", "in a"),
        ("a void", "no column with a type"),
        ("a int, s struct<b: void>", "the struct s has no column"),
        ("a int, s struct<>", "the struct s has no column"),
        ("a array<void>", "a.element is void"),
        ("a map<string, map<string, void>>", "a.value.value is void"),
        ("`a b` int", "' ' in it"),
        ("a struct<`x=y`: int>", "a.x=y"),
        ("`` int", "empty name"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        refuse_unstorable(schema(text), mapped=False)


def test_mapping_takes_any_name() -> None:
    refuse_unstorable(schema("`a b` int, c struct<`x=y`: void, z: array<int>>"), mapped=True)


def test_partition_columns_are_spelled_as_in_the_schema() -> None:
    table = schema("a int, B date, s struct<x: int>, v variant")
    assert refuse_partition_columns(table, ("b", "A")) == ("B", "a")
    for names, reason in [(("c",), "it has a, B, s, v"), (("s",), "struct<x: integer>"), (("v",), "variant")]:
        with pytest.raises(Invalid, match=reason):
            refuse_partition_columns(table, names)
    with pytest.raises(Invalid, match="twice"):
        refuse_partition_columns(table, ("a", "A"))
    with pytest.raises(Invalid, match="all its columns"):
        refuse_partition_columns(schema("a int, b int"), ("a", "b"))
