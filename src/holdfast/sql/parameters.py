"""The values that come with a statement: `:name`, `?`, and placeholders of Python's formatting.

Spark gets a query together with its values. Where only a part of a statement is used, they are written into it.

1. A value written as a literal means what Spark takes the same value for.
2. A value without a literal is refused where a literal is needed; leaving out files never needs one.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyspark.sql import Column

from holdfast.engines.spark.column_text import UNREADABLE, sql_of
from holdfast.errors import Invalid
from holdfast.sql.text import Edit, Statement, TokenKind, applied


class Parameter(NamedTuple):
    """The value of a parameter, and how many words it takes up in the statement."""

    words: int
    value: object


@dataclass(frozen=True, slots=True)
class Parameters:
    """The arguments of `spark.sql` beside the text."""

    args: Mapping[str, object] | Sequence[object] | None = None
    fields: Mapping[str, object] = field(default_factory=dict)

    def edits(self, statement: Statement, first: int, last: int) -> list[Edit]:
        """Edits that write the values among some words as literals."""
        words = statement.words
        return [
            Edit(words[at].start, words[at + parameter.words - 1].end, literal(parameter.value))
            for at in range(first, last)
            if (parameter := self.at(statement, at)) is not None
        ]

    def written(self, statement: Statement, first: int, last: int) -> str:
        """A slice of the statement with the values written into it."""
        if first >= last:
            return ""
        words = statement.words
        edits = self.edits(statement, first, last)
        return applied(statement.text, edits, start=words[first].start, end=words[last - 1].end)

    def at(self, statement: Statement, at: int) -> Parameter | None:
        """The parameter that begins at a word."""
        word = statement.words[at]
        if word.kind is TokenKind.FIELD:
            name = word.text[1:-1]
            return Parameter(1, self.fields[name]) if name in self.fields else None
        if word.upper == "?" and isinstance(self.args, Sequence):
            number = sum(w.upper == "?" for w in statement.words[:at])
            return Parameter(1, self.args[number]) if number < len(self.args) else None
        if word.upper == ":" and isinstance(self.args, Mapping) and not _extracts(statement, at):
            name = statement.words[at + 1].text if at + 1 < len(statement.words) else ""
            return Parameter(2, self.args[name]) if name in self.args else None
        return None

    def within(self, statement: Statement, first: int, last: int) -> Mapping[str, object] | list[object] | None:
        """The arguments for the words `first` to `last` alone."""
        if self.args is None or isinstance(self.args, Mapping):
            return self.args
        before = sum(w.upper == "?" for w in statement.words[:first])
        count = sum(w.upper == "?" for w in statement.words[first:last])
        return list(self.args[before : before + count])


def _extracts(statement: Statement, at: int) -> bool:
    """Whether a colon takes a field out of the value right before it."""
    before = statement.words[at - 1] if at else None
    if before is None or before.end != statement.words[at].start:
        return False
    return before.is_name or before.upper in (")", "]")


def literal(value: object) -> str:
    """A value as a literal of Spark's SQL."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return f"{value!r}D" if math.isfinite(value) else f"double('{value}')"
        case decimal.Decimal():
            return f"{value:f}BD"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case datetime.datetime():
            return f"TIMESTAMP '{value.astimezone(datetime.UTC).isoformat(sep=' ')}'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case datetime.timedelta():
            return f"make_dt_interval({value.days}, 0, 0, {value.seconds + value.microseconds / 1e6:.6f})"
        case bytes() | bytearray():
            return f"X'{value.hex()}'"
        case list() | tuple():
            return f"array({', '.join(map(literal, value))})"
        case dict():
            return f"map({', '.join(literal(part) for pair in value.items() for part in pair)})"
        case Column():
            text = sql_of(value)
            if UNREADABLE not in text:
                return f"({text})"
    raise Invalid(f"a {type(value).__name__} cannot be written into this statement: give it as a literal in the text")
