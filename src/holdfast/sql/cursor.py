"""The parser's position in a statement: reads keywords, names and spans of words from left to right.

1. Expressions and types are read as spans of words; Spark or the type parser reads what is in them.
2. `table_name` is the table of the statement, once it was read. A syntax error before that leaves the statement to
   Spark. A syntax error after it is reported for one of our tables, with the word where it occurred.
"""

from __future__ import annotations

from holdfast.errors import Invalid
from holdfast.sql.text import BEGINS_QUERY, Span, Statement, TokenKind, split_parts


class NotUnderstood(Invalid):
    """A statement has a syntax error."""


class Cursor:
    """A position in a statement, and the word before which the part to read ends."""

    def __init__(self, statement: Statement, at: int = 0, last: int | None = None) -> None:
        self.statement = statement
        self.at = at
        self.last = len(statement.words) if last is None else last
        self.table_name: tuple[str, ...] | None = None

    @property
    def is_over(self) -> bool:
        return self.at >= self.last

    def upper(self, ahead: int = 0) -> str:
        """The keyword or mark some words ahead; empty where there is none."""
        return self.statement.upper(self.at + ahead) if self.at + ahead < self.last else ""

    def sees(self, *words: str) -> bool:
        """Whether these words come next."""
        return all(self.upper(i) == word for i, word in enumerate(words))

    def take(self, *words: str) -> bool:
        """Skip these words if they come next."""
        if self.sees(*words):
            self.at += len(words)
            return True
        return False

    def expect(self, *words: str) -> None:
        """Skip these words, which must come next."""
        if not self.take(*words):
            raise self.wrong(f"{' '.join(words)} is expected")

    def one_of(self, *words: str) -> str | None:
        """Skip one of these words if it comes next, and return it."""
        word = self.upper()
        if word and word in words:
            self.at += 1
            return word
        return None

    def name(self) -> tuple[str, ...]:
        """Read a dotted name."""
        end = self.statement.name_end(self.at)
        if end == self.at or end > self.last:
            raise self.wrong("a name is expected")
        begin, self.at = self.at, end
        return self.statement.names(begin, end)

    def identifier(self) -> str:
        """Read a name of one part."""
        if self.is_over or not self.statement.words[self.at].is_name:
            raise self.wrong("a name is expected")
        self.at += 1
        return self.statement.words[self.at - 1].name

    def table(self) -> tuple[str, ...]:
        """Read the table of the statement: a name, or a path in quotes."""
        if not self.is_over and self.statement.kind(self.at) is TokenKind.TEXT:
            self.table_name = ("delta", self.text())
        elif self.sees("IDENTIFIER", "(") and self.statement.kind(self.at + 2) is TokenKind.TEXT:
            inner = self.statement.words[self.at + 2].value
            self.at = self.statement.after(self.at + 1)
            self.table_name = split_parts(inner)
        else:
            self.table_name = self.name()
        return self.table_name

    def alias(self, *stops: str) -> str | None:
        """Read an alias, unless one of these words comes next."""
        if self.take("AS"):
            return self.identifier()
        if self.is_over or not self.statement.words[self.at].is_name or self.upper() in stops:
            return None
        return self.identifier()

    def text(self) -> str:
        """Read a string."""
        if self.is_over or self.statement.kind(self.at) is not TokenKind.TEXT:
            raise self.wrong("a string is expected")
        self.at += 1
        return self.statement.words[self.at - 1].value

    def number(self) -> int:
        """Read a whole number."""
        negative = self.take("-")
        if self.is_over or not self.statement.words[self.at].text.isdigit():
            raise self.wrong("a whole number is expected")
        self.at += 1
        number = int(self.statement.words[self.at - 1].text)
        return -number if negative else number

    def group(self) -> Span:
        """Read what is between brackets."""
        if not self.sees("("):
            raise self.wrong("( is expected")
        inside = (self.at + 1, self.statement.closes[self.at])
        self.at = self.statement.after(self.at)
        return inside

    def until(self, *stops: str) -> Span:
        """Read an expression up to one of these words outside of brackets and CASE, or up to the end."""
        begin, cases = self.at, 0
        while self.at < self.last:
            upper = self.upper()
            if cases == 0 and upper in stops:
                break
            cases += (upper == "CASE") - (upper == "END" and cases > 0)
            self.at = self.statement.after(self.at)
        if begin == self.at:
            raise self.wrong("an expression is expected")
        return begin, self.at

    def listed(self, span: Span) -> list[Cursor]:
        """A cursor for each item of a list with commas."""
        items, inner = [], Cursor(self.statement, *span)
        while not inner.is_over:
            items.append(Cursor(self.statement, *inner.until(",")))
            inner.take(",")
        return items

    def names_in(self, span: Span) -> list[tuple[str, ...]]:
        """The dotted names of a list with commas."""
        names = []
        for item in self.listed(span):
            names.append(item.name())
            item.end()
        return names

    def begins_query(self) -> bool:
        """Whether a query comes next, with or without brackets."""
        at = self.at
        while self.statement.upper(at) == "(":
            at += 1
        return self.statement.upper(at) in BEGINS_QUERY and at < self.last

    def rest(self) -> Span:
        """Read all remaining words."""
        begin, self.at = self.at, self.last
        return begin, self.last

    def end(self) -> None:
        """Refuse further words."""
        if not self.is_over:
            raise self.wrong("nothing more is expected")

    def wrong(self, reason: str, condition: str = "PARSE_SYNTAX_ERROR") -> NotUnderstood:
        """The error for the word that comes next."""
        words = self.statement.words
        here = f"at {words[self.at].text!r}" if self.at < self.last else "at the end"
        near = self.statement.slice(max(0, self.at - 4), min(len(words), self.at + 4))
        message = f"the statement is not understood {here}, in “… {near} …”: {reason}"
        return NotUnderstood(message).named(condition)
