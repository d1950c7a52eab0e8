"""Conditions, types and rows that users hand to verbs, which may be values of PySpark.

1. Every verb that takes a condition takes it through `stated` or one of its siblings, before anything is read: what is
   neither text nor a Column, a bool above all, never becomes text.
2. PySpark is loaded only where a value is of no other kind that the verb takes.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeGuard

from holdfast.engines.spark.column_text import UNREADABLE, sql_of
from holdfast.errors import Invalid, NotACondition
from holdfast.schema.types import DataType, Struct

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructField


def stated(given: object, of: str) -> str | Column:
    """A condition as a user gives it; `of` is the verb or argument that takes it, for the message."""
    return given if is_column(given) else _text(given, of, "a Column such as F.col('id') == 5")


def stated_or_none(given: object, of: str) -> str | Column | None:
    """A condition that may be left out."""
    return None if given is None else stated(given, of)


def stated_without_spark(given: object, of: str) -> str | None:
    """A condition that may be left out, and that no Spark evaluates."""
    return None if given is None else _text(given, of)


def stated_in_text(given: object, of: str) -> str:
    """A condition of which only the text is of use: it is stored, or evaluated elsewhere."""
    where = stated(given, of)
    if isinstance(where, str):
        return where
    text = sql_of(where)
    if UNREADABLE in text or "\\" in text:  # what a backslash means in a text is up to the session
        raise Invalid(f"the Column {where} cannot be told as SQL text, which {of} needs: write the condition as text")
    return text


def is_column(value: object) -> TypeGuard[Column]:
    """Whether a value is a Column."""
    if value is None or isinstance(value, str | int | float):
        return False
    from holdfast.engines.spark.values import is_column

    return is_column(value)


def spark_type(name: str, value: object) -> DataType | None:
    """The type of a column that a user gives as a Spark type; None for any other value."""
    from holdfast.engines.spark.values import type_of

    return type_of(name, value)


def varchar_length(value: object) -> int | None:
    """The length of Spark's VarcharType; None for any other value."""
    from holdfast.engines.spark.values import length_of

    return length_of(value)


def spark_schema(value: object, where: str) -> Struct | None:
    """A schema that a user gives as a StructType; None for any other value."""
    from holdfast.engines.spark.values import struct_of

    return struct_of(value, where)


def spark_columns(fields: Iterable[StructField]) -> Struct:
    """The columns of a new table that a user gives as fields of Spark's."""
    from holdfast.engines.spark.values import columns_of

    return columns_of(fields)


def _text(given: object, of: str, *others: str) -> str:
    if not isinstance(given, str):
        kind, kinds = type(given).__name__, " or ".join(("SQL text such as 'id = 5'", *others))
        raise NotACondition(f"{of} takes a condition as {kinds}, not {kind}: {reprlib.repr(given)}", given=kind)
    if not given.strip():
        raise Invalid(f"the condition of {of} is empty: leave it out, or write what it means")
    return given
