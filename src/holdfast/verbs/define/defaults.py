"""Checks and sets column defaults: SQL text that each write evaluates for rows that bring nothing for a column.

Rows that are there never change by a default. A default that cannot work is refused when it is set.

1. A default stands alone: it names no column, queries no rows, and calls only what `schema.functions` allows.
2. Only columns of the table have one, and none whose values the table makes itself. A variant's is null.
3. A literal default is a value of the column's type, and null only where the column may be null.
"""

from __future__ import annotations

from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from holdfast.errors import Invalid
from holdfast.predicate.parse import parse
from holdfast.predicate.records import Constant, IsNull
from holdfast.schema.constraints import quoted
from holdfast.schema.enforce import DEFAULT, GENERATION, default_of
from holdfast.schema.identity import identity_of
from holdfast.schema.mapping import all_fields
from holdfast.schema.show import type_text
from holdfast.schema.types import Field, Primitive, Struct

_NOT_ALONE = (
    (exp.Column, "it names {}, and a default stands alone"),
    (exp.Query, "it asks for rows ({})"),
    (exp.AggFunc, "it aggregates rows ({})"),
    (exp.Window, "it looks at other rows ({})"),
)


def with_default(f: Field, expression: str | None) -> Field:
    """A column of a table with a default, or with none."""
    metadata = {k: v for k, v in f.metadata.items() if k != DEFAULT}
    if expression is None:
        return replace(f, metadata=metadata)
    if not isinstance(expression, str):
        raise Invalid(f"the default of {f.name} is SQL text, not {type(expression).__name__}: write {expression!r}")
    _refuse(f, expression)
    column = replace(f, metadata={**metadata, DEFAULT: expression})
    default_of(column)
    return column


def refuse_defaults(schema: Struct) -> None:
    """Refuse what a schema brings along as defaults and cannot be."""
    for f in schema.fields:
        if inner := next((i.name for i in all_fields(f.type) if DEFAULT in i.metadata), None):
            raise Invalid(f"the field {inner} inside of {f.name} cannot have a default: only columns of the table do")
        if DEFAULT in f.metadata:
            with_default(f, f.metadata[DEFAULT])


def _refuse(f: Field, expression: str) -> None:
    what = f"the column {f.name} cannot have the default {expression}"
    if GENERATION in f.metadata or identity_of(f) is not None:
        raise Invalid(f"{what}: the table makes its values itself")
    try:
        tree = sqlglot.parse_one(expression, dialect="spark")
    except (SqlglotError, RecursionError, ValueError) as error:
        raise Invalid(f"{what}: it cannot be read as SQL; text stands in single quotes") from error
    for kind, reason in _NOT_ALONE:
        if (node := tree.find(kind)) is not None:
            raise Invalid(f"{what}: {reason.format(node.sql('spark'))}")
    meant = parse(f"{quoted(f.name)} <=> ({expression})", Struct((f,)))
    if isinstance(meant, IsNull) and not f.nullable:
        raise Invalid(f"{what}: it must not be null")
    if isinstance(meant, Constant):
        raise Invalid(f"{what}: no {type_text(f.type)} is that")
    if f.type == Primitive("variant") and not isinstance(meant, IsNull):
        raise Invalid(f"{what}: that of a variant is null")
