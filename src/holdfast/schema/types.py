"""The types of a table's columns, parsed from and rendered to the schema JSON of Delta logs.

1. Parsing and rendering lose nothing: `parse_schema(render_schema(s)) == s`.
2. Column names are unique without regard to case, at every level.
3. Data files, statistics and partition values use a field's physical name; without column mapping that is the name.
4. A schema is no deeper than DEEPEST, so that code may recurse through it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from holdfast.errors import Damaged, Unsupported
from holdfast.storage.error_mapping import MALFORMED, MALFORMED_JSON, damage

DEEPEST = 100  # levels of structs, arrays and maps
MAPPING_ID = "delta.columnMapping.id"
MAPPING_NAME = "delta.columnMapping.physicalName"
FILE_NAMES = "holdfast.fileNames"  # names of a field in files without field ids; absent: its physical name
WRITE_DEFAULT = "holdfast.writeDefault"  # value in rows that are written without one; absent: null
INITIAL_DEFAULT = "holdfast.initialDefault"  # value in files without the column; absent: null

ColumnValue: TypeAlias = Any  # of a column's type, as Arrow takes it
TypeJson: TypeAlias = str | dict[str, Any]

_PRIMITIVES = "string long integer short byte float double boolean binary date timestamp timestamp_ntz void variant"
PRIMITIVES = frozenset(_PRIMITIVES.split())
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")


@dataclass(frozen=True, slots=True)
class Primitive:
    name: str


@dataclass(frozen=True, slots=True)
class Decimal:
    precision: int
    scale: int

    @property
    def name(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Array:
    element: DataType
    contains_null: bool = True


@dataclass(frozen=True, slots=True)
class Map:
    key: DataType
    value: DataType
    value_contains_null: bool = True


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def physical_name(self) -> str:
        return str(self.metadata.get(MAPPING_NAME, self.name))

    @property
    def field_id(self) -> int | None:
        number = self.metadata.get(MAPPING_ID)
        return None if number is None else int(number)

    @property
    def file_names(self) -> tuple[str, ...] | None:
        """Its names in files without field ids; None: only its physical name."""
        return self.metadata.get(FILE_NAMES)

    @property
    def initial_default(self) -> ColumnValue:
        """Its value in files without the column."""
        return self.metadata.get(INITIAL_DEFAULT)

    @property
    def write_default(self) -> ColumnValue:
        """Its value in rows that are written without one."""
        return self.metadata.get(WRITE_DEFAULT)


@dataclass(frozen=True, slots=True)
class Struct:
    fields: tuple[Field, ...] = ()

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    def find(self, name: str) -> Field | None:
        """The field of this name, exactly or else without regard to case."""
        folded = None
        for f in self.fields:
            if f.name == name:
                return f
            if folded is None and f.name.lower() == name.lower():
                folded = f
        return folded


DataType: TypeAlias = Primitive | Decimal | Array | Map | Struct

STRING = Primitive("string")
LONG = Primitive("long")


def parse_schema(text: str, *, where: str) -> Struct:
    """Parses a schema string; `where` names its file in errors."""
    try:
        raw = msgspec.json.decode(text)
    except MALFORMED_JSON as error:
        raise damage(where, "has a schema that is not JSON", error) from error
    try:
        parsed = _type(raw, where, 0)
    except MALFORMED as error:
        raise damage(where, "has a malformed schema", error) from error
    if not isinstance(parsed, Struct):
        raise Damaged(f"the schema in {where} is not a struct", path=where)
    return parsed


def render_schema(schema: Struct) -> str:
    """The schema string of a struct, as the log stores it."""
    return msgspec.json.encode(to_json(schema)).decode()


def to_json(type_: DataType) -> TypeJson:
    """The JSON value of a type."""
    match type_:
        case Primitive(name):
            return name
        case Decimal():
            return type_.name
        case Array(element, contains_null):
            return {"type": "array", "elementType": to_json(element), "containsNull": contains_null}
        case Map(key, value, value_contains_null):
            return {
                "type": "map",
                "keyType": to_json(key),
                "valueType": to_json(value),
                "valueContainsNull": value_contains_null,
            }
        case Struct():
            return struct_to_json(type_)


def struct_to_json(schema: Struct) -> dict[str, Any]:
    """The JSON object of a struct."""
    fields = [
        {"name": f.name, "type": to_json(f.type), "nullable": f.nullable, "metadata": dict(f.metadata)}
        for f in schema.fields
    ]
    return {"type": "struct", "fields": fields}


def physical(type_: DataType) -> DataType:
    """The same type with every field, at every depth, under its physical name and without metadata."""
    match type_:
        case Struct(fields):
            return Struct(tuple(Field(f.physical_name, physical(f.type), f.nullable) for f in fields))
        case Array(element, contains_null):
            return Array(physical(element), contains_null)
        case Map(key, value, value_contains_null):
            return Map(physical(key), physical(value), value_contains_null)
        case _:
            return type_


def leaves(schema: Struct) -> Iterator[tuple[tuple[Field, ...], DataType]]:
    """Each leaf that is reached through structs alone: the fields that lead to it, and its type."""
    for f in schema.fields:
        if isinstance(f.type, Struct):
            for path, leaf in leaves(f.type):
                yield (f, *path), leaf
        else:
            yield (f,), f.type


def _type(raw: TypeJson, where: str, depth: int) -> DataType:
    if isinstance(raw, str):
        return _primitive(raw, where)
    if depth > DEEPEST:
        raise RecursionError
    match raw["type"]:
        case "struct":
            return _struct(raw, where, depth)
        case "array":
            return Array(_type(raw["elementType"], where, depth + 1), bool(raw.get("containsNull", True)))
        case "map":
            return Map(
                _type(raw["keyType"], where, depth + 1),
                _type(raw["valueType"], where, depth + 1),
                bool(raw.get("valueContainsNull", True)),
            )
        case other:
            raise Unsupported(f"the schema in {where} has a column of type {other!r}, which Holdfast does not know")


def _struct(raw: dict[str, Any], where: str, depth: int) -> Struct:
    fields = tuple(_field(f, where, depth) for f in raw["fields"])
    names: set[str] = set()
    for f in fields:
        if f.name.lower() in names:
            raise Damaged(f"the schema in {where} names the column {f.name!r} twice", path=where, found=f.name)
        names.add(f.name.lower())
    return Struct(fields)


def _field(raw: dict[str, Any], where: str, depth: int) -> Field:
    name, metadata = raw["name"], raw.get("metadata") or {}
    if not isinstance(name, str) or not isinstance(metadata, dict):
        raise TypeError(f"{name!r} is not the name of a column, or {metadata!r} not what is said of it")
    if not isinstance(number := metadata.get(MAPPING_ID, 0), int) or isinstance(number, bool):
        raise TypeError(f"{number!r} is not the id of a column")
    return Field(name, _type(raw["type"], where, depth + 1), bool(raw.get("nullable", True)), metadata)


def _primitive(name: str, where: str) -> DataType:
    if name in PRIMITIVES:
        return Primitive(name)
    if match := _DECIMAL.fullmatch(name):
        return Decimal(int(match[1]), int(match[2]))
    if name == "decimal":
        return Decimal(10, 0)
    raise Unsupported(f"the schema in {where} has a column of type {name!r}, which Holdfast does not read")
