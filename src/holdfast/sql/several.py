"""FROM ... INSERT ... SELECT ..., with one or several inserts, as statements of one insert each.

1. Each is the text of its insert with the WITH of the whole before it and the FROM of the whole before its query; the
   rest of the text is as it was written.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import Unsupported
from holdfast.sql.cursor import Cursor
from holdfast.sql.statements.insert import parse_insert
from holdfast.sql.text import Statement


def inserts_in(statement: Statement) -> Sequence[tuple[tuple[str, ...], str]]:
    """The table and the text of each insert; none where the statement is none of the kind."""
    begun = 0
    while begun < len(statement.words) and statement.upper(begun) not in ("SELECT", "FROM", "INSERT", "VALUES"):
        begun = statement.after(begun)
    starts = _starts(statement, begun) if statement.upper(begun) == "FROM" else []
    places = [at for at, word in enumerate(statement.words) if word.upper == "?"]
    if starts and places and (len(starts) > 1 or places[0] < starts[0]):
        raise Unsupported("inserts that share a FROM take parameters by name, as :name, and not as ?")
    made = []
    for first, last in zip(starts, (*starts[1:], len(statement.words)), strict=False):
        asked = parse_insert(Cursor(statement, first, last))
        head, query = statement.slice(first, asked.query[0]), statement.slice(*asked.query)
        texts = (statement.slice(0, begun), head, statement.slice(begun, starts[0]), query)
        made.append((asked.table, " ".join(filter(None, texts))))
    return made


def _starts(statement: Statement, at: int) -> list[int]:
    """Where inserts begin outside of brackets."""
    found = []
    while at < len(statement.words):
        if statement.upper(at) == "INSERT" and statement.upper(at + 1) in ("INTO", "OVERWRITE"):
            found.append(at)
        at = statement.after(at)
    return found
