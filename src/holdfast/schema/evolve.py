"""Schema evolution: the schema of a table after a write that may add columns or widen types.

1. No column is lost, moved or renamed, and none changes its id or physical name; new ones come last in their struct.
2. A new column is nullable at every depth and has no metadata of another table's log.
3. A type only becomes one that the format allows as a widening, and the change is noted in the field's metadata.
4. The result accepts the incoming rows; a change that is not enabled, or impossible, is refused by column.
5. Evolution is idempotent; a schema that does not change is the same object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from holdfast.errors import Invalid
from holdfast.schema.casts import is_lossless, wider
from holdfast.schema.enforce import fit, refuse_doubles
from holdfast.schema.show import type_text
from holdfast.schema.types import Array, DataType, Field, Map, Primitive, Struct, to_json

TYPE_CHANGES = "delta.typeChanges"
LOG_KEYS = ("delta.", "CURRENT_DEFAULT", "EXISTS_DEFAULT")  # prefixes of metadata that belongs to one table's log


def evolve(
    table: Struct,
    incoming: Struct,
    *,
    add_columns: bool,
    widen_types: bool,
    pinned: Mapping[str, str] | None = None,
    partial: bool = False,
) -> Struct:
    """The schema that accepts the incoming rows; `pinned` names columns that keep their type, each with the reason.

    With `partial` the incoming columns are some of a row's, and the caller checks whether they fit.
    """
    refuse_doubles(incoming)
    grown = _Evolution(add_columns, widen_types).struct(table, incoming)
    for name, reason in (pinned or {}).items():
        old, new = table.find(name), grown.find(name)
        if old is not None and new is not None and type_text(old.type) != type_text(new.type):
            raise Invalid(f"the column {old.name} cannot change its type: {reason}")
    if not partial:
        fit(incoming, grown)
    return table if grown == table else grown


def overwrite(incoming: Struct) -> Struct:
    """The schema of a table whose rows and columns are all replaced."""
    refuse_doubles(incoming)
    return Struct(tuple(_new(f) for f in incoming.fields))


@dataclass(frozen=True, slots=True)
class _Change:
    """A widening at or below a field: the path from the field to the value, and both types."""

    path: tuple[str, ...]
    source: DataType
    target: DataType

    def inside(self, name: str) -> _Change:
        return replace(self, path=(name, *self.path))

    def metadata_entry(self) -> dict[str, Any]:
        note = {"fromType": to_json(self.source), "toType": to_json(self.target)}
        return {**note, "fieldPath": ".".join(self.path)} if self.path else note


@dataclass(frozen=True, slots=True)
class _Evolution:
    add_columns: bool
    widen_types: bool

    def struct(self, table: Struct, incoming: Struct) -> Struct:
        unmatched = {f.name.lower(): f for f in incoming.fields}
        kept = [self.field(f, unmatched.pop(f.name.lower(), None)) for f in table.fields]
        return Struct((*kept, *(_new(f) for f in unmatched.values() if self.add_columns)))

    def field(self, f: Field, incoming: Field | None) -> Field:
        if incoming is None:
            return f
        type_, changes = self.type(f.type, incoming.type)
        if not changes:
            return replace(f, type=type_)
        notes = [*f.metadata.get(TYPE_CHANGES, ()), *(change.metadata_entry() for change in changes)]
        return replace(f, type=type_, metadata={**f.metadata, TYPE_CHANGES: notes})

    def type(self, table: DataType, incoming: DataType) -> tuple[DataType, list[_Change]]:
        """The new type, and the widenings that the field above notes."""
        match table, incoming:
            case (Struct(), Struct()):
                return self.struct(table, incoming), []
            case (Array(), Array()):
                element, changes = self.type(table.element, incoming.element)
                return replace(table, element=element), [c.inside("element") for c in changes]
            case (Map(), Map()):
                key, below_key = self.type(table.key, incoming.key)
                value, below_value = self.type(table.value, incoming.value)
                changes = [c.inside("key") for c in below_key] + [c.inside("value") for c in below_value]
                return replace(table, key=key, value=value), changes
            case (Primitive("void"), _) if self.add_columns or self.widen_types:
                return _nullable(incoming), []  # no data file holds a void: nothing has to be widened
            case _:
                return self.value(table, incoming)

    def value(self, table: DataType, incoming: DataType) -> tuple[DataType, list[_Change]]:
        if not self.widen_types or is_lossless(incoming, table):
            return table, []
        target = wider(table, incoming)
        return (table, []) if target is None else (target, [_Change((), table, target)])


def _new(f: Field) -> Field:
    metadata = {key: value for key, value in f.metadata.items() if not key.startswith(LOG_KEYS)}
    return Field(f.name, _nullable(f.type), True, metadata)


def _nullable(type_: DataType) -> DataType:
    match type_:
        case Struct(fields):
            return Struct(tuple(_new(f) for f in fields))
        case Array(element, _):
            return Array(_nullable(element))
        case Map(key, value, _):
            return Map(_nullable(key), _nullable(value))
        case _:
            return type_
