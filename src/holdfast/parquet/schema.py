"""The table schema of Parquet files that belong to no table yet, from their footers.

1. A file that Spark wrote has its schema in the footer; that of any other file follows from its Parquet types.
2. Every column is nullable, because later files may have nulls.
3. The schema of several files has the columns of all; one name with two types is refused, with the file's name.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import Invalid
from holdfast.schema.evolve import overwrite
from holdfast.schema.from_arrow import struct_of
from holdfast.schema.show import type_text
from holdfast.schema.types import Array, DataType, Field, Map, Struct, parse_schema

_SPARK = b"org.apache.spark.sql.parquet.row.metadata"


def file_schema(footer: pq.FileMetaData, *, where: str) -> Struct:
    """The columns of a file; `where` names it in errors."""
    spark_schema = (footer.metadata or {}).get(_SPARK)
    if spark_schema is not None:
        return overwrite(parse_schema(spark_schema.decode(), where=where))
    schema = footer.schema.to_arrow_schema().remove_metadata()
    if any(footer.schema.column(n).physical_type == "INT96" for n in range(len(footer.schema))):
        schema = pa.schema([f.with_type(_instants(f.type)) for f in schema])
    try:
        return overwrite(struct_of(schema))
    except Invalid as error:
        raise Invalid(f"{where}: {error}") from error


def joined(one: Struct, other: Struct, *, where: str, path: str = "") -> Struct:
    """The columns of two schemas, those of the first one first; `where` names the file of the second in errors."""
    fields = {f.name.lower(): f for f in one.fields}
    for f in other.fields:
        existing = fields.get(f.name.lower())
        spelled = f"{path}{f.name}"
        fields[f.name.lower()] = (
            f if existing is None else replace(existing, type=_both(existing.type, f.type, where, spelled))
        )
    return Struct(tuple(fields.values()))


def _both(one: DataType, other: DataType, where: str, path: str) -> DataType:
    match one, other:
        case Struct(), Struct():
            return joined(one, other, where=where, path=f"{path}.")
        case Array(first), Array(second):
            return Array(_both(first, second, where, f"{path}.element"))
        case Map(key, value), Map(other_key, other_value):
            return Map(_both(key, other_key, where, f"{path}.key"), _both(value, other_value, where, f"{path}.value"))
    if one != other:
        raise Invalid(
            f"{where} has {path} as {type_text(other)}, and another file has it as {type_text(one)}: one table has one "
            "type for a column; rewrite the file, or take it elsewhere"
        )
    return one


def _instants(type_: pa.DataType) -> pa.DataType:
    """Types in which timestamps without a zone are instants: INT96 has no zone, and means UTC."""
    if pa.types.is_timestamp(type_) and type_.tz is None and type_.unit == "ns":
        return pa.timestamp("us", tz="UTC")
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(_instants(f.type)) for f in type_.fields])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_instants(type_.value_type)))
    if pa.types.is_map(type_):
        return pa.map_(_instants(type_.key_type), _instants(type_.item_type))
    return type_


def with_partitions(data: Struct, partitions: Struct) -> Struct:
    """The columns of files, then the partition columns; a column that is both has its partition's type."""
    names = {f.name.lower() for f in partitions.fields}
    kept = tuple(f for f in data.fields if f.name.lower() not in names)
    return Struct((*kept, *(Field(f.name, f.type) for f in partitions.fields)))
