"""Where the clauses and expressions of a query begin and end; tells keywords from names that are spelled like them."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.sql.query.references import Join
from holdfast.sql.text import BEGINS_QUERY, Statement, TokenKind

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
_SIGNS = frozenset("+-*/%")
_TIMED = frozenset(("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"))
_UNITS = frozenset(
    ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "QUARTER")
)


def begins_query(statement: Statement, at: int) -> bool:
    """Whether a query begins at a word, or within the bracket there."""
    if statement.upper(at) == "(":
        return begins_query(statement, at + 1)
    return statement.upper(at) in BEGINS_QUERY and statement.upper(at + 1) not in (".", ",", ")", "=")


def begins_clause(statement: Statement, at: int) -> bool:
    """Whether a word begins a clause."""
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
    """Whether a word that may be a keyword or a name is a keyword."""
    before, after = statement.upper(at - 1), statement.upper(at + 1)
    if before in (".", "AS", ":") or after in (".", "="):
        return False
    if statement.upper(at) == "FROM" and before == "DISTINCT":
        return statement.upper(at - 2) not in ("IS", "NOT")
    return not (statement.upper(at) in ("MAP", "REDUCE", "INSERT") and after in ("(", "<", ",", ")", ""))


def is_set_operator(statement: Statement, at: int) -> bool:
    """Whether a word combines two queries, as UNION does."""
    if statement.upper(at) not in _SET_OPERATORS or not is_keyword(statement, at):
        return False
    if statement.upper(at) == "EXCEPT" and statement.upper(at + 1) == "(":
        return begins_query(statement, at + 2)
    return True


def join_of(kinds: list[str]) -> Join:
    """The join that some keywords mean."""
    if "SEMI" in kinds or "ANTI" in kinds:
        return Join.HALF
    for kind in ("LEFT", "RIGHT", "FULL"):
        if kind in kinds:
            return Join[kind]
    return Join.INNER


def sample_end(statement: Statement, at: int, last: int) -> int:
    """The end of the TABLESAMPLE that begins at a word; the same word where none begins."""
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


def value_end(statement: Statement, at: int, last: int) -> int:
    """The end of the expression that begins at a word and has no AND, OR or comparison."""
    while at < last:
        while statement.upper(at) in ("+", "-") and at < last:
            at += 1
        at = _operand_end(statement, at, last)
        if statement.upper(at) == "::":
            at = statement.after(at + 2) if statement.upper(at + 2) == "(" else at + 2
        if statement.upper(at) not in _SIGNS or at >= last:
            return at
        at += 1
    return at


def _operand_end(statement: Statement, at: int, last: int) -> int:
    upper = statement.upper(at)
    if upper == "INTERVAL":
        at = statement.after(at + 1)
        while at < last and statement.kind(at) is TokenKind.NAME and _is_unit(statement.upper(at)):
            at += 1
        return at
    if upper in _TIMED and statement.kind(at + 1) is TokenKind.TEXT:
        return at + 2
    if upper in (":", "{"):
        return at + 2
    if upper == "(":
        return statement.after(at)
    end = statement.name_end(at)
    if end == at:
        return at + 1
    return statement.after(end) if statement.upper(end) == "(" else end


def _is_unit(upper: str) -> bool:
    return upper == "TO" or upper.removesuffix("S") in _UNITS
