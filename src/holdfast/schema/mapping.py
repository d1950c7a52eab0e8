"""Column mapping: assigns ids and physical names to columns, so that renaming a column rewrites no data file.

1. A field that has an id or a physical name keeps it.
2. New ids are above every id that the table has ever used, and the largest never decreases.
3. A column that data files may already have takes its present name as physical name; a new one takes `col-` and a fresh
   uuid, which no file has.
4. Every field of every struct is mapped, those inside lists and maps too.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from holdfast.errors import UnknownColumn
from holdfast.schema.show import path_text
from holdfast.schema.types import MAPPING_ID, MAPPING_NAME, Array, DataType, Field, Map, Struct


@dataclass(frozen=True, slots=True)
class Mapped:
    """A schema in which every field has an id and a physical name, and the largest id ever used."""

    schema: Struct
    max_id: int


def map_new_columns(schema: Struct, *, max_id: int, new_uuid: Callable[[], uuid.UUID]) -> Mapped:
    """Map the fields that are not mapped yet: columns that no data file holds."""
    return _mapped(schema, max_id, lambda f: f"col-{new_uuid()}")


def map_existing_columns(schema: Struct, *, max_id: int = 0) -> Mapped:
    """Map a table that was written without mapping: its files have columns under their names."""
    return _mapped(schema, max_id, lambda f: f.name)


def without_mapping(schema: Struct) -> Struct:
    """The schema without ids and physical names, as a new table has it before it is mapped."""
    return each_field(schema, _unmapped)


def largest_id(schema: Struct) -> int:
    """The largest id in the schema; 0 where there is none."""
    return max((f.field_id or 0 for f in all_fields(schema)), default=0)


def all_fields(type_: DataType) -> Iterator[Field]:
    """Every field at every depth."""
    match type_:
        case Struct(fields):
            for f in fields:
                yield f
                yield from all_fields(f.type)
        case Array(element, _):
            yield from all_fields(element)
        case Map(key, value, _):
            yield from all_fields(key)
            yield from all_fields(value)
        case _:
            return


def fields_along(schema: Struct, path: Sequence[str]) -> tuple[Field, ...]:
    """The fields along a path of column names, through structs."""
    type_: DataType = schema
    fields = []
    for name in path:
        inner = type_.find(name) if isinstance(type_, Struct) else None
        if inner is None:
            text = path_text(tuple(path))
            raise UnknownColumn(f"the table has no column {text}: it has {', '.join(schema.names)}", column=text)
        fields.append(inner)
        type_ = inner.type
    return tuple(fields)


def physical_path(schema: Struct, path: Sequence[str]) -> tuple[str, ...]:
    """The physical names along a path of column names."""
    return tuple(f.physical_name for f in fields_along(schema, path))


def logical_path(schema: Struct, path: tuple[str, ...]) -> tuple[str, ...]:
    """The names along a path of physical names; the physical ones where the table has no such column."""
    head, *rest = path
    f = next((f for f in schema.fields if f.physical_name == head), None)
    if f is None:
        return path
    return (f.name, *(logical_path(f.type, tuple(rest)) if rest and isinstance(f.type, Struct) else rest))


def _mapped(schema: Struct, max_id: int, name_of: Callable[[Field], str]) -> Mapped:
    ids = count(max(max_id, largest_id(schema)) + 1)

    def with_mapping(f: Field) -> Field:
        new_id = {} if MAPPING_ID in f.metadata else {MAPPING_ID: next(ids)}
        new_name = {} if MAPPING_NAME in f.metadata else {MAPPING_NAME: name_of(f)}
        return replace(f, metadata={**f.metadata, **new_id, **new_name})

    mapped = each_field(schema, with_mapping)
    return Mapped(mapped, next(ids) - 1)


def _unmapped(f: Field) -> Field:
    return replace(f, metadata={k: v for k, v in f.metadata.items() if k not in (MAPPING_ID, MAPPING_NAME)})


def each_field(schema: Struct, change: Callable[[Field], Field]) -> Struct:
    """The struct with every field at every depth changed, outer ones before inner ones."""
    changed = []
    for f in schema.fields:
        outer = change(f)
        changed.append(replace(outer, type=_type(outer.type, change)))
    return Struct(tuple(changed))


def _type(type_: DataType, change: Callable[[Field], Field]) -> DataType:
    match type_:
        case Struct():
            return each_field(type_, change)
        case Array(element, _):
            return replace(type_, element=_type(element, change))
        case Map(key, value, _):
            return replace(type_, key=_type(key, change), value=_type(value, change))
        case _:
            return type_
