"""Moves columns, and changes whether they may be null; data files stay as they are.

1. Columns are matched with their values by name or id, so only the schema has an order.
2. A change that is true already returns the same definition.
"""

from __future__ import annotations

import json
from dataclasses import replace

from holdfast.errors import Invalid
from holdfast.model.mutation import Mutation, TableDefinition
from holdfast.schema.mapping import fields_along
from holdfast.schema.show import path_text
from holdfast.schema.types import Field, Struct, to_json
from holdfast.verbs.define.columns import changed, path_of


def move_column(old: TableDefinition, name: str, after: str | None) -> Mutation:
    """Put a column after another of the same struct; first, where none is named."""
    path = path_of(old.schema, name)
    schema = moved(old.schema, name, after)
    f = fields_along(schema, path)[-1]
    place = {"position": "first" if after is None else f"after {after}"}
    return Mutation(
        "CHANGE COLUMN",
        {"column": json.dumps({**_described(path_text(path), f), **place})},
        shape=replace(old, schema=schema),
    )


def moved(schema: Struct, name: str, after: str | None) -> Struct:
    """A schema with a column in another place."""
    *above, last = path_of(schema, name)
    if not above:
        return _reordered(schema, last, after)
    return changed(schema, tuple(above), lambda f: replace(f, type=_reordered(_struct(f), last, after)))


def set_nullable(old: TableDefinition, name: str, nullable: bool) -> Mutation:
    """Say whether a column may be null."""
    path = path_of(old.schema, name)
    schema = changed(old.schema, path, lambda f: replace(f, nullable=nullable))
    f = fields_along(schema, path)[-1]
    return Mutation(
        "CHANGE COLUMN", {"column": json.dumps(_described(path_text(path), f))}, shape=replace(old, schema=schema)
    )


def _reordered(within: Struct, name: str, after: str | None) -> Struct:
    moving = within.find(name)
    assert moving is not None, "the path was looked up"
    rest = [f for f in within.fields if f is not moving]
    if after is None:
        return Struct((moving, *rest))
    place = next((i for i, f in enumerate(rest) if f.name.lower() == after.lower()), None)
    if place is None:
        raise Invalid(f"{name} cannot stand after {after}: there are {', '.join(f.name for f in rest)}")
    return Struct((*rest[: place + 1], moving, *rest[place + 1 :]))


def _struct(f: Field) -> Struct:
    assert isinstance(f.type, Struct), "a path leads through structs"
    return f.type


def _described(name: str, f: Field) -> dict[str, object]:
    return {"name": name, "type": to_json(f.type), "nullable": f.nullable, "metadata": dict(f.metadata)}
