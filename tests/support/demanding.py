"""A table that demands much of its rows, for tests of both engines."""

from __future__ import annotations

from holdfast.schema.ddl import parse_type
from holdfast.schema.identity import identity_metadata
from holdfast.schema.types import LONG, STRING, Array, Field, Struct

NUMBERED = identity_metadata(start=10, step=5, explicit=False)


def schema(text: str) -> Struct:
    """A struct in SQL's spelling."""
    found = parse_type(f"struct<{text}>")
    assert isinstance(found, Struct)
    return found


DEMANDING = Struct(
    (
        Field("n", LONG, False, NUMBERED),
        Field("v", LONG, False),
        Field("d", STRING, True, {"CURRENT_DEFAULT": "'hi'"}),
        Field("s", schema("a long, b string not null, c array<struct<x: long, y: int>>")),
        Field("l", Array(schema("p int not null"), contains_null=False)),
        Field("m", parse_type("map<string, struct<q: long not null>>")),
    )
)
SMALL = {"delta.constraints.small": "v < 5 AND d <> '<x>'"}

# Rows that break a demand, as changes of a good row, with the demand's name.
GOOD: dict[str, object] = {
    "v": 1,
    "d": "ok",
    "s": {"a": 1, "b": "b", "c": [{"x": 1, "y": 2}, None]},
    "l": [{"p": 1}],
    "m": [("k", {"q": 1}), ("none", None)],
}
BROKEN: tuple[tuple[dict[str, object], str], ...] = (
    ({"v": None}, "v"),
    ({"v": 5}, "small"),
    ({"d": "<x>"}, "small"),
    ({"d": None}, "small"),
    ({"s": {"a": 1, "b": None, "c": None}}, "s.b"),
    ({"l": [{"p": 1}, None]}, "l.element"),
    ({"l": [{"p": None}]}, "l.element.p"),
    ({"m": [("k", {"q": None})]}, "m.value.q"),
)
FINE: tuple[dict[str, object], ...] = ({}, {"s": None, "l": None, "m": None}, {"l": [], "m": []}, {"v": -(2**40)})
