"""Converts columns of a table to the columns that a data file stores: physical names, field ids, and no void columns.

1. Every column of a file is nullable, whatever the table says today, except map keys and the two parts of a variant.
2. Fields of a struct are matched by position: the input has the table's columns, under any names.
3. Values are never converted: an Arrow type that is not another encoding of the column's own is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid
from holdfast.parquet.pages.footer import stored_type
from holdfast.schema.arrow import VARIANT, arrow_type, is_list
from holdfast.schema.types import Array, DataType, Field, Map, Primitive, Struct
from holdfast.storage.arrays import list_span, null_mask, plain_array

VOID = Primitive("void")
NESTED_IDS = "delta.columnMapping.nested.ids"  # ids of list elements, map keys and map values, by dotted path
_PARQUET_ID = b"PARQUET:field_id"


def stored_fields(fields: Iterable[Field]) -> list[pa.Field]:
    """The fields of a file for these columns; void ones have none."""
    return [_stored_field(f) for f in fields if f.type != VOID]


def fitted(array: pa.Array, type_: DataType, target: pa.DataType, *, column: str) -> pa.Array:
    """The same values as an array of the file's type."""
    array = plain_array(array)
    if array.type == target and not pa.types.is_nested(target):
        return array
    match type_:
        case Struct(fields) if pa.types.is_struct(array.type) and array.type.num_fields == len(fields):
            return _structs(array, fields, target, column)
        case Array(element) if is_list(array.type):
            lists = array if pa.types.is_list(array.type) else array.cast(pa.list_(array.type.value_field))
            offsets, start, length = list_span(lists)
            inside = lists.values.slice(start, length)
            values = fitted(inside, element, target.value_type, column=f"{column}.element")
            return pa.ListArray.from_arrays(offsets, values, type=target, mask=null_mask(lists))
        case Map(key, value) if pa.types.is_map(array.type):
            offsets, start, length = list_span(array)
            keys = fitted(array.keys.slice(start, length), key, target.key_type, column=f"{column}.key")
            items = fitted(array.items.slice(start, length), value, target.item_type, column=f"{column}.value")
            return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=null_mask(array))
        case Primitive("variant") if pa.types.is_struct(array.type) and _is_variant(array.type):
            parts = [
                pc.fill_null(plain_array(array.field(name)).cast(pa.binary()), b"") for name in ("value", "metadata")
            ]
            return pa.StructArray.from_arrays(parts, fields=list(target.fields), mask=null_mask(array))
    if _is_same_encoded(array.type, target):
        return array.cast(target)
    raise Invalid(
        f"the column {column} comes as {array.type}, but the table has {arrow_type(type_)}: cast it before writing"
    )


def _stored_field(f: Field) -> pa.Field:
    nested: Mapping[str, Any] = f.metadata.get(NESTED_IDS) or {}
    return stored_field(f.physical_name, _stored_type(f.type, f.physical_name, nested), f.field_id)


def _stored_type(type_: DataType, path: str, nested: Mapping[str, Any]) -> pa.DataType:
    """`nested` has the ids of list elements, map keys and map values by `path`, which begins at the nearest field."""

    def inner(name: str, inside: DataType, *, nullable: bool = True) -> pa.Field:
        below = f"{path}.{name}"
        return stored_field(name, _stored_type(inside, below, nested), nested.get(below), nullable=nullable)

    match type_:
        case Struct(fields):
            kept = stored_fields(fields)
            if not kept:
                raise Invalid(f"the struct {path} has no field that a Parquet file can hold: add one, or drop it")
            return pa.struct(kept)
        case Array(element):
            return pa.list_(inner("element", element))
        case Map(key, value):
            return pa.map_(inner("key", key, nullable=False), inner("value", value))
        case Primitive("void"):
            raise Invalid(f"{path} is void inside a list or map, which a Parquet file cannot hold: give it a type")
        case Primitive("variant"):
            return VARIANT
        case _:
            return arrow_type(type_)


def stored_field(name: str, type_: pa.DataType, field_id: int | None, *, nullable: bool = True) -> pa.Field:
    """A field of a file with its field id."""
    metadata = None if field_id is None else {_PARQUET_ID: str(field_id).encode()}
    return pa.field(name, type_, nullable=nullable, metadata=metadata)


def _structs(array: pa.Array, fields: tuple[Field, ...], target: pa.StructType, column: str) -> pa.Array:
    kept = [(i, f) for i, f in enumerate(fields) if f.type != VOID]
    children = [
        fitted(array.field(i), f.type, target.field(at).type, column=f"{column}.{f.name}")
        for at, (i, f) in enumerate(kept)
    ]
    return pa.StructArray.from_arrays(children, fields=list(target.fields), mask=null_mask(array))


def _is_variant(type_: pa.DataType) -> bool:
    names = {field.name: stored_type(field.type) for field in type_.fields}
    return len(names) == 2 and all(_is_same_encoded(names.get(part), pa.binary()) for part in ("value", "metadata"))


def _is_same_encoded(source: pa.DataType | None, target: pa.DataType) -> bool:
    """Whether an Arrow type is another encoding of the same values."""
    types = pa.types
    if source is None:
        return False
    if source == target or types.is_null(source):
        return True
    if types.is_timestamp(source) and types.is_timestamp(target):
        return bool(source.unit == target.unit and (source.tz is None) == (target.tz is None))
    if types.is_string(target):
        return bool(types.is_large_string(source) or types.is_string_view(source))
    if types.is_binary(target):
        return bool(types.is_large_binary(source) or types.is_binary_view(source))
    return False
