"""EXECUTE IMMEDIATE: a statement that another statement holds as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.errors import Invalid
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor
from holdfast.sql.text import Span


@dataclass(frozen=True, slots=True)
class Immediate:
    """EXECUTE IMMEDIATE text [INTO variables] [USING value [AS name], ...]."""

    text: Span
    has_into: bool  # the answer becomes the values of variables
    values: tuple[tuple[Span, str | None], ...] = ()


def parse_immediate(cursor: Cursor) -> Immediate:
    cursor.expect("EXECUTE", "IMMEDIATE")
    text = cursor.until("INTO", "USING")
    has_into = cursor.take("INTO")
    if has_into:
        cursor.until("USING")
    values = []
    if cursor.take("USING"):
        is_bracketed = cursor.sees("(") and cursor.statement.after(cursor.at) == cursor.last
        for item in cursor.listed(cursor.group() if is_bracketed else cursor.rest()):
            value = item.until("AS")
            values.append((value, item.identifier() if item.take("AS") else None))
            item.end()
    cursor.end()
    return Immediate(text, has_into, tuple(values))


def immediate_text(
    context: StatementContext, command: Immediate
) -> tuple[str, Mapping[str, object] | Sequence[object] | None]:
    """The statement that the text is, and its parameters."""
    text = context.value(command.text)
    if not isinstance(text, str):
        raise Invalid(f"{context.statement.slice(*command.text)} is no text that could be executed")
    arguments = [(name, context.value(value)) for value, name in command.values]
    if all(name is None for name, _ in arguments):
        return text, [value for _, value in arguments] or None
    return text, {name: value for name, value in arguments if name is not None}
