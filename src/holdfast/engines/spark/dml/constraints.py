"""Converts rows to a table's columns and checks its constraints, in the Spark job that writes them.

Both are column expressions over the user's DataFrame, so nothing is computed before the write, and nothing twice.

1. The result has the table's columns, in the table's order, with the table's types.
2. A row that breaks a constraint stops the job; the error names the constraint and shows the row's values.
3. Only rows that would be written are checked: the check stays above the user's own joins and filters.
4. A value that does not fit its column raises, whatever the session says of ANSI mode.
5. Numbers of identity columns are distinct and beyond the mark; what was reached is known when the job is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from holdfast.engines.spark.dml.stored import refuse_shadowed
from holdfast.engines.spark.types import named, spark_type
from holdfast.errors import ConstraintViolated, Invalid, LimitReached, TableError
from holdfast.schema.constraints import Demand
from holdfast.schema.enforce import (
    Cast,
    Default,
    Elements,
    Fields,
    Fit,
    FittedField,
    Generated,
    GivenValue,
    How,
    MapEntries,
    Null,
    Numbered,
    Same,
)
from holdfast.schema.identity import IdentityColumn, overflow
from holdfast.schema.literal_text import literal_text
from holdfast.schema.show import type_text
from holdfast.schema.types import Array, DataType, Field, Map, Primitive, Struct

MANY_TASKS = 1 << 16

_MARK = "holdfast refused a row: "
_SHOWN_COLUMNS = 20
_SHOWN_CHARACTERS = 100
_ROW_BITS = 33  # monotonically_increasing_id: the row's number in its task below, the task's above


@dataclass(frozen=True)
class PreparedFrame:
    """Rows ready to be written, and what will be known of them once they are."""

    frame: DataFrame
    identities: tuple[IdentityColumn, ...] = ()
    observed: Observation | None = None

    def marks(self) -> Mapping[str, int]:
        """The furthest number handed out per identity column; only after the frame's one job is done."""
        if self.observed is None:
            return {}
        observed = self.observed.get
        reached = {identity.name: observed[_mark_name(i)] for i, identity in enumerate(self.identities)}
        return {name: mark for name, mark in reached.items() if mark is not None}


def prepare(
    df: DataFrame,
    fit: Fit,
    demands: Sequence[Demand] = (),
    *,
    tasks: int = MANY_TASKS,
    carry: Sequence[str] = (),
) -> PreparedFrame:
    """The rows of a DataFrame as rows of the table, checked as they pass; columns to `carry` come along behind.

    `tasks` is at least the number of tasks that read the DataFrame: the less, the smaller the gaps in identity columns.
    """
    refuse_shadowed(df.sparkSession, [p.how.expression for p in fit.parts if isinstance(p.how, Default | Generated)])
    numbered = tuple(p.how.identity for p in fit.parts if isinstance(p.how, Numbered))
    given = [_made(p, tasks).alias(p.field.name) for p in fit.parts if not isinstance(p.how, Generated)]
    behind = [named(name) for name in carry]
    frame = df.select(*given, *behind)
    if len(given) < len(fit.parts):
        frame = frame.select(*(_computed(p).alias(p.field.name) for p in fit.parts), *behind)
    observed = None
    if numbered:
        observed = Observation()
        furthest = [
            (F.max if identity.step > 0 else F.min)(named(identity.name)).alias(_mark_name(i))
            for i, identity in enumerate(numbered)
        ]
        frame = frame.observe(observed, *furthest)
    return PreparedFrame(checked(frame, [p.field for p in fit.parts], demands), numbered, observed)


def checked(
    df: DataFrame, fields: Sequence[Field], demands: Sequence[Demand], *, only: Column | None = None
) -> DataFrame:
    """The same rows; the first that breaks a demand stops the job. `fields` are the DataFrame's columns.

    With `only`, rows of which it is not true may be as they are.
    """
    if not demands:
        return df
    refuse_shadowed(df.sparkSession, [d.stored for d in demands if d.stored is not None])
    holds = [F.coalesce(F.expr(d.sql).cast("boolean"), F.lit(False)) for d in demands]
    if only is not None:
        holds = [~only | held for held in holds]
    broken = F.lit("")
    for d, held in reversed(list(zip(demands, holds, strict=True))):
        broken = F.when(~held, F.lit(_title(d))).otherwise(broken)
    used = {name for d in demands for name in d.columns}
    shown = sorted(fields, key=lambda f: f.name not in used)[:_SHOWN_COLUMNS]
    message = F.concat(F.lit(_MARK), broken, _row_text(shown))
    # One expression that is not deterministic: Spark neither splits it nor moves it below joins and filters, where it
    # would meet rows that are never written.
    never = F.spark_partition_id() < 0
    return df.where(
        F.when(never, F.lit(False)).when(reduce(and_, holds), F.lit(True)).otherwise(F.raise_error(message))
    )


def violation_of(error: BaseException) -> TableError | None:
    """What a failed job says of its rows, if it failed because a check of this module stopped it."""
    for text in texts_of(error):
        at = text.find(_MARK)
        if at < 0:
            continue
        try:
            refusal, end = json.JSONDecoder().raw_decode(text, at + len(_MARK))
            return _error_of(refusal, text, end)
        except (ValueError, KeyError, TypeError):  # somebody else's words after all
            continue
    return None


def _error_of(refusal: Mapping[str, Any], text: str, end: int) -> TableError:
    if "overflow" in refusal:
        return LimitReached(str(refusal["overflow"]))
    if "too_many" in refusal:
        return Invalid(
            f"more than {refusal['tasks']} tasks number the column {refusal['too_many']}: coalesce the DataFrame first"
        )
    if "misfit" in refusal:
        return Invalid(
            f"a value of the column {refusal['misfit']} does not fit {refusal['type']}: cast it before writing"
        )
    row = json.JSONDecoder().raw_decode(text, end)[0]
    shown = ", ".join(f"{name}={'null' if value is None else value}" for name, value in row.items())
    return ConstraintViolated(
        f"the {refusal['broken']} ({refusal['expression']}) is broken by the row {shown}; nothing was written",
        constraint=str(refusal["name"]),
        row=shown,
    )


def _made(part: FittedField, tasks: int) -> Column:
    """A column of the table from the incoming columns."""
    match part.how:
        case Numbered(identity):
            return _numbers(identity, tasks)
        case _:
            value = F.lit(None) if part.source is None else named(part.source)
            return converted(part.how, value, part.field, part.field.name)


def _computed(part: FittedField) -> Column:
    """A column of the table, once the columns it may be generated from are there."""
    if isinstance(part.how, Generated):
        return F.expr(part.how.expression.sql).cast(spark_type(part.field.type))
    return named(part.field.name)


def converted(how: How, value: Column, field: Field, where: str) -> Column:
    """A value as a column of the table takes it."""
    match how:
        case Same():
            return value
        case Cast(to, lossless):
            return value.cast(spark_type(to)) if lossless else _converted(value, to, where)
        case Fields(parts):
            return F.when(value.isNotNull(), F.struct(*_fields(parts, value, where)))
        case Elements(each):
            assert isinstance(field.type, Array), "elements make a list"
            inner = Field("element", field.type.element)
            return F.transform(value, lambda x: converted(each, x, inner, f"{where}.element"))
        case MapEntries(key, item):
            assert isinstance(field.type, Map), "entries make a map"
            keys, items = Field("key", field.type.key), Field("value", field.type.value)
            result = value
            if not isinstance(key, Same):
                result = F.transform_keys(result, lambda k, _: converted(key, k, keys, f"{where}.key"))
            if not isinstance(item, Same):
                result = F.transform_values(result, lambda _, v: converted(item, v, items, f"{where}.value"))
            return result
        case Null():
            return F.lit(None).cast(spark_type(field.type))
        case Default(expression):
            return _converted(F.expr(expression.sql), field.type, where)
        case GivenValue(value):
            return F.expr(literal_text(value, field.type)).cast(spark_type(field.type))
        case Generated() | Numbered():
            raise AssertionError("only a column of the table is generated or numbered")


def _converted(value: Column, to: DataType, where: str) -> Column:
    """A value as another type; one that does not fit stops the job, whatever the session says of ANSI mode."""
    converted = value.try_cast(spark_type(to))
    fits = value.isNull() | converted.isNotNull()
    return F.when(fits, converted).otherwise(_refusal({"misfit": where, "type": type_text(to)}))


def _fields(parts: Sequence[FittedField], value: Column, where: str) -> Iterator[Column]:
    for part in parts:
        inner = F.lit(None) if part.source is None else value.getField(part.source)
        yield converted(part.how, inner, part.field, f"{where}.{part.field.name}").alias(part.field.name)


def _numbers(identity: IdentityColumn, tasks: int) -> Column:
    """Distinct numbers beyond the mark: tasks take turns, so a task's n-th row is about `n * tasks` steps away."""
    row = F.monotonically_increasing_id().bitwiseAND((1 << _ROW_BITS) - 1)
    turn = F.when(F.spark_partition_id() < tasks, F.spark_partition_id().cast("bigint"))
    unique = row * F.lit(tasks).cast("bigint") + F.coalesce(turn, _refusal({"too_many": identity.name, "tasks": tasks}))
    step, first = F.lit(identity.step).cast("bigint"), F.lit(identity.next_value).cast("bigint")
    number = F.try_add(first, F.try_multiply(unique, step))
    return F.coalesce(number, _refusal({"overflow": str(overflow(identity))}))


def _refusal(refusal: Mapping[str, str | int]) -> Column:
    return F.raise_error(F.lit(_MARK + json.dumps(refusal)))


def _mark_name(position: int) -> str:
    return f"mark_{position}"


def _title(d: Demand) -> str:
    return json.dumps({"broken": d.title, "name": d.name, "expression": d.expression})


def _row_text(fields: Sequence[Field]) -> Column:
    """A row's values as a JSON object of texts, each cut short."""
    texts = [F.left(_text(f), F.lit(_SHOWN_CHARACTERS)).alias(f.name) for f in fields]
    return F.to_json(F.struct(*texts), {"ignoreNullFields": "false"})


def _text(f: Field) -> Column:
    value = named(f.name)
    match f.type:
        case Struct() | Array() | Map() | Primitive("variant"):
            return F.to_json(value)
        case Primitive("binary"):
            return F.hex(value)
        case _:
            return value.cast("string")


def texts_of(error: BaseException | None) -> Iterator[str]:
    """Everything an error and what caused it say."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield str(error)
        error = error.__cause__ or error.__context__
