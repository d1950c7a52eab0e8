"""Where the parts of a query begin and end: keywords of Spark's SQL, told from names that are spelled like them."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.sql.query.references import BEGINS_QUERY, Join
from holdfast.sql.text import Statement

_SET_OPERATORS = frozenset(("UNION", "EXCEPT", "INTERSECT", "MINUS"))
_CLAUSES = frozenset(("WHERE", "HAVING", "LIMIT", "OFFSET", "SELECT", "QUALIFY", "|>", "INSERT", "MAP", "REDUCE"))
_BY_CLAUSES = frozenset(("GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"))
JOINS = frozenset(("JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL", "OUTER"))
NO_ALIAS = (
    _SET_OPERATORS
    | _CLAUSES
    | _BY_CLAUSES
    | JOINS
    | frozenset(("ON", "USING", "LATERAL", "PIVOT", "UNPIVOT", "TABLESAMPLE", "WINDOW", "WHEN", "SET", "FOR", "VALUES"))
)
RESHAPES = frozenset(("TABLESAMPLE", "PIVOT", "UNPIVOT", "|>", "MATCH_RECOGNIZE"))


def begins_query(statement: Statement, at: int) -> bool:
    """Whether a query begins at a word, or at the bracket there."""
    if statement.upper(at) == "(":
        return begins_query(statement, at + 1)
    return statement.upper(at) in BEGINS_QUERY and statement.upper(at + 1) not in (".", ",", ")", "=")


def begins_clause(statement: Statement, at: int) -> bool:
    """Whether a word ends the clause before it."""
    upper = statement.upper(at)
    if upper in _BY_CLAUSES:
        return statement.upper(at + 1) == "BY" and is_keyword(statement, at)
    return (upper in _CLAUSES or upper == "FROM") and is_keyword(statement, at)


def ends_relation(statement: Statement, at: int) -> bool:
    """Whether a word ends the condition of a join."""
    upper = statement.upper(at)
    if upper in (",", "LATERAL"):
        return True
    if upper in ("LEFT", "RIGHT") and statement.upper(at + 1) == "(":
        return False  # the functions
    return begins_clause(statement, at) or (upper in JOINS | {"WINDOW"} and is_keyword(statement, at))


def is_keyword(statement: Statement, at: int) -> bool:
    """Whether a word that may be a keyword is one, and no name."""
    before, after = statement.upper(at - 1), statement.upper(at + 1)
    if before in (".", "AS", ":") or after in (".", "="):
        return False
    if statement.upper(at) == "FROM" and before == "DISTINCT":
        return statement.upper(at - 2) not in ("IS", "NOT")
    return not (statement.upper(at) in ("MAP", "REDUCE", "INSERT") and after in ("(", "<", ",", ")", ""))


def is_set_operator(statement: Statement, at: int) -> bool:
    """Whether a word stands between two queries."""
    if statement.upper(at) not in _SET_OPERATORS or not is_keyword(statement, at):
        return False
    if statement.upper(at) == "EXCEPT" and statement.upper(at + 1) == "(":
        return begins_query(statement, at + 2)
    return True


def join_of(kinds: list[str]) -> Join:
    """The join that some keywords ask for."""
    if "SEMI" in kinds or "ANTI" in kinds:
        return Join.HALF
    for kind in ("LEFT", "RIGHT", "FULL"):
        if kind in kinds:
            return Join[kind]
    return Join.INNER


def sample_end(statement: Statement, at: int, last: int) -> int:
    """Where a sample of a table ends that begins at a word; the same place where none begins."""
    if statement.upper(at) != "TABLESAMPLE" or at >= last:
        return at
    at += 1
    while at < last and statement.upper(at) != "(":
        at += 1
    at = statement.after(at) if at < last else last
    return statement.after(at + 1) if statement.upper(at) == "REPEATABLE" else at


def stars(statement: Statement, first: int, last: int) -> Iterator[int]:
    """The stars of a list of columns."""
    at = first
    while at < last:
        if statement.upper(at) == "*" and statement.upper(at - 1) in ("SELECT", "DISTINCT", "ALL", ",", "."):
            yield at
        at = statement.after(at)
