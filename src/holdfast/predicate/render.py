"""Renders predicates as SQL text for explain, errors and logs.

1. The text is for people; parsing it may give another predicate.
2. A long list of values is cut, with the number of values.
"""

from __future__ import annotations

import datetime
import re

from holdfast.predicate.records import (
    And,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Not,
    Opaque,
    Or,
    Predicate,
    StartsWith,
)

LISTED_VALUES = 5
_PLAIN = re.compile(r"[A-Za-z_]\w*")


def render(predicate: Predicate) -> str:
    """The predicate as SQL text."""
    match predicate:
        case And(parts):
            return " AND ".join(_inner(p) for p in parts) or "true"
        case Or(parts):
            return " OR ".join(_inner(p) for p in parts) or "false"
        case Not(IsNull(column)):
            return f"{column_text(column)} IS NOT NULL"
        case Not(part):
            return f"NOT ({render(part)})"
        case Compare(op, column, value):
            return f"{column_text(column)} {op.value} {value_text(value)}"
        case In(column, values):
            shown = [value_text(v) for v in values[:LISTED_VALUES]]
            if len(values) > LISTED_VALUES:
                shown.append(f"… {len(values)} values")
            return f"{column_text(column)} IN ({', '.join(shown)})"
        case IsNull(column):
            return f"{column_text(column)} IS NULL"
        case StartsWith(column, prefix):
            return f"{column_text(column)} LIKE {value_text(prefix + '%')}"
        case Constant(value):
            return "NULL" if value is None else str(value).lower()
        case Opaque(text):
            return text


def column_text(column: Column) -> str:
    """A column path in SQL, quoted where a name needs it."""
    return ".".join(name if _PLAIN.fullmatch(name) else f"`{name.replace('`', '``')}`" for name in column)


def value_text(value: object) -> str:
    """A value, roughly as SQL."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return "'" + value.replace("'", "\\'") + "'"
        case bytes():
            return f"X'{value.hex().upper()}'"
        case datetime.datetime():
            zone = "" if value.tzinfo is None else "Z"
            return f"'{value.replace(tzinfo=None).isoformat(' ')}{zone}'"
        case datetime.date():
            return f"'{value.isoformat()}'"
        case _:
            return str(value)


def _inner(predicate: Predicate) -> str:
    text = render(predicate)
    return f"({text})" if isinstance(predicate, And | Or) else text
