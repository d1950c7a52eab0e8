"""Columns of Avro records, as the schema of their writer says.

1. A field nobody asked for is stepped over; a record is looked into whatever its name is.
2. A schema has at most `LIMIT_FIELDS` fields in at most `LIMIT_DEPTH` levels, and null records never make more than
   `LIMIT_CELLS` values per byte.
3. No item of a list has no bytes: a type that would allow it is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from holdfast.errors import Unsupported
from holdfast.iceberg.avro_values import (
    AnyLists,
    Blobs,
    Choice,
    Column,
    Fixed,
    NumberLists,
    Numbers,
    PairLists,
    Step,
    booleans,
    floats,
    maybe,
)
from holdfast.iceberg.avro_window import Malformed

FIELD_ID = b"field-id"
LIMIT_FIELDS, LIMIT_DEPTH, LIMIT_CELLS = 4096, 16, 16
_FEW_CELLS = 1 << 16
_LEAST_BYTES = {"float": 4, "double": 8} | dict.fromkeys(
    ("int", "long", "string", "bytes", "boolean", "array", "map"), 1
)


def columns_of(schema: Mapping[str, Any], wanted: Collection[str] | None, data: bytes, where: str) -> Column:
    """The columns of a file's records, to be read from a window of its bytes."""
    return _Schema(data, where).column(schema, wanted, 0)


class _Schema:
    """Makes columns for the types of a schema."""

    def __init__(self, data: bytes, where: str) -> None:
        self._data, self._where = data, where
        self._fields = 0

    def column(self, schema: Any, wanted: Collection[str] | None, depth: int, *, kept: bool = True) -> Column:
        """The column of a type; one that is not kept is only ever stepped over."""
        if depth > LIMIT_DEPTH:
            raise Malformed(f"its schema has more than {LIMIT_DEPTH} levels")
        if not isinstance(schema, list):
            return self._plain(schema, None, wanted, depth + 1, kept)
        others = [one for one in schema if one != "null"]
        if len(schema) != 2 or len(others) != 1 or isinstance(others[0], list):
            raise Unsupported(f"{self._where} has a field that is one of {len(schema)} types, which no manifest has")
        choice = Choice(there=2, absent=0) if schema[0] == "null" else Choice(there=0, absent=2)
        return self._plain(others[0], choice, wanted, depth + 1, kept)

    def _plain(
        self, schema: Any, choice: Choice | None, wanted: Collection[str] | None, depth: int, kept: bool
    ) -> Column:
        kind = schema.get("type") if isinstance(schema, dict) else schema
        data = self._data
        match kind:
            case dict():
                return self._plain(kind, choice, wanted, self._deeper(depth), kept)
            case list() if choice is None:
                return self.column(kind, wanted, depth, kept=kept)
            case "int" | "long":
                return Numbers(data, choice, bits=_bits(kind))
            case "string" | "bytes":
                return Blobs(data, choice, pa.string() if kind == "string" else pa.binary())
            case "boolean":
                return Fixed(data, choice, 1, booleans)
            case "float" | "double":
                width = 4 if kind == "float" else 8
                return Fixed(data, choice, width, floats(width))
            case "fixed":
                return Fixed(data, choice, _size(schema))
            case "record":
                return _Record(data, choice, self._members(schema, wanted, depth))
            case "array":
                return self._array(_inside(schema, "items"), choice, depth, kept)
            case "map":
                pair = [{"name": "key", "type": "string"}, {"name": "value", "type": _inside(schema, "values")}]
                return AnyLists(data, choice, _Record(data, None, self._members({"fields": pair}, None, depth)))
            case _:
                raise Unsupported(f"{self._where} has a field of type {kind!r}, which no manifest has")

    def _deeper(self, depth: int) -> int:
        if depth > LIMIT_DEPTH:
            raise Malformed(f"its schema has more than {LIMIT_DEPTH} levels")
        return depth + 1

    def _members(self, schema: Any, wanted: Collection[str] | None, depth: int) -> list[_Member]:
        fields = schema.get("fields") if isinstance(schema, dict) else None
        if not isinstance(fields, list) or not all(_is_field(f) for f in fields):
            raise Malformed("its schema has a record without fields, or a field without name and type")
        self._fields += len(fields)
        if self._fields > LIMIT_FIELDS:
            raise Malformed(f"its schema has more than {LIMIT_FIELDS} fields")
        members = []
        for f in fields:
            kept = _is_wanted(f, wanted)
            inside = None if wanted is None or f["name"] in wanted else wanted
            members.append(_Member(f, self.column(f["type"], inside, depth, kept=kept), kept))
        return members

    def _array(self, items: Any, choice: Choice | None, depth: int, kept: bool) -> Column:
        if isinstance(items, dict) and items.get("type") == "record" and isinstance(items.get("fields"), list):
            fields = [(f.get("name"), f.get("type")) for f in items["fields"] if isinstance(f, dict)]
            if fields == [("key", "int"), ("value", "long")]:
                return NumberLists(self._data, choice, 2, kept=kept)
            if fields == [("key", "int"), ("value", "bytes")]:
                return PairLists(self._data, choice)
        if items == "int" or items == "long":
            return NumberLists(self._data, choice, 1, bits=_bits(items), kept=kept)
        if not _least_bytes(items, depth):
            raise Unsupported(f"{self._where} has a list of values without bytes, which no manifest has")
        return AnyLists(self._data, choice, self.column(items, None, depth))


def _bits(kind: str) -> int:
    return 32 if kind == "int" else 64


def _is_field(field: Any) -> bool:
    number = field.get("field-id") if isinstance(field, dict) else None
    return (
        isinstance(field, dict)
        and isinstance(field.get("name"), str)
        and "type" in field
        and (number is None or isinstance(number, int))
    )


def _inside(schema: Any, name: str) -> Any:
    if not isinstance(schema, dict) or name not in schema:
        raise Malformed("its schema has a list or a map that does not say of what")
    return schema[name]


def _size(schema: Any) -> int:
    size = schema.get("size") if isinstance(schema, dict) else None
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 31:
        raise Malformed(f"its schema has a fixed type of size {size!r}")
    return size


def _is_wanted(field: Mapping[str, Any], wanted: Collection[str] | None) -> bool:
    """Records are looked into, whatever their names, those that may be null too, as BigQuery has them."""
    inner = field["type"]
    if isinstance(inner, list):
        inner = next((one for one in inner if one != "null"), None)
    return wanted is None or field["name"] in wanted or (isinstance(inner, dict) and inner.get("type") == "record")


def _least_bytes(schema: Any, depth: int) -> int:
    """How many bytes a value of a type has at least."""
    if depth > LIMIT_DEPTH:
        raise Malformed(f"its schema has more than {LIMIT_DEPTH} levels")
    if isinstance(schema, list):
        return 1
    kind = schema.get("type") if isinstance(schema, dict) else schema
    match kind:
        case dict() | list():
            return _least_bytes(kind, depth + 1)
        case "fixed":
            return _size(schema)
        case "record":
            fields = schema.get("fields") if isinstance(schema, dict) else None
            return sum(_least_bytes(f["type"], depth + 1) for f in fields or () if _is_field(f))
        case str():
            return _LEAST_BYTES.get(kind, 0)
        case _:
            return 0


@dataclass(frozen=True, slots=True)
class _Member:
    """A field of a record, and whether its values are kept."""

    field: Mapping[str, Any]
    column: Column
    kept: bool


class _Record:
    """Records: a column per field."""

    def __init__(self, data: bytes, choice: Choice | None, members: list[_Member]) -> None:
        self._members = members
        self._present: list[bool] = []
        self._cells = _FEW_CELLS + LIMIT_CELLS * len(data)  # that null records may still make
        steps = [member.column.read for member in members]
        present = self._present.append

        def read(at: int) -> int:
            for step in steps:
                at = step(at)
            present(True)
            return at

        self.read: Step = maybe(data, choice, read, self.null)

    def null(self) -> None:
        self._cells -= 1 + len(self._members)
        if self._cells < 0:
            raise Malformed("its null records have more fields than it has bytes")
        for member in self._members:
            member.column.null()
        self._present.append(False)

    def made(self, count: int) -> pa.Array:
        kept = [member for member in self._members if member.kept]
        if not kept:
            return pa.Array.from_buffers(pa.struct([]), count, [None])
        arrays = [member.column.made(count) for member in kept]
        fields = [_field(m.field["name"], m.field.get("field-id"), a.type) for m, a in zip(kept, arrays, strict=True)]
        absent = ~np.array(self._present, np.bool_)
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(absent) if absent.any() else None)


@lru_cache(maxsize=4096)
def _field(name: str, field_id: int | None, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, metadata=None if field_id is None else {FIELD_ID: str(field_id).encode()})
