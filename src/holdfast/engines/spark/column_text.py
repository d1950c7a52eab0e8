"""Renders a Column as SQL text, as far as its private tree can be read.

A Column has no public tree. A Connect Column holds one in Python, a classic one behind its gateway object. Only this
module reads these private attributes. What it does not understand becomes a call that no parser knows, so that a
condition that cannot be read prunes nothing.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column

UNREADABLE = "holdfast_unreadable()"
_INFIX = {">", ">=", "<", "<=", "=", "==", "<=>", "and", "or", "+", "-", "*", "/", "%"}
_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ONE_CALENDAR_MS = (
    -2_177_452_800_000
)  # 1901: before, Spark moves Java's dates and times into its own calendar and zones


def sql_of(column: Column, *, bound: str | None = None) -> str:
    """SQL text that means what the Column means, with UNREADABLE in place of what was not understood.

    Columns of a certain DataFrame are qualified by `bound`; without it they are not understood.
    """
    held = vars(column)  # not getattr: a Column answers to any name, with one of its fields
    if "_expr" in held:
        return _connect(held["_expr"], bound)
    node = getattr(held.get("_jc"), "node", None)
    return _classic(node(), bound) if callable(node) else UNREADABLE


def is_bound(column: Column) -> bool:
    """Whether it holds columns of a certain DataFrame, which mean nothing in another; True where it cannot be told."""
    held = vars(column)
    if "_expr" in held:
        return _is_bound(held["_expr"])
    node = getattr(held.get("_jc"), "node", None)
    return "ExpressionColumnNode(" in str(node().toString()) if callable(node) else True


def _is_bound(node: Any) -> bool:
    if isinstance(node, list | tuple):
        return any(map(_is_bound, node))
    if type(node).__module__ != "pyspark.sql.connect.expressions":
        return False
    held = vars(node)
    return held.get("_plan_id") is not None or any(_is_bound(part) for part in held.values())


def _connect(node: Any, bound: str | None) -> str:
    held = vars(node)
    match type(node).__name__:
        case "UnresolvedFunction":
            return _call(str(held.get("_name")), held.get("_args", ()), partial(_connect, bound=bound))
        case "ColumnReference" if held.get("_plan_id") is None:
            return str(held["_unparsed_identifier"])
        case "ColumnReference" if bound is not None:
            parts = _PART.findall(held["_unparsed_identifier"])
            return ".".join(map(_quoted, (bound, *(quoted.replace("``", "`") or plain for quoted, plain in parts))))
        case "CastExpression" if held.get("_eval_mode") is None:
            type_ = held["_data_type"]
            return f"CAST({_connect(held['_expr'], bound)} AS {getattr(type_, 'simpleString', lambda: type_)()})"
        case "CaseWhen":
            return _case(held["_branches"], held["_else_value"], partial(_connect, bound=bound))
        case "SQLExpression":
            return f"({held['_expr']})"
        case "LiteralExpression":
            return _connect_literal(held.get("_value"), type(held.get("_dataType")).__name__)
        case _:
            return UNREADABLE


def _classic(node: Any, bound: str | None) -> str:
    match _simple(node):
        case "UnresolvedFunction":
            arguments = [node.arguments().apply(i) for i in range(node.arguments().size())]
            return _call(node.functionName(), arguments, partial(_classic, bound=bound))
        case "UnresolvedAttribute" if node.planId().isEmpty() and not node.isMetadataColumn():
            parts = node.nameParts()
            return ".".join(_quoted(parts.apply(i)) for i in range(parts.size()))
        case "ExpressionColumnNode" if bound is not None and _simple(node.expression()) == "AttributeReference":
            return f"{_quoted(bound)}.{_quoted(node.expression().name())}"
        case "Cast" if node.evalMode().isEmpty():
            return f"CAST({_classic(node.child(), bound)} AS {node.dataType().sql()})"
        case "CaseWhenOtherwise":
            branches = [node.branches().apply(i) for i in range(node.branches().size())]
            pairs = [(branch._1(), branch._2()) for branch in branches]
            otherwise = None if node.otherwise().isEmpty() else node.otherwise().get()
            return _case(pairs, otherwise, partial(_classic, bound=bound))
        case "SqlExpression":
            return f"({node.expression()})"
        case "Literal":
            return _classic_literal(node.value())
        case _:
            return UNREADABLE


def _call(name: str, arguments: Sequence[Any], render: Callable[[Any], str]) -> str:
    texts = [render(argument) for argument in arguments]
    match name.lower(), texts:
        case operator, [left, right] if operator in _INFIX:
            return f"({left} {'=' if operator == '==' else operator.upper()} {right})"
        case (("!" | "not"), [part]):
            return f"(NOT {part})"
        case "isnull", [part]:
            return f"({part} IS NULL)"
        case "isnotnull", [part]:
            return f"({part} IS NOT NULL)"
        case "in", [part, *values] if values:
            return f"({part} IN ({', '.join(values)}))"
        case (("like" | "startswith"), [left, right]):
            return f"({left} LIKE {right})" if name.lower() == "like" else f"startswith({left}, {right})"
        case _ if name.isidentifier():
            return f"{name}({', '.join(texts)})"
        case _:
            return UNREADABLE


def _case(branches: Sequence[tuple[Any, Any]], otherwise: Any, render: Callable[[Any], str]) -> str:
    whens = " ".join(f"WHEN {render(when)} THEN {render(then)}" for when, then in branches)
    return f"(CASE {whens}{'' if otherwise is None else f' ELSE {render(otherwise)}'} END)"


def _connect_literal(value: Any, type_name: str) -> str:
    match type_name, value:
        case "DateType", int():
            return f"DATE '{datetime.date(1970, 1, 1) + datetime.timedelta(days=value)}'"
        case "TimestampType", int():
            return _timestamp(value)
        case (("BooleanType" | "IntegerType" | "LongType" | "ShortType" | "ByteType" | "DoubleType"), _):
            return _plain(value)
        case (("StringType" | "DecimalType" | "NullType"), _):
            return _plain(value)
        case _:
            return UNREADABLE


def _classic_literal(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float | str | decimal.Decimal):
        return _plain(value)
    match str(value.getClass().getName()):
        case "java.time.LocalDate":
            return f"DATE '{value.toString()}'"
        case "java.sql.Date" if value.getTime() >= _ONE_CALENDAR_MS:
            return f"DATE '{value.toString()}'"
        case "java.sql.Timestamp" if value.getTime() >= _ONE_CALENDAR_MS:
            return _timestamp(value.getTime() // 1000 * 1_000_000 + value.getNanos() // 1000)
        case _:
            return UNREADABLE


def _timestamp(micros: int) -> str:
    return f"TIMESTAMP '{(_EPOCH + datetime.timedelta(microseconds=micros)).isoformat(sep=' ')}'"


def _plain(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return f"{value!r}D" if math.isfinite(value) else f"CAST('{value!r}' AS DOUBLE)"
        case decimal.Decimal():
            return f"{value:f}BD"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case _:
            return UNREADABLE


def _simple(thing: Any) -> str:
    return str(thing.getClass().getSimpleName())


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
