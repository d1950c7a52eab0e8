"""Renders schemas for people: a type in one line, and two schemas side by side.

1. Every difference has its own line with a mark and a reason.
2. Of columns without a difference only the first 40 are shown, and the others counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from holdfast.schema.types import Array, DataType, Decimal, Field, Map, Primitive, Struct

Path: TypeAlias = tuple[str, ...]

_SHOWN_EQUALS = 40
_NOTHING = "-"


def type_text(type_: DataType) -> str:
    """A type in one line."""
    match type_:
        case Primitive(name):
            return name
        case Decimal():
            return type_.name
        case Array(element, _):
            return f"array<{type_text(element)}>"
        case Map(key, value, _):
            return f"map<{type_text(key)}, {type_text(value)}>"
        case Struct(fields):
            return f"struct<{', '.join(f'{f.name}: {_field_type(f)}' for f in fields)}>"


def path_text(path: Path) -> str:
    """A column path as people write it."""
    return ".".join(path)


def schema_text(schema: Struct) -> str:
    """A schema, one column per line."""
    return "\n".join(f"{f.name} {_field_type(f)}" for f in schema.fields)


def side_by_side(table: Struct, incoming: Struct, wrong: Mapping[Path, str]) -> str:
    """Both schemas, one column per line, with a mark and a reason where they differ."""
    marked = {tuple(part.lower() for part in path): reason for path, reason in wrong.items()}
    expanded = {path[0] for path in marked if len(path) > 1}
    left = {row.key: row for row in _rows(table, expanded)}
    right = {row.key: row for row in _rows(incoming, expanded)}
    lines = [("", "table", "incoming", "")]
    equals = 0
    for key in _merged_order(list(left), list(right)):
        reason = marked.get(key)
        equals += reason is None
        if reason is not None or equals <= _SHOWN_EQUALS:
            lines.append(("" if reason is None else "!", _shown(left.get(key)), _shown(right.get(key)), reason or ""))
    width_left, width_right = (max(len(line[i]) for line in lines) for i in (1, 2))
    text = [f"{m:1} {a:{width_left}}   {b:{width_right}}   {reason}".rstrip() for m, a, b, reason in lines]
    if equals > _SHOWN_EQUALS:
        text.append(f"  … and {equals - _SHOWN_EQUALS} more columns that agree")
    return "\n".join(text)


@dataclass(frozen=True, slots=True)
class _Row:
    key: Path  # in lower case
    text: str


def _rows(schema: Struct, expanded: set[str]) -> Iterator[_Row]:
    """A line per column, and per nested field of a column with a difference inside."""
    for f in schema.fields:
        if f.name.lower() in expanded:
            yield _Row((f.name.lower(),), f"{f.name} {_outline(f.type)}{_suffix(f)}")
            yield from _inside(f.type, (f.name,))
        else:
            yield _Row((f.name.lower(),), f"{f.name} {_field_type(f)}")


def _inside(type_: DataType, path: Path) -> Iterator[_Row]:
    match type_:
        case Struct(fields):
            for f in fields:
                yield _row((*path, f.name), f.type, _suffix(f))
                yield from _inside(f.type, (*path, f.name))
        case Array(element, _):
            yield _row((*path, "element"), element, "")
            yield from _inside(element, (*path, "element"))
        case Map(key, value, _):
            for name, part in (("key", key), ("value", value)):
                yield _row((*path, name), part, "")
                yield from _inside(part, (*path, name))
        case _:
            return


def _row(path: Path, type_: DataType, suffix: str) -> _Row:
    indent = "  " * (len(path) - 1)
    return _Row(tuple(part.lower() for part in path), f"{indent}{path[-1]} {_outline(type_)}{suffix}")


def _outline(type_: DataType) -> str:
    return type(type_).__name__.lower() if isinstance(type_, Struct | Array | Map) else type_text(type_)


def _field_type(f: Field) -> str:
    return type_text(f.type) + _suffix(f)


def _suffix(f: Field) -> str:
    return "" if f.nullable else " not null"


def _shown(row: _Row | None) -> str:
    return _NOTHING if row is None else row.text


def _merged_order(left: list[Path], right: list[Path]) -> list[Path]:
    """The table's order; a column that is only incoming follows its last sibling, or is at the end."""
    listed = set(left)
    order = list(left)
    for key in right:
        if key in listed:
            continue
        family = [i for i, other in enumerate(order) if len(key) > 1 and other[: len(key) - 1] == key[:-1]]
        order.insert(family[-1] + 1 if family else len(order), key)
        listed.add(key)
    return order
