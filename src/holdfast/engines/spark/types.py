"""Converts column types to and from Spark's types.

1. What is asked of a data file has no metadata: Spark reads meaning into some of it (defaults), the format does not.
2. What a user sees keeps what describes the column (its comment) and drops what is the log's own business.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from holdfast.errors import Unsupported
from holdfast.schema.constraints import quoted
from holdfast.schema.types import Array, DataType, Field, Map, Primitive, Struct, parse_schema, struct_to_json

_LOG_KEYS = ("delta.", "holdfast.", "CURRENT_DEFAULT", "EXISTS_DEFAULT", "__COLLATIONS")


def named(name: str) -> Column:
    """A top-level column, whatever characters its name has."""
    return F.col(quoted(name))


def spark_struct(fields: Iterable[Field]) -> spark.StructType:
    """The Spark type of these fields."""
    return spark.StructType.fromJson(struct_to_json(Struct(tuple(_shown(f) for f in fields))))


def spark_type(type_: DataType) -> spark.DataType:
    """The Spark type of a column."""
    return spark_struct([Field("x", type_)]).fields[0].dataType


def spark_to_struct(type_: spark.StructType, *, where: str = "the DataFrame") -> Struct:
    """The schema of a Spark struct, metadata included; `where` names it in errors."""
    return parse_schema(type_.json(), where=where)


def solid(f: Field) -> Field | None:
    """A field as data files hold it, without the voids inside of it; None where nothing is left."""
    type_ = _solid(f.type)
    return None if type_ is None else f if type_ == f.type else replace(f, type=type_)


def _solid(type_: DataType) -> DataType | None:
    match type_:
        case Primitive("void"):
            return None
        case Struct(fields):
            kept = tuple(inner for inner in map(solid, fields) if inner is not None)
            return Struct(kept) if kept else None
        case Array(element):
            inside = _solid(element)
            return None if inside is None else replace(type_, element=inside)
        case Map(key, value):
            keys, values = _solid(key), _solid(value)
            return None if keys is None or values is None else replace(type_, key=keys, value=values)
        case _:
            return type_


def with_voids(value: Column, type_: DataType) -> Column:
    """A value as data files hold it as one of the whole type: its voids are null, and what is beside them stays."""
    if _solid(type_) is None:
        return F.lit(None).cast(spark_type(type_))
    match type_:
        case Struct(fields) if _solid(type_) != type_:
            parts = [with_voids(value.getField(inner.name), inner.type).alias(inner.name) for inner in fields]
            return F.when(value.isNotNull(), F.struct(*parts))
        case Array(element) if _solid(element) != element:
            return F.transform(value, lambda each: with_voids(each, element))
        case Map(key, inside) if _solid(type_) != type_:
            keyed = F.transform_keys(value, lambda k, v: with_voids(k, key))
            return F.transform_values(keyed, lambda k, v: with_voids(v, inside))
        case _:
            return value


def has_time(type_: DataType) -> bool:
    """Whether a time of day stands anywhere in a type: Spark knows it only when told to."""
    return _has("time", type_)


def refuse_time(session: SparkSession, fields: Iterable[Field]) -> None:
    """Say what to do about columns of a type that this session does not know."""
    for f in fields:
        if has_time(f.type) and session.conf.get("spark.sql.timeType.enabled", "false") != "true":
            raise Unsupported(
                f"the column {f.name} is a time of day, which this Spark session does not know: set "
                "spark.sql.timeType.enabled=true, leave the column out with columns=, or read the table with toArrow()"
            )


def _has(name: str, type_: DataType) -> bool:
    match type_:
        case Primitive(primitive):
            return primitive == name
        case Struct(fields):
            return any(_has(name, f.type) for f in fields)
        case Array(element, _):
            return _has(name, element)
        case Map(key, value, _):
            return _has(name, key) or _has(name, value)
        case _:
            return False


def _shown(f: Field) -> Field:
    metadata: dict[str, Any] = {k: v for k, v in f.metadata.items() if not k.startswith(_LOG_KEYS)}
    return Field(f.name, _shown_type(f.type), f.nullable, metadata)


def _shown_type(type_: DataType) -> DataType:
    match type_:
        case Struct(fields):
            return Struct(tuple(_shown(f) for f in fields))
        case Array(element, contains_null):
            return Array(_shown_type(element), contains_null)
        case Map(key, value, value_contains_null):
            return Map(_shown_type(key), _shown_type(value), value_contains_null)
        case Primitive("time"):
            return Primitive("time(6)")  # as Spark spells one of microseconds
        case _:
            return type_
