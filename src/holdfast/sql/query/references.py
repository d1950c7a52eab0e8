"""The parts of a parsed query that matter for scans: its tables, joins, conditions and columns.

1. A reference is a span of words: the name of a table, or a call of a function that reads a table, with the version
   that follows; its alias is not part of the span.
2. A block is one SELECT with its FROM and WHERE. It lists every relation of its FROM in order, ours or not.
3. A body is a whole query: blocks between set operators. A relation that is a subquery, or the name of a query in
   WITH, has a body.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from holdfast.sql.text import Span


class Join(Enum):
    """How a relation is joined to those before it."""

    FIRST = "the first, or after a comma"
    INNER = "inner or cross"
    LEFT = "those before stay"
    RIGHT = "this one stays"
    FULL = "both stay"
    HALF = "semi or anti: this one only filters those before"


@dataclass(frozen=True, slots=True)
class VersionClause:
    """The expression after VERSION AS OF or TIMESTAMP AS OF."""

    is_version: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Reference:
    """A table, by its name in the text."""

    span: Span
    parts: tuple[str, ...]
    when: VersionClause | None = None
    suffix: str | None = None  # a version after `@`
    arguments: Span | None = None  # of a function that reads the changes of a table
    alias: str | None = None  # the user's own
    alias_at: int = 0  # the word before which an alias stands

    @property
    def qualifier(self) -> str:
        """The name that qualifies its columns."""
        return self.alias or self.parts[-1]


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, a subquery or a function in a FROM clause."""

    reference: Reference | None
    qualifier: str | None  # of its columns
    join: Join
    on: Span | None = None
    merges: bool = False  # NATURAL or USING: columns of the same name become one
    columns: tuple[str, ...] = ()  # the column names in its alias
    body: Body | None = None  # of a subquery


@dataclass(frozen=True, slots=True)
class QueryBlock:
    """One SELECT, or relations between brackets."""

    span: Span
    relations: tuple[Relation, ...]
    where: Span | None
    is_plain: bool  # no sample or pivot between the tables and the condition
    stars: tuple[int, ...] = ()  # in its list of columns
    select: Span | None = None  # the list of columns; None: all columns
    has_views: bool = False  # LATERAL VIEW adds columns
    passes: bool = False  # an output row depends on all input rows with its values, and on no others


@dataclass(frozen=True, slots=True)
class Body:
    """A whole query."""

    span: Span
    branches: tuple[QueryBlock | Body | None, ...]  # between set operators; None for a branch that is no SELECT
    columns: tuple[str, ...] = ()  # the column names in WITH
    passes: bool = False  # it gives all rows of its branches: it has no LIMIT and the like


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """The blocks and tables of a query."""

    blocks: tuple[QueryBlock, ...]
    loose: tuple[Reference, ...] = ()  # after TABLE, in no block
    body: Body | None = None
    shut: frozenset[Span] = frozenset()  # bodies that may have readers which the walk did not find

    @property
    def references(self) -> tuple[Reference, ...]:
        within = (r.reference for block in self.blocks for r in block.relations if r.reference is not None)
        return tuple(sorted((*within, *self.loose), key=lambda r: r.span))
