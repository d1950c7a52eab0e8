"""Converts conditions between users, plans and Spark.

A user gives SQL text or a Column. The part that is understood prunes files; Spark applies all of it.

1. A literal reaches Spark as the value that its predicate has: neither Java's calendar nor the zone of the session, of
   the JVM or of this process has a say.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from holdfast.engines.spark.column_text import sql_of
from holdfast.plan.scan.request import Condition, refuse_unknown
from holdfast.predicate.parse import parse, unknown_names
from holdfast.predicate.records import (
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Op,
    Or,
    Predicate,
    StartsWith,
    Value,
)
from holdfast.schema.types import Struct

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_OPERATORS: dict[Op, Callable[[Column, Column], Column]] = {
    Op.EQ: lambda a, b: a == b,
    Op.NE: lambda a, b: a != b,
    Op.LT: lambda a, b: a < b,
    Op.LE: lambda a, b: a <= b,
    Op.GT: lambda a, b: a > b,
    Op.GE: lambda a, b: a >= b,
    Op.SAME: lambda a, b: a.eqNullSafe(b),
}


def condition(spark: SparkSession, where: str | Column, schema: Struct) -> Condition:
    """What a user's condition says, as far as it can be read; `schema` has every column it may name."""
    text = where if isinstance(where, str) else sql_of(where)
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    refuse_unknown(unknown_names(text, schema), schema)
    return Condition(where, text, parse(text, schema, zone=zone))


def below(predicate: Predicate, column_of: Callable[[str], Column]) -> Column:
    """A predicate over top-level columns as a Column; `column_of` gives each its place in the frame."""
    match predicate:
        case And(parts):
            return reduce(and_, (below(p, column_of) for p in parts))
        case Or(parts):
            return reduce(or_, (below(p, column_of) for p in parts))
        case Not(part):
            return ~below(part, column_of)
        case Compare(op, (name,), value):
            return _OPERATORS[op](column_of(name), literal(value))
        case In((name,), values):
            return column_of(name).isin([literal(value) for value in values])
        case IsNull((name,)):
            return column_of(name).isNull()
        case StartsWith((name,), prefix):
            return column_of(name).startswith(prefix)
        case Constant(value):
            return F.lit(value).cast("boolean")
        case _:
            raise AssertionError(f"{predicate} is not a comparison of top-level columns with literals")


def literal(value: Value) -> Column:
    """A value of a predicate as a Column of the same meaning, which Spark folds into a literal and pushes down.

    `lit` makes a date and a timestamp Java's, whose calendar has other days before 1582, whose zones have other offsets
    before 1900 and whose parser wants years of four digits: moments go as what Spark counts them in.
    """
    match value:
        case datetime.datetime(tzinfo=None):
            return F.lit(value.isoformat(sep=" ")).cast("timestamp_ntz")
        case datetime.datetime():
            return F.timestamp_micros(F.lit((value - _EPOCH) // _MICROSECOND))
        case datetime.date():
            return F.date_from_unix_date(F.lit((value - _EPOCH.date()).days))
        case decimal.Decimal():
            return F.lit(str(value)).cast(f"decimal(38,{max(0, -int(value.as_tuple().exponent))})")
        case _:
            return F.lit(value)
