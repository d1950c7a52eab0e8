"""Values of PySpark that users hand to verbs: Columns, DataFrames, types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from pyspark.sql import Column, DataFrame
from pyspark.sql import types as spark

from holdfast.engines.spark.types import spark_to_struct
from holdfast.errors import Invalid
from holdfast.schema.constraints import CHAR_VARCHAR
from holdfast.schema.types import DataType, Struct


def is_column(value: object) -> TypeGuard[Column]:
    """Whether a value is a Column, of a classic session or of Connect."""
    return isinstance(value, Column)


def is_frame(value: object) -> TypeGuard[DataFrame]:
    """Whether a value is a DataFrame, of a classic session or of Connect."""
    return isinstance(value, DataFrame)


def length_of(value: object) -> int | None:
    """The length of a VarcharType; None for any other value."""
    return value.length if isinstance(value, spark.VarcharType) else None


def type_of(name: str, value: object) -> DataType | None:
    """The type of a column that a user gives as a Spark type; None for any other value."""
    if not isinstance(value, spark.DataType):
        return None
    return (
        spark_to_struct(spark.StructType([spark.StructField(name, value)]), where=f"the column {name}").fields[0].type
    )


def struct_of(value: object, where: str) -> Struct | None:
    """A StructType as a schema; None for any other value."""
    return spark_to_struct(value, where=where) if isinstance(value, spark.StructType) else None


def columns_of(fields: Iterable[spark.StructField]) -> Struct:
    """The columns of a new table; the limit of a VarcharType goes into the metadata of its column."""
    struct = spark.StructType([_unlimited(f) for f in fields])
    names = [name.lower() for name in struct.names]
    if twice := [name for name in names if names.count(name) > 1]:
        raise Invalid(f"there is more than one column {twice[0]}: rename one").named("COLUMN_ALREADY_EXISTS")
    return spark_to_struct(struct, where="the schema")


def _unlimited(f: spark.StructField) -> spark.StructField:
    length = length_of(f.dataType)
    if length is None:
        return f
    return spark.StructField(f.name, spark.StringType(), f.nullable, {**f.metadata, CHAR_VARCHAR: f"varchar({length})"})
