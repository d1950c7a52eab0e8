"""A place in a statement, from which its parts are read one after the other.

1. What is read is words; what an expression or a type says is left as a span of them, for whoever understands it.
2. `named` is the table that the statement is about, as soon as that is known. What is not understood before is nobody's
   here; what is not understood afterwards is refused with the word at which it happened.
"""

from __future__ import annotations

from holdfast.errors import Invalid
from holdfast.sql.query.references import BEGINS_QUERY, Span, name_end, names, split_parts
from holdfast.sql.text import Statement, TokenKind


class NotUnderstood(Invalid):
    """A statement has something where nothing of the kind is expected."""


class Cursor:
    """Reads a statement from left to right."""

    def __init__(self, statement: Statement, at: int = 0, last: int | None = None) -> None:
        self.statement = statement
        self.at = at
        self.last = len(statement.words) if last is None else last
        self.named: tuple[str, ...] | None = None

    @property
    def is_over(self) -> bool:
        return self.at >= self.last

    def upper(self, ahead: int = 0) -> str:
        """The keyword or mark ahead; empty where there is none."""
        return self.statement.upper(self.at + ahead) if self.at + ahead < self.last else ""

    def sees(self, *words: str) -> bool:
        """Whether these words come next."""
        return all(self.upper(i) == word for i, word in enumerate(words))

    def take(self, *words: str) -> bool:
        """Go over these words if they come next."""
        if self.sees(*words):
            self.at += len(words)
            return True
        return False

    def expect(self, *words: str) -> None:
        """Go over these words, which must come next."""
        if not self.take(*words):
            raise self.wrong(f"{' '.join(words)} is expected")

    def one_of(self, *words: str) -> str | None:
        """Go over one of these words if it comes next, and tell which."""
        found = self.upper()
        if found in words and found:
            self.at += 1
            return found
        return None

    def name(self) -> tuple[str, ...]:
        """A dotted name."""
        end = name_end(self.statement, self.at)
        if end == self.at or end > self.last:
            raise self.wrong("a name is expected")
        parts = names(self.statement, self.at, end)
        self.at = end
        return parts

    def identifier(self) -> str:
        """A name of one part."""
        if self.is_over or not self.statement.words[self.at].is_name:
            raise self.wrong("a name is expected")
        self.at += 1
        return self.statement.words[self.at - 1].name

    def table(self) -> tuple[str, ...]:
        """The table the statement is about: a name, or a path in quotes."""
        if not self.is_over and self.statement.kind(self.at) is TokenKind.TEXT:
            self.named = ("delta", self.text())
        elif self.sees("IDENTIFIER", "(") and self.statement.kind(self.at + 2) is TokenKind.TEXT:
            inner = self.statement.words[self.at + 2].value
            self.at = self.statement.after(self.at + 1)
            self.named = split_parts(inner)
        else:
            self.named = self.name()
        return self.named

    def alias(self, *stops: str) -> str | None:
        """An alias, where the next word is none of these."""
        if self.take("AS"):
            return self.identifier()
        if self.is_over or not self.statement.words[self.at].is_name or self.upper() in stops:
            return None
        return self.identifier()

    def text(self) -> str:
        """A string."""
        if self.is_over or self.statement.kind(self.at) is not TokenKind.TEXT:
            raise self.wrong("a string is expected")
        self.at += 1
        return self.statement.words[self.at - 1].value

    def number(self) -> int:
        """A whole number."""
        negative = self.take("-")
        if self.is_over or not self.statement.words[self.at].text.isdigit():
            raise self.wrong("a whole number is expected")
        self.at += 1
        found = int(self.statement.words[self.at - 1].text)
        return -found if negative else found

    def group(self) -> Span:
        """What stands between brackets."""
        if not self.sees("("):
            raise self.wrong("( is expected")
        inside = (self.at + 1, self.statement.closes[self.at])
        self.at = self.statement.after(self.at)
        return inside

    def until(self, *stops: str) -> Span:
        """The words up to one of these, those within brackets and CASE left aside; or up to the end."""
        begun, cases = self.at, 0
        while self.at < self.last:
            upper = self.upper()
            if cases == 0 and upper in stops:
                break
            cases += (upper == "CASE") - (upper == "END" and cases > 0)
            self.at = self.statement.after(self.at)
        if begun == self.at:
            raise self.wrong("an expression is expected")
        return begun, self.at

    def listed(self, span: Span) -> list[Cursor]:
        """A cursor for each of the things that commas divide."""
        found, inner = [], Cursor(self.statement, *span)
        while not inner.is_over:
            begun, end = inner.until(",")
            found.append(Cursor(self.statement, begun, end))
            inner.take(",")
        return found

    def names_in(self, span: Span) -> list[tuple[str, ...]]:
        """The dotted names that commas divide."""
        found = []
        for each in self.listed(span):
            found.append(each.name())
            each.end()
        return found

    def begins_query(self) -> bool:
        """Whether a query comes next, in brackets or without."""
        at = self.at
        while self.statement.upper(at) == "(":
            at += 1
        return self.statement.upper(at) in BEGINS_QUERY and at < self.last

    def rest(self) -> Span:
        """All words that are left."""
        begun, self.at = self.at, self.last
        return begun, self.last

    def end(self) -> None:
        """Nothing is left."""
        if not self.is_over:
            raise self.wrong("nothing more is expected")

    def wrong(self, reason: str, condition: str = "PARSE_SYNTAX_ERROR") -> NotUnderstood:
        """What to raise at the word that comes next."""
        words = self.statement.words
        here = f"at {words[self.at].text!r}" if self.at < self.last else "at the end"
        near = self.statement.slice(max(0, self.at - 4), min(len(words), self.at + 4))
        message = f"the statement is not understood {here}, in “… {near} …”: {reason}"
        return NotUnderstood(message).named(condition)
