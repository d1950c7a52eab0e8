"""Parses what SET and VALUES assign to columns.

1. A name is read in Spark's order: a column behind the table's alias, then a path from a column down. A column whose
   own name has dots is meant last, where no path is.
2. A value is SQL text or a Column. A number or a bool stands for its literal, and None for NULL.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from holdfast.errors import Invalid, NotACondition
from holdfast.plan.dml.change import Set
from holdfast.schema.identity import identity_of
from holdfast.schema.types import Struct
from holdfast.verbs.define.columns import path_of
from holdfast.verbs.open.spark_values import is_column

if TYPE_CHECKING:
    from pyspark.sql import Column

Value: TypeAlias = "str | Column"
Sets: TypeAlias = "Mapping[str, str | Column | int | float | None]"


def stated_sets(sets: object, of: str) -> Mapping[str, Value]:
    """Columns and their values as a user gives them to `of`, each value as SQL text or a Column; none for None."""
    if sets is None:
        return {}
    if not isinstance(sets, Mapping):
        raise NotACondition(
            f"{of} takes columns and their values as a dict such as {{'n': 'n + 1'}}, not {type(sets).__name__}",
            given=type(sets).__name__,
        )
    return {_name(name, of): _value(value, of) for name, value in sets.items()}


def assignments(
    sets: Mapping[str, Value], schema: Struct, alias: str | None, *, complete: bool = True
) -> tuple[Set, ...]:
    """What is set, by the paths of columns as the table spells them; `complete`: values lack no field of theirs."""
    assigned = [Set(path_of(schema, name.strip(), alias), value, complete) for name, value in sets.items()]
    for one in assigned:
        clash = [o for o in assigned if o is not one and o.path[: len(one.path)] == one.path]
        if clash:
            wrong = Invalid(f"{'.'.join(clash[0].path)} and {'.'.join(one.path)} are both set: set one of them")
            raise wrong.named("DELTA_CONFLICT_SET_COLUMN")
        top = schema.find(one.path[0])
        if top is not None and identity_of(top) is not None:
            wrong = Invalid(f"the column {top.name} is numbered by the table itself and cannot be set")
            raise wrong.named("DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED")
    return tuple(assigned)


def _name(name: object, of: str) -> str:
    if not isinstance(name, str):
        kind = type(name).__name__
        raise NotACondition(f"{of} names columns by text, not by {kind}: {reprlib.repr(name)}", given=kind)
    return name


def _value(value: object, of: str) -> Value:
    if isinstance(value, str):
        if not value.strip():
            raise Invalid(f"{of} has an empty text as a value: write SQL, such as '''' for an empty string")
        return value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return repr(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"CAST('{value!r}' AS DOUBLE)"
    if is_column(value):
        return value
    kind = type(value).__name__
    raise NotACondition(
        f"{of} takes values as SQL text, Columns, numbers or None, not {kind}: {reprlib.repr(value)}. Write it as SQL "
        "such as \"DATE '2024-01-01'\", or as a Column such as F.lit(value)",
        given=kind,
    )
