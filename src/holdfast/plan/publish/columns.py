"""Checks that the columns of a published table still match those of the table its rows are published to. Pure.

1. Columns match by name, at every depth. Published rows keep their values, so a column must still be the one it was
   when the row was published: a renamed column must be renamed in the target too, and a column whose name another
   column took is refused.
2. The target may not have a column that the source does not have.
3. A column is published with its name, type and comment, and no other metadata.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from holdfast.errors import Invalid, Unsupported
from holdfast.schema.enforce import Elements, Fields, Fit, FittedField, How, MapEntries
from holdfast.schema.types import MAPPING_NAME, Array, DataType, Field, Map, Primitive, Struct

Path: TypeAlias = tuple[str, ...]  # names of fields; what is inside a list or map counts as inside the field
_COMMENT = "comment"
_AFRESH = "publish with afresh=True, which puts all rows there anew"


def plain(schema: Struct) -> Struct:
    """The columns without metadata of their own table."""
    return Struct(tuple(_plain(f) for f in schema.fields))


def refuse_renamed(before: Struct, after: Struct, target: Struct, *, source: str) -> None:
    """Refuse columns that are not those that were published; `target` has the columns they are published to."""
    for old, new in _followed(before, after, ()):
        if new is None:
            raise Invalid(
                f"the column {'.'.join(old)} of {source} is another one than the one that was published, which rows "
                f"that are there still have: {_AFRESH}"
            )
        if old != new and (not _has(target, new) or _has(target, old)):
            raise Invalid(
                f"the column {'.'.join(old)} of {source} is called {'.'.join(new)} since it was published: rename it "
                f"in the table it is published to as well, or {_AFRESH}"
            )


def refuse_missing(fit: Fit, *, source: str, target: str) -> None:
    """Refuse columns of the target that the source does not have."""
    if missing := list(_missing(fit.parts, ())):
        shown = ", ".join(".".join(path) for path in missing[:5])
        raise Invalid(f"{target} has columns that {source} does not have ({shown}): drop them there first")


def refuse_types(schema: Struct, supported: Collection[str], *, target: str) -> None:
    """Refuse columns whose type the target's format does not have; `supported` are the names of its types."""
    for path, type_ in _primitives(schema, ()):
        if type_ not in supported:
            raise Unsupported(f"the column {'.'.join(path)} is {type_}, which {target} cannot have")


def _primitives(type_: DataType, path: Path) -> Iterator[tuple[Path, str]]:
    match type_:
        case Struct(fields):
            for f in fields:
                yield from _primitives(f.type, (*path, f.name))
        case Array(element, _):
            yield from _primitives(element, path)
        case Map(key, value, _):
            yield from _primitives(key, path)
            yield from _primitives(value, path)
        case Primitive(name):
            yield path, name


def _plain(f: Field) -> Field:
    return Field(f.name, _plain_type(f.type), f.nullable, {k: v for k, v in f.metadata.items() if k == _COMMENT})


def _plain_type(type_: DataType) -> DataType:
    match type_:
        case Struct():
            return plain(type_)
        case Array(element, nulls):
            return Array(_plain_type(element), nulls)
        case Map(key, value, nulls):
            return Map(_plain_type(key), _plain_type(value), nulls)
        case _:
            return type_


def _followed(before: Struct, after: Struct, above: Path) -> Iterator[tuple[Path, Path | None]]:
    """The old and new path of each column; None if another column has its name now. Dropped columns are left out."""
    now = {_identity(f): f for f in after.fields}
    names = {f.name.lower() for f in after.fields}
    for f in before.fields:
        successor = now.get(_identity(f))
        if successor is not None:
            yield (*above, f.name), (*above, successor.name)
            for old, new in zip(_structs(f.type), _structs(successor.type), strict=False):
                yield from _followed(old, new, (*above, successor.name))
        elif f.name.lower() in names:
            yield (*above, f.name), None


def _identity(f: Field) -> str | int:
    """What distinguishes a column from another of the same name."""
    if MAPPING_NAME in f.metadata:
        return f.physical_name
    return f.name if f.field_id is None else f.field_id


def _has(schema: Struct, path: Path) -> bool:
    field = schema.find(path[0])
    if field is None:
        return False
    return len(path) == 1 or any(_has(inner, path[1:]) for inner in _structs(field.type))


def _structs(type_: DataType) -> Iterator[Struct]:
    """The structs right inside a type."""
    match type_:
        case Struct():
            yield type_
        case Array(element, _):
            yield from _structs(element)
        case Map(key, value, _):
            yield from _structs(key)
            yield from _structs(value)


def _missing(parts: Sequence[FittedField], above: Path) -> Iterator[Path]:
    for part in parts:
        path = (*above, part.field.name)
        if part.source is None:
            yield path
        else:
            yield from _missing_in(part.how, path)


def _missing_in(how: How, path: Path) -> Iterator[Path]:
    match how:
        case Fields(parts):
            yield from _missing(parts, path)
        case Elements(each):
            yield from _missing_in(each, path)
        case MapEntries(key, value):
            yield from _missing_in(key, path)
            yield from _missing_in(value, path)
