"""The Arrow types of column types, the same for both engines and for statistics.

1. A timestamp is microseconds in UTC; a timestamp without zone is microseconds with none.
2. A variant is the struct of its two binaries, marked as PySpark marks it.
3. Void has Arrow's null type.
"""

from __future__ import annotations

import pyarrow as pa

from holdfast.schema.types import Array, DataType, Decimal, Map, Primitive, Struct

_MARK = {b"variant": b"true"}  # by which PySpark knows a variant from any other struct
VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata=_MARK),
    ]
)

_PRIMITIVES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
    "time": pa.time64("ns"),  # only in Iceberg; of microseconds, in the unit that Spark takes from Arrow
    "variant": VARIANT,
}


def arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type that holds values of a column type."""
    match type_:
        case Primitive(name):
            return _PRIMITIVES[name]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Array(element, contains_null):
            return pa.list_(pa.field("element", arrow_type(element), nullable=contains_null))
        case Map(key, value, value_contains_null):
            return pa.map_(arrow_type(key), pa.field("value", arrow_type(value), nullable=value_contains_null))
        case Struct():
            return pa.struct(list(arrow_schema(type_)))


def is_variant(type_: pa.DataType) -> bool:
    """Whether an Arrow struct is marked as a variant."""
    if not pa.types.is_struct(type_) or {f.name for f in type_.fields} != {"value", "metadata"}:
        return False
    return _MARK.items() <= (type_.field("metadata").metadata or {}).items()


def is_list(type_: pa.DataType) -> bool:
    """Whether a type is one of Arrow's lists; maps are not."""
    types = pa.types
    kinds = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    return any(is_kind(type_) for is_kind in kinds)


def arrow_schema(schema: Struct) -> pa.Schema:
    """The Arrow schema of a table's columns, under their logical names."""
    return pa.schema([pa.field(f.name, arrow_type(f.type), nullable=f.nullable) for f in schema.fields])
