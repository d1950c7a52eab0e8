"""Builds the layout of Avro records from the schema of their writer.

1. A field that is not wanted is skipped; a record is decoded whatever its name, for the wanted fields inside it.
2. A schema has at most `LIMIT_FIELDS` fields in at most `LIMIT_DEPTH` levels, and at most `LIMIT_EMPTY` types whose
   values have no bytes (records without fields, and null). Items of lists always have bytes.
3. A named type may be referred to by its name once it was defined, as Avro's own writers do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from holdfast.errors import Unsupported
from holdfast.formats.iceberg.avro.layouts import (
    Blobs,
    Booleans,
    FixedWidth,
    Floats,
    Layout,
    Lists,
    Member,
    Nullable,
    Nulls,
    Record,
    WholeNumbers,
)
from holdfast.formats.iceberg.avro.window import Malformed

LIMIT_FIELDS, LIMIT_DEPTH, LIMIT_EMPTY = 4096, 16, 16


def record_layout(schema: object, wanted: Collection[str] | None, where: str) -> Record:
    """The layout of a file's records."""
    layout = _LayoutBuilder(where).layout(schema, wanted, 0)
    if not isinstance(layout, Record):
        raise Malformed("its schema is no record")
    return layout


class _LayoutBuilder:
    """Builds the layouts of a schema's types."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._types: dict[str, object] = {}
        self._fields = self._empty = 0

    def layout(self, schema: object, wanted: Collection[str] | None, depth: int) -> Layout:
        if depth > LIMIT_DEPTH:
            raise Malformed(f"its schema has more than {LIMIT_DEPTH} levels")
        if isinstance(schema, list):
            return self._union(schema, wanted, depth)
        kind = schema.get("type") if isinstance(schema, dict) else schema
        match kind:
            case dict() | list():
                return self.layout(kind, wanted, depth + 1)
            case "int" | "long":
                return WholeNumbers(32 if kind == "int" else 64)
            case "string" | "bytes":
                return Blobs(pa.string() if kind == "string" else pa.binary())
            case "boolean":
                return Booleans()
            case "float" | "double":
                return Floats(4 if kind == "float" else 8)
            case "null":
                self._count_empty()
                return Nulls()
            case "fixed":
                self._define(schema)
                return FixedWidth(_size(schema))
            case "record":
                self._define(schema)
                return self._record(_required(schema, "fields"), wanted, depth)
            case "array":
                return self._list(_required(schema, "items"), depth)
            case "map":
                pair = [{"name": "key", "type": "string"}, {"name": "value", "type": _required(schema, "values")}]
                return self._list({"type": "record", "fields": pair}, depth)
            case str() if kind in self._types:
                return self.layout(self._types[kind], wanted, depth + 1)
            case _:
                raise Unsupported(f"{self._where} has a field of type {kind!r}, which no manifest has")

    def _union(self, schema: list[object], wanted: Collection[str] | None, depth: int) -> Layout:
        others = [one for one in schema if one != "null"]
        if len(schema) != 2 or len(others) != 1 or isinstance(others[0], list):
            raise Unsupported(f"{self._where} has a field that is one of {len(schema)} types, which no manifest has")
        inner = self.layout(others[0], wanted, depth + 1)
        if isinstance(inner, Nullable):
            raise Malformed("its schema has a choice within a choice")
        return (
            Nullable(inner, value_branch=2, null_branch=0)
            if schema[0] == "null"
            else Nullable(inner, value_branch=0, null_branch=2)
        )

    def _record(self, fields: object, wanted: Collection[str] | None, depth: int) -> Record:
        if not isinstance(fields, list) or not all(map(_is_field, fields)):
            raise Malformed("its schema has a record without fields, or a field without name and type")
        if not fields:
            self._count_empty()
        self._fields += len(fields)
        if self._fields > LIMIT_FIELDS:
            raise Malformed(f"its schema has more than {LIMIT_FIELDS} fields")
        if len({f["name"] for f in fields}) < len(fields):
            raise Malformed("its schema has a record with two fields of one name")
        return Record([self._member(f, wanted, depth) for f in fields])

    def _member(self, field: Mapping[str, Any], wanted: Collection[str] | None, depth: int) -> Member:
        """A field; a record is kept even if it is not wanted, also a nullable one, as BigQuery writes them."""
        is_wanted = wanted is None or field["name"] in wanted
        layout = self.layout(field["type"], None if is_wanted else wanted, depth + 1)
        inner = layout.inner if isinstance(layout, Nullable) else layout
        field_id = field.get("field-id")
        encoded = None if field_id is None else str(field_id).encode()
        return Member(field["name"], encoded, layout, is_wanted or isinstance(inner, Record))

    def _list(self, items: object, depth: int) -> Lists:
        inner = self.layout(items, None, depth + 1)
        if not inner.least:
            raise Unsupported(f"{self._where} has a list of values without bytes, which no manifest has")
        return Lists(inner)

    def _count_empty(self) -> None:
        self._empty += 1
        if self._empty > LIMIT_EMPTY:
            raise Malformed(f"its schema has more than {LIMIT_EMPTY} types without bytes")

    def _define(self, schema: object) -> None:
        if isinstance(schema, dict) and isinstance(name := schema.get("name"), str):
            self._types[name] = self._types[f"{schema.get('namespace')}.{name}"] = schema


def _is_field(field: object) -> bool:
    number = field.get("field-id") if isinstance(field, dict) else None
    return (
        isinstance(field, dict)
        and isinstance(field.get("name"), str)
        and "type" in field
        and (number is None or (isinstance(number, int) and not isinstance(number, bool)))
    )


def _required(schema: object, name: str) -> object:
    if not isinstance(schema, dict) or name not in schema:
        raise Malformed("its schema has a record, a list or a map that does not say of what")
    return schema[name]


def _size(schema: object) -> int:
    size = schema.get("size") if isinstance(schema, dict) else None
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size < 1 << 31:
        raise Malformed(f"its schema has a fixed type of size {size!r}")
    return size
