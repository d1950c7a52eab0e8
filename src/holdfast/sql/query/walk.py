"""Finds the tables of a query by a walk through its words.

The walk reads only what it needs to know where a table can be: after FROM, JOIN, the commas between them, and TABLE.
It skips everything else, so it finds the tables of queries that only Spark understands.

1. The name of a query in WITH means that query within its scope.
2. Each SELECT becomes a block; queries within it become blocks of their own.
3. A query in WITH is shut where its name also occurs in a place that the walk skips: that place may read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from holdfast.sql.query.clauses import (
    JOINS,
    NO_ALIAS,
    RESHAPES,
    begins_clause,
    begins_query,
    ends_relation,
    is_keyword,
    is_set_operator,
    join_of,
    sample_end,
    stars,
    value_end,
)
from holdfast.sql.query.references import (
    Body,
    Join,
    ParsedQuery,
    QueryBlock,
    Reference,
    Relation,
    VersionClause,
)
from holdfast.sql.text import Span, Statement, TokenKind, split_parts

CHANGES = frozenset(("TABLE_CHANGES", "TABLE_CHANGES_BY_PATH"))
_VERSIONS = frozenset(("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME"))
# Words by which a query gives only some of its rows.
_CUTS = frozenset(("LIMIT", "OFFSET", "|>"))
# Words by which a row depends on rows with other values, or on the order of rows.
_MIXES = frozenset(
    [
        *("OVER", "QUALIFY", "ROLLUP", "CUBE", "GROUPING", "RAND", "RANDN", "RANDOM", "RANDSTR", "UNIFORM", "UUID"),
        *("SHUFFLE", "MONOTONICALLY_INCREASING_ID", "SPARK_PARTITION_ID"),
    ]
)

Ctes: TypeAlias = Mapping[str, Body | None]  # the queries in WITH, by name; None: a recursive one


def query_of(
    statement: Statement, span: Span | None = None, with_span: Span | None = None, columns: tuple[str, ...] = ()
) -> ParsedQuery:
    """Parse a query; by default the whole statement is one.

    `with_span` is a WITH elsewhere in the statement, `columns` are the names that a view gives to its columns.
    """
    walk = _QueryWalk(statement)
    body = walk.query(*(span or (0, len(statement.words))), walk.ctes(with_span), columns)
    return walk.parsed(body)


def relation_of(statement: Statement, span: Span, with_span: Span | None = None) -> ParsedQuery:
    """Parse a part of a FROM clause."""
    walk = _QueryWalk(statement)
    opened = _Open(span[0])
    walk.relations(*span, walk.ctes(with_span), opened)
    walk.blocks.append(QueryBlock(span, tuple(opened.relations), None, is_plain=False))
    return walk.parsed()


def expression_of(statement: Statement, span: Span) -> ParsedQuery:
    """Parse the subqueries of an expression."""
    walk = _QueryWalk(statement)
    walk.expression(*span, {})
    return walk.parsed()


@dataclass(slots=True)
class _Open:
    """A block during the walk."""

    first: int
    relations: list[Relation] = field(default_factory=list)
    where: Span | None = None
    is_plain: bool = True
    stars: list[int] = field(default_factory=list)
    select: Span | None = None
    has_views: bool = False


class _QueryWalk:
    """One walk through a query; it collects `blocks` and `loose`."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.blocks: list[QueryBlock] = []
        self.loose: list[Reference] = []
        self.named_bodies: list[tuple[str, Body]] = []  # by WITH
        self.queries: dict[int, int] = {}  # where queries begin and end
        self.understood: set[int] = set()  # words that name a relation, or a query in WITH

    def parsed(self, body: Body | None = None) -> ParsedQuery:
        return ParsedQuery(tuple(self.blocks), tuple(self.loose), body, frozenset(self.shut()))

    def shut(self) -> Iterator[Span]:
        """The queries in WITH whose readers are not all known."""
        if not self.named_bodies:
            return
        uses = Counter(
            word.name.lower()
            for at, word in enumerate(self.statement.words)
            if word.is_name
            and at not in self.understood
            and "." not in (self.statement.upper(at - 1), self.statement.upper(at + 1))
        )
        uses.update(Counter(name for name, _ in self.named_bodies) - Counter({name for name, _ in self.named_bodies}))
        everything = "identifier" in uses  # a name that is computed
        yield from (body.span for name, body in self.named_bodies if everything or uses[name])

    def ctes(self, span: Span | None) -> Ctes:
        """The queries of a WITH elsewhere in the statement."""
        return {} if span is None else self.with_(*span, {})[1]

    def query(self, first: int, last: int, ctes: Ctes, columns: tuple[str, ...] = ()) -> Body:
        """A query expression: WITH, then blocks between set operators."""
        if first < last:  # else the brackets are empty, and Spark reports the error
            self.queries[first] = last
        at, ctes = self.with_(first, last, ctes)
        begin = at
        branches = []
        while at < last:
            if is_set_operator(self.statement, at):
                branches.append(self.block(begin, at, ctes))
                at += 1
                begin = at = at + (self.statement.upper(at) in ("ALL", "DISTINCT"))
            else:
                at = self.statement.after(at)
        branches.append(self.block(begin, last, ctes))
        return Body((first, last), tuple(branches), columns, _CUTS.isdisjoint(self.own_words(first, last)))

    def own_words(self, first: int, last: int) -> Iterator[str]:
        """The keywords and marks of a part of a query, outside of the queries within it."""
        at = first
        while at < last:
            if at > first and at in self.queries:
                at = self.queries[at]
            else:
                yield self.statement.upper(at)
                at += 1

    def with_(self, at: int, last: int, ctes: Ctes) -> tuple[int, Ctes]:
        upper, words = self.statement.upper, self.statement.words
        if upper(at) != "WITH" or at >= last:
            return at, ctes
        recursive = upper(at + 1) == "RECURSIVE"
        at += 1 + recursive
        while at < last and words[at].is_name:
            name = words[at].name.lower()
            columns: tuple[str, ...] = ()
            self.understood.add(at)
            at += 1
            if upper(at) == "(" and not begins_query(self.statement, at + 1):
                columns = self.statement.names(at + 1, self.statement.closes[at])
                at = self.statement.after(at)
            while upper(at) in ("AS", "MAX", "RECURSION", "LEVEL") or self.statement.kind(at) is TokenKind.NUMBER:
                at += 1
            if upper(at) != "(":
                break
            inner = {**ctes, name: None} if recursive else ctes
            body = self.query(at + 1, self.statement.closes[at], inner, columns)
            self.named_bodies.append((name, body))
            ctes = {**ctes, name: None if recursive else body}
            at = self.statement.after(at)
            if upper(at) != ",":
                break
            at += 1
        return at, ctes

    def block(self, first: int, last: int, ctes: Ctes) -> QueryBlock | Body | None:
        upper = self.statement.upper
        if first >= last:
            return None
        if upper(first) == "(" and begins_query(self.statement, first + 1):
            body = self.query(first + 1, self.statement.closes[first], ctes)
            self.expression(self.statement.after(first), last, ctes)
            return body
        if upper(first) == "TABLE":
            self.loose_table(first + 1, ctes)
            return None
        opened = _Open(first)
        at = first
        while at < last:
            at = self.clause(at, last, ctes, opened)
        self.blocks.append(self.closed(opened, last))
        return self.blocks[-1] if opened.select is not None else None

    def closed(self, block: _Open, last: int) -> QueryBlock:
        """The finished block."""
        return QueryBlock(
            (block.first, last),
            tuple(block.relations),
            block.where,
            block.is_plain,
            tuple(block.stars),
            block.select,
            block.has_views,
            block.is_plain and _MIXES.isdisjoint(self.own_words(block.first, last)),
        )

    def clause(self, at: int, last: int, ctes: Ctes, block: _Open) -> int:
        """Walk a clause of a block; returns where the next one begins."""
        upper = self.statement.upper
        if upper(at) == "FROM" and is_keyword(self.statement, at):
            return self.relations(at + 1, last, ctes, block)
        end = at + 1
        while end < last and not begins_clause(self.statement, end):
            end = self.statement.after(end)
        if upper(at) == "WHERE" and block.where is None and block.is_plain:
            block.where = (at + 1, end)
        if upper(at) == "SELECT":
            block.is_plain = block.is_plain and block.select is None  # FROM t SELECT ... SELECT ... is two queries
            block.select = (at + 1, end)
            block.stars += stars(self.statement, at + 1, end)
        if upper(at) == "|>":
            block.is_plain = False
            if any(upper(i) == "JOIN" for i in range(at, end)):
                at += 1
                while at < end and upper(at) != "JOIN":
                    at += 1
                return self.relations(at + 1, end, ctes, block)
        self.expression(at, end, ctes)
        return end

    def relations(self, at: int, last: int, ctes: Ctes, block: _Open) -> int:
        """Walk a FROM clause; returns where the next clause begins."""
        upper = self.statement.upper
        join = Join.FIRST
        kinds: list[str] = []
        while at < last:
            at, relation = self.relation(at, last, ctes, join, block)
            while at < last and upper(at) in RESHAPES - {"|>"}:
                block.is_plain = False
                end = self.reshape_end(at, last)
                self.expression(at, end, ctes)
                at = end
            if upper(at) == "ON" and at < last:
                begin = at = at + 1
                while at < last and not ends_relation(self.statement, at):
                    at = self.statement.after(at)
                self.expression(begin, at, ctes)
                relation = replace(relation, on=(begin, at))
            elif upper(at) == "USING" and upper(at + 1) == "(" and at < last:
                at = self.statement.after(at + 1)
                relation = replace(relation, merges=True)
            block.relations.append(replace(relation, merges=True) if "NATURAL" in kinds else relation)
            if at < last and upper(at) == ",":
                join, kinds, at = Join.FIRST, [], at + 1
                continue
            kinds = []
            while at < last and upper(at) in JOINS:
                kinds.append(upper(at))
                at += 1
                if kinds[-1] == "JOIN":
                    break
            if not kinds or kinds[-1] != "JOIN":
                break
            join = join_of(kinds)
        end = at
        while end < last and not begins_clause(self.statement, end):  # LATERAL VIEW, WINDOW and the like
            end = self.statement.after(end)
        block.has_views = block.has_views or end > at
        block.is_plain = block.is_plain and all(upper(i) not in RESHAPES for i in range(at, end))
        self.expression(at, end, ctes)
        return end

    def relation(self, at: int, last: int, ctes: Ctes, join: Join, block: _Open) -> tuple[int, Relation]:
        statement, upper = self.statement, self.statement.upper
        is_lateral = upper(at) == "LATERAL"
        at += is_lateral
        if upper(at) == "(":
            end = statement.closes[at]
            is_query = begins_query(statement, at + 1)
            body = self.query(at + 1, end, ctes) if is_query else self.group(at + 1, end, ctes)
            at, alias, columns = self.alias(end + 1, last)
            return at, Relation(None, alias, join, columns=columns, body=None if is_lateral else body)
        if upper(at) == "VALUES":
            at += 1
            while at < last:
                self.expression(at, statement.after(at), ctes)
                at = statement.after(at)
                if upper(at) != "," or upper(at + 1) != "(" or begins_query(self.statement, at + 2):
                    break
                at += 1
            at, alias, _ = self.alias(at, last)
            return at, Relation(None, alias, join)
        end = statement.name_end(at)
        if end == at:
            at, alias, _ = self.alias(at + 1, last)  # a placeholder of Python's formatting
            return at, Relation(None, alias, join)
        if upper(end) == "(":
            return self.call(at, end, last, ctes, join)
        reference, end = self.versioned(at, end, last)
        self.understood.add(at)
        sampled = sample_end(self.statement, end, last)
        block.is_plain = block.is_plain and sampled == end
        end, alias, columns = self.alias(sampled, last)
        return end, self.by_name(replace(reference, alias=alias, alias_at=sampled), ctes, join, columns)

    def by_name(self, reference: Reference, ctes: Ctes, join: Join, columns: tuple[str, ...]) -> Relation:
        """A name in a FROM clause: of a query in WITH, or of a table."""
        name = reference.parts[0].lower()
        if len(reference.parts) == 1 and name in ctes:
            return Relation(None, reference.qualifier, join, columns=columns, body=ctes[name])
        return Relation(reference, reference.qualifier, join, columns=columns)

    def group(self, first: int, last: int, ctes: Ctes) -> Body:
        """Relations between brackets."""
        opened = _Open(first)
        self.relations(first, last, ctes, opened)
        self.blocks.append(self.closed(opened, last))
        return Body((first, last), (self.blocks[-1],), passes=True)

    def call(self, at: int, opens: int, last: int, ctes: Ctes, join: Join) -> tuple[int, Relation]:
        """A function in the place of a table."""
        statement = self.statement
        end = statement.after(opens)
        after, alias, columns = self.alias(end, last)
        parts = statement.names(at, opens)
        if parts[-1].upper() in CHANGES and len(parts) == 1:
            reference = Reference((at, end), parts, arguments=(opens + 1, end - 1), alias=alias, alias_at=end)
            return after, Relation(reference, reference.qualifier, join, columns=columns)
        if parts[-1].upper() == "IDENTIFIER" and statement.kind(opens + 1) is TokenKind.TEXT and end == opens + 3:
            self.understood.add(at)
            inner = split_parts(statement.words[opens + 1].value)
            return after, self.by_name(Reference((at, end), inner, alias=alias, alias_at=end), ctes, join, columns)
        self.arguments(opens + 1, end - 1, ctes)
        return after, Relation(None, alias, join)

    def versioned(self, at: int, end: int, last: int) -> tuple[Reference, int]:
        """A name with the version that follows, and its end."""
        statement, upper = self.statement, self.statement.upper
        parts, first = statement.names(at, end), at
        suffix: str | None = None
        if upper(end) == "@" and end + 1 < last:
            suffix, end = statement.words[end + 1].text, end + 2
        at = end + 1 if upper(end) == "FOR" else end
        word, when = upper(at), None
        if word in _VERSIONS and (upper(at + 1), upper(at + 2)) == ("AS", "OF"):
            end = value_end(statement, at + 3, last)
            when = VersionClause("VERSION" in word, (at + 3, end))
        return Reference((first, end), parts, when, suffix), end

    def loose_table(self, at: int, ctes: Ctes) -> None:
        end = self.statement.name_end(at)
        if end == at:
            return
        reference, _ = self.versioned(at, end, len(self.statement.words))
        if len(reference.parts) > 1 or reference.parts[0].lower() not in ctes:
            self.loose.append(reference)

    def alias(self, at: int, last: int) -> tuple[int, str | None, tuple[str, ...]]:
        """The word after an alias, the alias, and its names of columns."""
        statement = self.statement
        here = at + 1 if statement.upper(at) == "AS" else at
        if here >= last or not statement.words[here].is_name:
            return at, None, ()
        if here == at and statement.upper(here) in NO_ALIAS:
            return at, None, ()
        self.understood.add(here)
        after, name = here + 1, statement.words[here].name
        if statement.upper(after) == "(" and after < last:
            return statement.after(after), name, statement.names(after + 1, statement.closes[after])
        return after, name, ()

    def reshape_end(self, at: int, last: int) -> int:
        """The end of a pivot and its alias."""
        while at < last and self.statement.upper(at) != "(":
            at += 1
        return self.alias(self.statement.after(at) if at < last else last, last)[0]

    def expression(self, first: int, last: int, ctes: Ctes) -> None:
        """Walk queries within brackets, and tables that are arguments of functions."""
        at = first
        while at < last:
            if self.statement.upper(at) == "(":
                end = self.statement.closes[at]
                if begins_query(self.statement, at + 1) and self.statement.upper(at + 1) != "TABLE":
                    self.query(at + 1, end, ctes)
                else:
                    self.arguments(at + 1, end, ctes)
                at = end
            at += 1

    def arguments(self, first: int, last: int, ctes: Ctes) -> None:
        upper = self.statement.upper
        for at in range(first, last):
            if upper(at) != "TABLE" or upper(at - 1) not in ("(", ",", "=>"):
                continue
            if upper(at + 1) == "(" and not begins_query(self.statement, at + 2):
                self.loose_table(at + 2, ctes)
            elif at + 1 < last and self.statement.words[at + 1].is_name:
                self.loose_table(at + 1, ctes)
        self.expression(first, last, ctes)
