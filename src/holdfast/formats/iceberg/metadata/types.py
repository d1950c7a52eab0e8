"""Parses Iceberg schemas to Holdfast's: the same columns, each with its field id.

1. Every field carries its id, the ids of list elements, map keys and map values, the names that files without ids may
   use for it (name mapping), its `initial-default` and its `write-default`.
2. A uuid is read as a string and a fixed as binary, as in Spark; a type that Spark does not have is refused with the
   column's name.
3. Two columns may have names that differ only in case; an exact name finds its own column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.errors import Unsupported
from holdfast.formats.iceberg.metadata.single_values import JsonType, default_value
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
WRITABLE = {  # types of new columns, by Iceberg's names
    **{n: n for n in ("boolean", "long", "float", "double", "date", "time", "string", "binary")},
    **{"int": "integer", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"},
}
_PRIMITIVES = {**WRITABLE, "uuid": "string", "variant": "variant", "unknown": "void"}
_DEFAULTS = {"initial-default": INITIAL_DEFAULT, "write-default": WRITE_DEFAULT}
DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")

Names = Mapping[int, tuple[str, ...]]


def parse_schema(schema: Mapping[str, Any], names: Names | None, *, where: str) -> Struct:
    """Parses a schema; `names` is the table's name mapping, None where it has none."""
    with parsing(where, "has a malformed schema"):
        return _struct(schema, names, where, 0)


def parse_name_mapping(properties: Mapping[str, str], *, where: str) -> Names | None:
    """The names of each field in files without field ids, by field id; None where the table has no name mapping."""
    text = properties.get(NAME_MAPPING)
    if text is None:
        return None
    names: dict[int, tuple[str, ...]] = {}

    def walk(entries: Sequence[Mapping[str, Any]] | None) -> None:
        for entry in entries or ():
            if entry.get("field-id") is not None:
                names[int(entry["field-id"])] = tuple(entry.get("names") or ())
            walk(entry.get("fields"))

    what = "has a malformed name mapping"
    mapping = json_record(text, list[Any], path=where, what=what)
    with parsing(where, what):
        walk(mapping)
    return names


def name_mapping_hint(schema: Struct) -> str:
    """The remedy for a file without field ids: a name mapping to the names that columns have today."""
    text = msgspec.json.encode([_mapping_of(f) for f in schema.fields]).decode()
    return (
        f"if its columns have the names that the table gives them, set the table property {NAME_MAPPING} to {text}, "
        "else rewrite it"
    )


def _mapping_of(f: Field) -> dict[str, Any]:
    return _mapping(f.field_id, f.name, f.type, f.name, f.metadata.get(NESTED_IDS) or {})


def _mapping(field_id: int | None, name: str, type_: DataType, path: str, nested: Mapping[str, int]) -> dict[str, Any]:
    """An entry of a name mapping; `path` leads from the nearest field to the type."""
    parts: list[tuple[str, DataType]] = []
    match type_:
        case Array(element, _):
            parts = [("element", element)]
        case Map(key, value, _):
            parts = [("key", key), ("value", value)]
    fields = [_mapping(nested.get(f"{path}.{part}"), part, inner, f"{path}.{part}", nested) for part, inner in parts]
    if isinstance(type_, Struct):
        fields = [_mapping_of(f) for f in type_.fields]
    return {"field-id": field_id, "names": [name], **({"fields": fields} if fields else {})}


def parse_primitive(name: str, *, column: str, where: str) -> DataType:
    """Parses a primitive type."""
    if name in _PRIMITIVES:
        return Primitive(_PRIMITIVES[name])
    if decimal := DECIMAL.fullmatch(name):
        return Decimal(int(decimal[1]), int(decimal[2]))
    if FIXED.fullmatch(name):
        return Primitive("binary")
    raise Unsupported(f"the column {column} of {where} has the type {name}, which Holdfast does not read")


def type_names(schema: Mapping[str, Any]) -> dict[int, str]:
    """The type of every struct field by field id, as the schema spells it."""
    names: dict[int, str] = {}

    def walk(type_: JsonType) -> None:
        if isinstance(type_, str):
            return
        match type_.get("type"):
            case "struct":
                for f in type_["fields"]:
                    names[int(f["id"])] = f["type"] if isinstance(f["type"], str) else f["type"]["type"]
                    walk(f["type"])
            case "list":
                walk(type_["element"])
            case "map":
                walk(type_["key"])
                walk(type_["value"])

    walk({"type": "struct", **schema})
    return names


def _struct(raw: Mapping[str, Any], names: Names | None, where: str, depth: int, above: str = "") -> Struct:
    return Struct(tuple(_field(f, names, where, depth, above) for f in raw["fields"]))


def _field(raw: Mapping[str, Any], names: Names | None, where: str, depth: int, above: str) -> Field:
    name, field_id = str(raw["name"]), int(raw["id"])
    nested: dict[str, int] = {}
    type_ = _type(raw["type"], names, where, depth + 1, above + name, name, nested)
    metadata: dict[str, Any] = {MAPPING_ID: field_id}
    if nested:
        metadata[NESTED_IDS] = nested
    if names is not None:
        metadata[FILE_NAMES] = names.get(field_id, ())
    for kind, key in _DEFAULTS.items():
        if raw.get(kind) is not None:
            metadata[key] = default_value(raw[kind], raw["type"], type_, kind, column=above + name, where=where)
    if raw.get("doc"):
        metadata["comment"] = str(raw["doc"])
    return Field(name, type_, not raw.get("required", False), metadata)


def _type(
    raw: JsonType, names: Names | None, where: str, depth: int, column: str, path: str, nested: dict[str, int]
) -> DataType:
    """`path` leads from the nearest field to the type; `nested` takes the ids of elements, keys and values."""
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
