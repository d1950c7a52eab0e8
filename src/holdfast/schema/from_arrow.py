"""Converts Arrow schemas to table schemas.

1. Types that a table stores alike become one: dictionaries, views, large and fixed-size variants, and timestamps of any
   unit, which a table keeps in microseconds. A struct that is marked as a variant becomes one.
2. A type that no table has (unsigned 64-bit integers, durations, times of day, unions) is refused by column and type.
"""

from __future__ import annotations

import pyarrow as pa

from holdfast.errors import Invalid
from holdfast.schema.arrow import is_list, is_variant
from holdfast.schema.types import Array, DataType, Decimal, Field, Map, Primitive, Struct

_PRIMITIVES: tuple[tuple[pa.DataType, str], ...] = (
    (pa.string(), "string"),
    (pa.large_string(), "string"),
    (pa.string_view(), "string"),
    (pa.binary(), "binary"),
    (pa.large_binary(), "binary"),
    (pa.binary_view(), "binary"),
    (pa.int64(), "long"),
    (pa.uint32(), "long"),
    (pa.int32(), "integer"),
    (pa.uint16(), "integer"),
    (pa.int16(), "short"),
    (pa.uint8(), "short"),
    (pa.int8(), "byte"),
    (pa.float16(), "float"),
    (pa.float32(), "float"),
    (pa.float64(), "double"),
    (pa.bool_(), "boolean"),
    (pa.date32(), "date"),
    (pa.date64(), "date"),
    (pa.null(), "void"),
)


def struct_of(schema: pa.Schema) -> Struct:
    """The table schema of Arrow columns."""
    return Struct(tuple(_field(f, f.name) for f in schema))


def _field(f: pa.Field, where: str) -> Field:
    return Field(f.name, _type(f.type, where), f.nullable)


def _type(type_: pa.DataType, where: str) -> DataType:
    if isinstance(type_, pa.BaseExtensionType):
        return _type(type_.storage_type, where)
    if pa.types.is_dictionary(type_):
        return _type(type_.value_type, where)
    if is_variant(type_):
        return Primitive("variant")
    if pa.types.is_struct(type_):
        return Struct(tuple(_field(f, f"{where}.{f.name}") for f in type_.fields))
    if pa.types.is_map(type_):
        key, value = _type(type_.key_type, f"{where}.key"), _type(type_.item_type, f"{where}.value")
        return Map(key, value, type_.item_field.nullable)
    if pa.types.is_timestamp(type_):
        return Primitive("timestamp" if type_.tz is not None else "timestamp_ntz")
    if pa.types.is_decimal(type_) and 0 <= type_.scale <= type_.precision <= 38:
        return Decimal(type_.precision, type_.scale)
    if pa.types.is_fixed_size_binary(type_):
        return Primitive("binary")
    if is_list(type_):
        return Array(_type(type_.value_type, f"{where}.element"), type_.value_field.nullable)
    for arrow, name in _PRIMITIVES:
        if type_ == arrow:
            return Primitive(name)
    raise Invalid(f"the column {where} is {type_}, which no table type holds: cast it")
