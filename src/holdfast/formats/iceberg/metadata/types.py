"""Iceberg's schemas as Holdfast's: the same columns, each with its field id.

1. Every field carries its id, the ids of what is inside lists and maps, the names files without ids may call it, and
   the values of rows that were written before it was there, and of rows that will come without one.
2. A UUID is read as text and a fixed as binary, as Spark's users know them; a type Spark has no word for is refused
   with the column's name.
3. Two columns may have names that differ only in case; a name given exactly finds its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors import Unsupported
from holdfast.formats.iceberg.metadata.single_values import default_value
from holdfast.parquet.fit import NESTED_IDS
from holdfast.schema.types import (
    DEEPEST,
    FILE_NAMES,
    INITIAL_DEFAULT,
    MAPPING_ID,
    WRITE_DEFAULT,
    Array,
    DataType,
    Decimal,
    Field,
    Map,
    Primitive,
    Struct,
)
from holdfast.storage.error_mapping import json_record, parsing

NAME_MAPPING = "schema.name-mapping.default"
_PLAIN = {
    "boolean": Primitive("boolean"),
    "int": Primitive("integer"),
    "long": Primitive("long"),
    "float": Primitive("float"),
    "double": Primitive("double"),
    "date": Primitive("date"),
    "time": Primitive("time"),
    "timestamp": Primitive("timestamp_ntz"),
    "timestamptz": Primitive("timestamp"),
    "string": Primitive("string"),
    "uuid": Primitive("string"),
    "binary": Primitive("binary"),
    "variant": Primitive("variant"),
    "unknown": Primitive("void"),
}
_DEFAULTS = {"initial-default": INITIAL_DEFAULT, "write-default": WRITE_DEFAULT}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")

Names = Mapping[int, tuple[str, ...]]


def parse_schema(schema: Mapping[str, Any], names: Names | None, *, where: str) -> Struct:
    """The columns of a schema; `names` are those of a name mapping, None where the table has none."""
    with parsing(where, "has a malformed schema"):
        return _struct(schema, names, where, 0)


def parse_name_mapping(properties: Mapping[str, str], *, where: str) -> Names | None:
    """What files without field ids may call each field, by field id; None where the table does not say."""
    text = properties.get(NAME_MAPPING)
    if text is None:
        return None
    found: dict[int, tuple[str, ...]] = {}

    def walk(entries: Any) -> None:
        for entry in entries or ():
            if entry.get("field-id") is not None:
                found[int(entry["field-id"])] = tuple(entry.get("names") or ())
            walk(entry.get("fields"))

    what = "has a malformed name mapping"
    entries = json_record(text, list[Any], path=where, what=what)
    with parsing(where, what):
        walk(entries)
    return found


def name_mapping_hint(schema: Struct) -> str:
    """What to do about a file without field ids: the name mapping that finds columns by the names they have today."""
    text = msgspec.json.encode([_mapped(f) for f in schema.fields]).decode()
    return (
        f"if its columns have the names that the table gives them, set the table property {NAME_MAPPING} to {text}, "
        "else rewrite it"
    )


def _mapped(f: Field) -> dict[str, Any]:
    made: dict[str, Any] = {"field-id": f.field_id, "names": [f.name]}
    if inside := _mapped_inside(f.type, f.name, f.metadata.get(NESTED_IDS) or {}):
        made["fields"] = inside
    return made


def _mapped_inside(type_: DataType, path: str, nested: Mapping[str, int]) -> list[dict[str, Any]]:
    parts: list[tuple[str, DataType]] = []
    match type_:
        case Struct(fields):
            return [_mapped(f) for f in fields]
        case Array(element, _):
            parts = [("element", element)]
        case Map(key, value, _):
            parts = [("key", key), ("value", value)]
    made = []
    for name, inner in parts:
        below = _mapped_inside(inner, f"{path}.{name}", nested)
        one: dict[str, Any] = {"field-id": nested.get(f"{path}.{name}"), "names": [name]}
        made.append({**one, "fields": below} if below else one)
    return made


def parse_primitive(name: str, *, column: str, where: str) -> DataType:
    """A type that is one word."""
    if found := _PLAIN.get(name):
        return found
    if decimal := _DECIMAL.fullmatch(name):
        return Decimal(int(decimal[1]), int(decimal[2]))
    if _FIXED.fullmatch(name):
        return Primitive("binary")
    raise Unsupported(f"the column {column} of {where} has the type {name}, which Holdfast does not read")


def type_names(schema: Mapping[str, Any]) -> dict[int, str]:
    """The type of every field that is one word, by field id, as the schema spells it."""
    found: dict[int, str] = {}

    def walk(type_: Any) -> None:
        if not isinstance(type_, Mapping):
            return
        match type_.get("type"):
            case "struct":
                for f in type_["fields"]:
                    found[int(f["id"])] = f["type"] if isinstance(f["type"], str) else f["type"]["type"]
                    walk(f["type"])
            case "list":
                walk(type_["element"])
            case "map":
                walk(type_["key"])
                walk(type_["value"])

    walk({"type": "struct", **schema})
    return found


def _struct(raw: Mapping[str, Any], names: Names | None, where: str, depth: int, above: str = "") -> Struct:
    return Struct(tuple(_field(f, names, where, depth, above) for f in raw["fields"]))


def _field(raw: Mapping[str, Any], names: Names | None, where: str, depth: int, above: str) -> Field:
    name, number = str(raw["name"]), int(raw["id"])
    nested: dict[str, int] = {}
    type_ = _type(raw["type"], names, where, depth + 1, above + name, name, nested)
    metadata: dict[str, Any] = {MAPPING_ID: number}
    if nested:
        metadata[NESTED_IDS] = nested
    if names is not None:
        metadata[FILE_NAMES] = names.get(number, ())
    for kind, key in _DEFAULTS.items():
        if raw.get(kind) is not None:
            metadata[key] = default_value(raw[kind], raw["type"], type_, kind, column=above + name, where=where)
    if raw.get("doc"):
        metadata["comment"] = str(raw["doc"])
    return Field(name, type_, not raw.get("required", False), metadata)


def _type(
    raw: Any, names: Names | None, where: str, depth: int, column: str, path: str, nested: dict[str, int]
) -> DataType:
    """`path` leads from the nearest field to the type; `nested` takes the ids of what is no field on the way."""
    if isinstance(raw, str):
        return parse_primitive(raw, column=column, where=where)
    if depth > DEEPEST:
        raise RecursionError
    match raw["type"]:
        case "struct":
            return _struct(raw, names, where, depth, f"{column}.")
        case "list":
            below = f"{path}.element"
            nested[below] = int(raw["element-id"])
            element = _type(raw["element"], names, where, depth + 1, f"{column}.element", below, nested)
            return Array(element, not raw.get("element-required", False))
        case "map":
            nested[f"{path}.key"], nested[f"{path}.value"] = int(raw["key-id"]), int(raw["value-id"])
            key = _type(raw["key"], names, where, depth + 1, f"{column}.key", f"{path}.key", nested)
            value = _type(raw["value"], names, where, depth + 1, f"{column}.value", f"{path}.value", nested)
            return Map(key, value, not raw.get("value-required", False))
        case str() as name:
            return parse_primitive(name, column=column, where=where)
        case _:
            return _type(raw["type"], names, where, depth + 1, column, path, nested)
