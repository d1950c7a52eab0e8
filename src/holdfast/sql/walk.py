"""The walk through a query that finds its tables.

A query is walked word by word, only as far as needed to know where a table can stand: after FROM, JOIN and commas
between them, and after TABLE. What the walk does not know it steps over, so that a query which only Spark understands
still has its tables found.

1. Names that WITH gives are left out where they hold.
2. Each SELECT becomes a block; queries within it become blocks of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from holdfast.sql.references import (
    BEGINS_QUERY,
    Block,
    Join,
    Query,
    Reference,
    Relation,
    Span,
    When,
    name_end,
    names,
    split_parts,
    value_end,
)
from holdfast.sql.text import Kind, Statement

CHANGES = frozenset(("TABLE_CHANGES", "TABLE_CHANGES_BY_PATH"))
_SET_OPERATORS = frozenset(("UNION", "EXCEPT", "INTERSECT", "MINUS"))
_CLAUSES = frozenset(("WHERE", "HAVING", "LIMIT", "OFFSET", "SELECT", "QUALIFY", "|>", "INSERT", "MAP", "REDUCE"))
_BY_CLAUSES = frozenset(("GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"))
_JOINS = frozenset(("JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI", "NATURAL", "OUTER"))
_NO_ALIAS = (
    _SET_OPERATORS
    | _CLAUSES
    | _BY_CLAUSES
    | _JOINS
    | frozenset(("ON", "USING", "LATERAL", "PIVOT", "UNPIVOT", "TABLESAMPLE", "WINDOW", "WHEN", "SET", "FOR", "VALUES"))
)
_RESHAPES = frozenset(("TABLESAMPLE", "PIVOT", "UNPIVOT", "|>", "MATCH_RECOGNIZE"))


def query_of(statement: Statement, span: Span | None = None, given: Span | None = None) -> Query:
    """The tables that a query names; by default the whole statement is one. `given` is a WITH that stands elsewhere."""
    walk = _Walk(statement)
    first, last = span or (0, len(statement.words))
    names = frozenset[str]() if given is None else walk.with_(*given, frozenset())[1]
    walk.query(first, last, names)
    return Query(tuple(walk.blocks), tuple(walk.loose))


def relation_of(statement: Statement, span: Span, given: Span | None = None) -> Query:
    """The tables that a part of a FROM clause names."""
    walk = _Walk(statement)
    names = frozenset[str]() if given is None else walk.with_(*given, frozenset())[1]
    opened = _Open(span[0])
    walk.relations(*span, names, opened)
    block = Block(span, tuple(opened.relations), None, is_plain=False)
    return Query((*walk.blocks, block), tuple(walk.loose))


def expression_of(statement: Statement, span: Span) -> Query:
    """The tables that queries within an expression name."""
    walk = _Walk(statement)
    walk.expression(*span, frozenset())
    return Query(tuple(walk.blocks), tuple(walk.loose))


@dataclass(slots=True)
class _Open:
    """A block that is being walked."""

    first: int
    relations: list[Relation] = field(default_factory=list)
    where: Span | None = None
    is_plain: bool = True
    stars: list[int] = field(default_factory=list)


class _Walk:
    """One walk through a query; what it finds is in `blocks` and `loose`."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.blocks: list[Block] = []
        self.loose: list[Reference] = []

    def query(self, first: int, last: int, given: frozenset[str]) -> None:
        """A query expression: WITH, then blocks between set operators."""
        at, given = self.with_(first, last, given)
        begun = at
        while at < last:
            if self.is_set_operator(at):
                self.block(begun, at, given)
                at += 1
                begun = at = at + (self.statement.upper(at) in ("ALL", "DISTINCT"))
            else:
                at = self.statement.after(at)
        self.block(begun, last, given)

    def with_(self, at: int, last: int, given: frozenset[str]) -> tuple[int, frozenset[str]]:
        upper, words = self.statement.upper, self.statement.words
        if upper(at) != "WITH" or at >= last:
            return at, given
        recursive = upper(at + 1) == "RECURSIVE"
        at += 1 + recursive
        while at < last and words[at].is_name:
            name = words[at].name.lower()
            at += 1
            if upper(at) == "(" and not self.begins_query(at + 1):
                at = self.statement.after(at)  # names of columns
            while upper(at) in ("AS", "MAX", "RECURSION", "LEVEL") or self.statement.kind(at) is Kind.NUMBER:
                at += 1
            if upper(at) != "(":
                break
            self.query(at + 1, self.statement.closes[at], given | {name} if recursive else given)
            given |= {name}
            at = self.statement.after(at)
            if upper(at) != ",":
                break
            at += 1
        return at, given

    def block(self, first: int, last: int, given: frozenset[str]) -> None:
        upper = self.statement.upper
        if first >= last:
            return
        if upper(first) == "(" and self.begins_query(first + 1):
            self.query(first + 1, self.statement.closes[first], given)
            self.expression(self.statement.after(first), last, given)
            return
        if upper(first) == "TABLE":
            self.loose_table(first + 1, given)
            return
        opened = _Open(first)
        at = first
        while at < last:
            at = self.clause(at, last, given, opened)
        self.blocks.append(
            Block((first, last), tuple(opened.relations), opened.where, opened.is_plain, tuple(opened.stars))
        )

    def clause(self, at: int, last: int, given: frozenset[str], block: _Open) -> int:
        """Walk a clause of a block; gives where the next begins."""
        upper = self.statement.upper
        if upper(at) == "FROM" and self.is_keyword(at):
            return self.relations(at + 1, last, given, block)
        end = at + 1
        while end < last and not self.begins_clause(end):
            end = self.statement.after(end)
        if upper(at) == "WHERE" and block.where is None and block.is_plain:
            block.where = (at + 1, end)
        if upper(at) == "SELECT":
            block.stars += self.stars(at + 1, end)
        if upper(at) == "|>":
            block.is_plain = False
            if any(upper(i) == "JOIN" for i in range(at, end)):
                at += 1
                while at < end and upper(at) != "JOIN":
                    at += 1
                return self.relations(at + 1, end, given, block)
        self.expression(at, end, given)
        return end

    def relations(self, at: int, last: int, given: frozenset[str], block: _Open) -> int:
        """Walk a FROM clause; gives where the next clause begins."""
        upper = self.statement.upper
        join = Join.FIRST
        while at < last:
            at, relation = self.relation(at, last, given, join, block)
            while at < last and upper(at) in _RESHAPES - {"|>"}:
                block.is_plain = False
                ended = self.reshape_end(at, last)
                self.expression(at, ended, given)
                at = ended
            if upper(at) == "ON" and at < last:
                begun = at = at + 1
                while at < last and not self.ends_relation(at):
                    at = self.statement.after(at)
                self.expression(begun, at, given)
                relation = Relation(relation.reference, relation.called, relation.join, (begun, at))
            elif upper(at) == "USING" and upper(at + 1) == "(" and at < last:
                at = self.statement.after(at + 1)
            block.relations.append(relation)
            if at < last and upper(at) == ",":
                join, at = Join.FIRST, at + 1
                continue
            kinds = []
            while at < last and upper(at) in _JOINS:
                kinds.append(upper(at))
                at += 1
                if kinds[-1] == "JOIN":
                    break
            if not kinds or kinds[-1] != "JOIN":
                break
            join = _join(kinds)
        end = at
        while end < last and not self.begins_clause(end):  # LATERAL VIEW, WINDOW and the like
            end = self.statement.after(end)
        block.is_plain = block.is_plain and all(upper(i) not in _RESHAPES for i in range(at, end))
        self.expression(at, end, given)
        return end

    def relation(self, at: int, last: int, given: frozenset[str], join: Join, block: _Open) -> tuple[int, Relation]:
        statement, upper = self.statement, self.statement.upper
        if upper(at) == "LATERAL":
            at += 1
        if upper(at) == "(":
            end = statement.closes[at]
            if self.begins_query(at + 1):
                self.query(at + 1, end, given)
            else:
                inner = _Open(at + 1)
                self.relations(at + 1, end, given, inner)
                self.blocks.append(Block((at + 1, end), tuple(inner.relations), None, is_plain=False))
            at, called = self.alias(end + 1, last)
            return at, Relation(None, called, join)
        if upper(at) == "VALUES":
            at += 1
            while at < last:
                self.expression(at, statement.after(at), given)
                at = statement.after(at)
                if upper(at) != "," or upper(at + 1) != "(" or self.begins_query(at + 2):
                    break
                at += 1
            at, called = self.alias(at, last)
            return at, Relation(None, called, join)
        end = name_end(statement, at)
        if end == at:
            at, called = self.alias(at + 1, last)  # a place that formatting fills
            return at, Relation(None, called, join)
        if upper(end) == "(":
            return self.call(at, end, last, given, join)
        reference, end = self.named(at, end, last)
        sampled = self.sample_end(end, last)
        block.is_plain = block.is_plain and sampled == end
        end, alias = self.alias(sampled, last)
        called = alias or reference.parts[-1]
        if len(reference.parts) == 1 and reference.parts[0].lower() in given:
            return end, Relation(None, called, join)
        return end, Relation(replace(reference, alias=alias, aliased=sampled), called, join)

    def call(self, at: int, opens: int, last: int, given: frozenset[str], join: Join) -> tuple[int, Relation]:
        """A function in the place of a table."""
        statement = self.statement
        end = statement.after(opens)
        after, alias = self.alias(end, last)
        parts = names(statement, at, opens)
        if parts[-1].upper() in CHANGES and len(parts) == 1:
            reference = Reference((at, end), parts, arguments=(opens + 1, end - 1), alias=alias, aliased=end)
            return after, Relation(reference, reference.called, join)
        if parts[-1].upper() == "IDENTIFIER" and statement.kind(opens + 1) is Kind.TEXT and end == opens + 3:
            named = split_parts(statement.words[opens + 1].value)
            reference = Reference((at, end), named, alias=alias, aliased=end)
            return after, Relation(reference, reference.called, join)
        self.arguments(opens + 1, end - 1, given)
        return after, Relation(None, alias, join)

    def named(self, at: int, end: int, last: int) -> tuple[Reference, int]:
        """A name, with the version that follows it."""
        statement, upper = self.statement, self.statement.upper
        parts, first = names(statement, at, end), at
        suffix: str | None = None
        if upper(end) == "@" and end + 1 < last:
            suffix, end = statement.words[end + 1].text, end + 2
        at = end + 1 if upper(end) == "FOR" else end
        word = upper(at)
        if word in ("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME") and (upper(at + 1), upper(at + 2)) == (
            "AS",
            "OF",
        ):
            end = value_end(statement, at + 3, last)
            return Reference((first, end), parts, When("VERSION" in word, (at + 3, end)), suffix), end
        return Reference((first, end), parts, None, suffix), end

    def loose_table(self, at: int, given: frozenset[str]) -> None:
        end = name_end(self.statement, at)
        if end == at:
            return
        reference, _ = self.named(at, end, len(self.statement.words))
        if len(reference.parts) > 1 or reference.parts[0].lower() not in given:
            self.loose.append(reference)

    def alias(self, at: int, last: int) -> tuple[int, str | None]:
        """The alias at a place, and what follows it and the names it gives to columns."""
        statement = self.statement
        here = at + 1 if statement.upper(at) == "AS" else at
        if here >= last or not statement.words[here].is_name:
            return at, None
        if here == at and statement.upper(here) in _NO_ALIAS:
            return at, None
        after = here + 1
        if statement.upper(after) == "(" and after < last:
            after = statement.after(after)
        return after, statement.words[here].name

    def sample_end(self, at: int, last: int) -> int:
        """Where a sample of a table ends that begins at a word; the same place where none begins."""
        if self.statement.upper(at) != "TABLESAMPLE" or at >= last:
            return at
        at += 1
        while at < last and self.statement.upper(at) != "(":
            at += 1
        at = self.statement.after(at) if at < last else last
        return self.statement.after(at + 1) if self.statement.upper(at) == "REPEATABLE" else at

    def reshape_end(self, at: int, last: int) -> int:
        """Where a pivot ends, with its alias."""
        while at < last and self.statement.upper(at) != "(":
            at += 1
        return self.alias(self.statement.after(at) if at < last else last, last)[0]

    def expression(self, first: int, last: int, given: frozenset[str]) -> None:
        """Queries within brackets, and tables handed to functions."""
        at = first
        while at < last:
            if self.statement.upper(at) == "(":
                end = self.statement.closes[at]
                if self.begins_query(at + 1) and self.statement.upper(at + 1) != "TABLE":
                    self.query(at + 1, end, given)
                else:
                    self.arguments(at + 1, end, given)
                at = end
            at += 1

    def arguments(self, first: int, last: int, given: frozenset[str]) -> None:
        upper = self.statement.upper
        for at in range(first, last):
            if upper(at) != "TABLE" or upper(at - 1) not in ("(", ",", "=>"):
                continue
            if upper(at + 1) == "(" and not self.begins_query(at + 2):
                self.loose_table(at + 2, given)
            elif at + 1 < last and self.statement.words[at + 1].is_name:
                self.loose_table(at + 1, given)
        self.expression(first, last, given)

    def stars(self, first: int, last: int) -> Iterator[int]:
        upper = self.statement.upper
        at = first
        while at < last:
            if upper(at) == "*" and upper(at - 1) in ("SELECT", "DISTINCT", "ALL", ",", "."):
                yield at
            at = self.statement.after(at)

    def begins_query(self, at: int) -> bool:
        if self.statement.upper(at) == "(":
            return self.begins_query(at + 1)
        return self.statement.upper(at) in BEGINS_QUERY and self.statement.upper(at + 1) not in (".", ",", ")", "=")

    def begins_clause(self, at: int) -> bool:
        """Whether a word ends the clause before it."""
        upper = self.statement.upper(at)
        if upper in _BY_CLAUSES:
            return self.statement.upper(at + 1) == "BY" and self.is_keyword(at)
        return (upper in _CLAUSES or upper == "FROM") and self.is_keyword(at)

    def ends_relation(self, at: int) -> bool:
        upper = self.statement.upper(at)
        if upper == ",":
            return True
        if upper in ("LEFT", "RIGHT") and self.statement.upper(at + 1) == "(":
            return False  # the functions
        if upper == "LATERAL":
            return True
        return self.begins_clause(at) or (upper in _JOINS | {"WINDOW"} and self.is_keyword(at))

    def is_keyword(self, at: int) -> bool:
        """Whether a word that may be a keyword is one, and no name."""
        before, after = self.statement.upper(at - 1), self.statement.upper(at + 1)
        if before in (".", "AS", ":") or after in (".", "="):
            return False
        if self.statement.upper(at) == "FROM" and before == "DISTINCT":
            return self.statement.upper(at - 2) not in ("IS", "NOT")
        return not (self.statement.upper(at) in ("MAP", "REDUCE", "INSERT") and after in ("(", "<", ",", ")", ""))

    def is_set_operator(self, at: int) -> bool:
        if self.statement.upper(at) not in _SET_OPERATORS or not self.is_keyword(at):
            return False
        if self.statement.upper(at) == "EXCEPT" and self.statement.upper(at + 1) == "(":
            return self.begins_query(at + 2)
        return True


def _join(kinds: list[str]) -> Join:
    if "SEMI" in kinds or "ANTI" in kinds:
        return Join.HALF
    for kind in ("LEFT", "RIGHT", "FULL"):
        if kind in kinds:
            return Join[kind]
    return Join.INNER
