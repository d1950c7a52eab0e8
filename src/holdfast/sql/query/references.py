"""Which tables a query names, and where.

These are the values that the walk through a query finds, and what is read of single names and expressions.

1. Every reference is a span of words that holds a name, or a call of a function that reads a table, and the version
   asked for; an alias is not part of it.
2. A block is one SELECT with its FROM and WHERE. Each relation of its FROM is listed, in order, whoever provides it.
3. A body is a query as a whole: blocks between set operators. Relations that are queries, or names that WITH gives to
   one, know their bodies.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from holdfast.sql.text import Statement, TokenKind

Span: TypeAlias = tuple[int, int]  # words, the last not included

BEGINS_QUERY = frozenset(("SELECT", "WITH", "FROM", "VALUES", "TABLE"))
_SIGNS = frozenset("+-*/%")


class Join(Enum):
    """How a relation is joined to those before it."""

    FIRST = "the first, or after a comma"
    INNER = "inner or cross"
    LEFT = "those before stay"
    RIGHT = "this one stays"
    FULL = "both stay"
    HALF = "those before stay or go; this one only decides"


@dataclass(frozen=True, slots=True)
class VersionClause:
    """The version a reference asks for: the words of an expression."""

    is_version: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Reference:
    """A table that is named."""

    span: Span
    parts: tuple[str, ...]
    when: VersionClause | None = None
    suffix: str | None = None  # a version after `@`
    arguments: Span | None = None  # of a function that reads the changes of a table
    alias: str | None = None  # the user's own
    aliased: int = 0  # the word before which an alias would stand

    @property
    def called(self) -> str:
        """The name that qualifies its columns."""
        return self.alias or self.parts[-1]


@dataclass(frozen=True, slots=True)
class Relation:
    """Something in a FROM clause."""

    reference: Reference | None
    called: str | None
    join: Join
    on: Span | None = None
    merges: bool = False  # NATURAL or USING: columns of one name become one
    columns: tuple[str, ...] = ()  # the names that its alias gives to columns
    body: Body | None = None  # of a query


@dataclass(frozen=True, slots=True)
class QueryBlock:
    """One SELECT, or relations between brackets."""

    span: Span
    relations: tuple[Relation, ...]
    where: Span | None
    is_plain: bool  # no sample or pivot stands between the tables and the condition
    stars: tuple[int, ...] = ()  # in its list of columns
    select: Span | None = None  # the list of columns; None: all there are
    has_views: bool = False  # LATERAL VIEW adds columns
    passes: bool = False  # each row that comes out is of rows that go in with the same values, and of all of those


@dataclass(frozen=True, slots=True)
class Body:
    """A query as a whole."""

    span: Span
    branches: tuple[QueryBlock | Body | None, ...]  # between set operators; None for what is no SELECT
    columns: tuple[str, ...] = ()  # the names that WITH gives to them
    passes: bool = False  # all rows of its branches count, not only some


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """What a query is made of, as far as tables are concerned."""

    blocks: tuple[QueryBlock, ...]
    loose: tuple[Reference, ...] = ()  # after TABLE: in no block
    body: Body | None = None
    shut: frozenset[Span] = frozenset()  # bodies that may be read in places which the walk does not know

    @property
    def references(self) -> tuple[Reference, ...]:
        within = (r.reference for block in self.blocks for r in block.relations if r.reference is not None)
        return tuple(sorted((*within, *self.loose), key=lambda r: r.span))


def name_end(statement: Statement, at: int) -> int:
    """Where a dotted name that begins at a word ends; the same place where none begins."""
    words, end = statement.words, at
    while end < len(words) and words[end].is_name:
        end += 1
        if statement.upper(end) != "." or end + 1 >= len(words) or not words[end + 1].is_name:
            return end
        end += 1
    return end


def names(statement: Statement, first: int, last: int) -> tuple[str, ...]:
    """The parts of a dotted name."""
    return tuple(w.name for w in statement.words[first:last] if w.is_name)


def value_end(statement: Statement, at: int, last: int) -> int:
    """Where an expression without AND, OR and comparisons ends that begins at a word."""
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
    if upper in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ") and statement.kind(at + 1) is TokenKind.TEXT:
        return at + 2
    if upper in (":", "{"):
        return at + 2
    if upper == "(":
        return statement.after(at)
    end = name_end(statement, at)
    if end == at:
        return at + 1
    return statement.after(end) if statement.upper(end) == "(" else end


def _is_unit(upper: str) -> bool:
    units = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "QUARTER")
    return upper == "TO" or upper.removesuffix("S") in units


def split_parts(text: str) -> tuple[str, ...]:
    """The parts of a dotted name that a string holds."""
    parts, at = [], 0
    while at < len(text):
        if text[at] == "`":
            end = at + 1
            while end < len(text) and (text[end] != "`" or text[end : end + 2] == "``"):
                end += 2 if text[end : end + 2] == "``" else 1
            parts.append(text[at + 1 : end].replace("``", "`"))
            at = end + 2
        else:
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            parts.append(text[at:end].strip())
            at = end + 1
    return tuple(parts) or ("",)
