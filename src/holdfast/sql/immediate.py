"""What statements hold as text: those that are executed, names between the brackets of IDENTIFIER, scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import Invalid, Unsupported
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor
from holdfast.sql.parameters import literal
from holdfast.sql.query.references import Span, name_end, names
from holdfast.sql.text import Edit, Statement, TokenKind, applied, statement_of

_BEFORE_TABLES = frozenset(("FROM", "JOIN", "INTO", "UPDATE", "TABLE", "OVERWRITE", "USING"))


@dataclass(frozen=True, slots=True)
class Immediate:
    """EXECUTE IMMEDIATE text [INTO variables] [USING value [AS name], ...]."""

    text: Span
    is_kept: bool  # INTO: what it answers becomes the values of variables
    values: tuple[tuple[Span, str | None], ...] = ()


def parse_immediate(cursor: Cursor) -> Immediate:
    cursor.expect("EXECUTE", "IMMEDIATE")
    text = cursor.until("INTO", "USING")
    is_kept = cursor.take("INTO")
    if is_kept:
        cursor.until("USING")
    values = []
    if cursor.take("USING"):
        last = cursor.last - cursor.at
        bracketed = cursor.sees("(") and cursor.statement.after(cursor.at) == cursor.at + last
        for each in cursor.listed(cursor.group() if bracketed else cursor.rest()):
            value = each.until("AS")
            values.append((value, each.identifier() if each.take("AS") else None))
            each.end()
    cursor.end()
    return Immediate(text, is_kept, tuple(values))


def said(
    asking: StatementContext, statement: Statement, asked: Immediate
) -> tuple[str, Mapping[str, Any] | Sequence[Any] | None]:
    """The statement that the text is, and its parameters."""
    text = asking.value(statement, asked.text)
    if not isinstance(text, str):
        raise Invalid(f"{statement.slice(*asked.text)} is no text that could be executed")
    given = [(name, asking.value(statement, value)) for value, name in asked.values]
    if all(name is None for name, _ in given):
        return text, [value for _, value in given] or None
    return text, {name: value for name, value in given if name is not None}


def identified(asking: StatementContext, statement: Statement) -> Statement:
    """The statement with the text of a name in each IDENTIFIER, where an expression or a parameter stands for it."""
    edits = []
    for at, word in enumerate(statement.words):
        inside = (at + 2, statement.closes.get(at + 1, 0))
        if word.upper != "IDENTIFIER" or inside[1] <= inside[0]:
            continue
        is_text = inside[1] - inside[0] == 1 and statement.kind(inside[0]) is TokenKind.TEXT
        if is_text or any(statement.upper(i) == "?" for i in range(*inside)):
            continue
        value = asking.value(statement, inside)
        if isinstance(value, str):
            first, last = statement.words[inside[0]], statement.words[inside[1] - 1]
            edits.append(Edit(first.start, last.end, literal(value)))
    if not edits:
        return statement
    found = statement_of(applied(statement.text, edits), fields=bool(asking.given.fields))
    assert found is not None, "a string in the place of an expression leaves every bracket with its partner"
    return found


def refuse_script(asking: StatementContext, statement: Statement) -> None:
    """Refuse a script that names tables of ours: Spark runs the statements in it, and cannot read them."""
    for at in range(1, len(statement.words)):
        end = name_end(statement, at) if statement.upper(at - 1) in _BEFORE_TABLES else at
        if end > at and asking.table(names(statement, at, end)) is not None:
            raise Unsupported(
                f"a script is run by Spark, which cannot read the Delta table {statement.slice(at, end)} in it: call "
                "spark.sql for each of its statements"
            )
