"""The lexer: cuts the text of a statement into words where Spark's lexer does.

A part of a statement is a slice of the user's text, and a change is an edit at positions of that text. No text is
rendered from a syntax tree.

1. Words keep the order of the text, do not overlap, and leave out only white space, comments and hints.
2. Every bracket has its partner. A text with an unmatched bracket has no words, and Spark reports the error.
3. Applying edits changes no character outside of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]  # numbers of words, the last not included

BEGINS_QUERY = frozenset(("SELECT", "WITH", "FROM", "VALUES", "TABLE"))
_BETWEEN = re.compile(r"(?:\s+|--(?:\\\r?\n|[^\r\n])*)+")
_COMMENT_MARK = re.compile(r"/\*|\*/")
_NAME = re.compile(r"\w+")
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[lLsSyYdDfF]|[bB][dD])?(?!\w)")
_TEXT = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"", re.DOTALL)
_RAW_TEXT = re.compile(r"[rR](?:'[^']*'|\"[^\"]*\")")
_QUOTED = re.compile(r"`(?:[^`]|``)*`")
_FIELD = re.compile(r"\{(\w+)[^{}]*\}")
_MARKS = ("|>", "::", "->", "=>")
_PARTNERS = {")": "(", "]": "["}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}


class TokenKind(Enum):
    """The kinds of words."""

    NAME = "a keyword or a name"
    QUOTED = "a name between backquotes"
    TEXT = "a string"
    NUMBER = "a number"
    FIELD = "a placeholder of Python's formatting"
    MARK = "an operator or a bracket"


@dataclass(frozen=True, slots=True)
class Word:
    """A word and its position in the text."""

    kind: TokenKind
    start: int
    end: int
    text: str  # as written
    upper: str  # of a name or a mark; empty for other kinds

    @property
    def is_name(self) -> bool:
        return self.kind in (TokenKind.NAME, TokenKind.QUOTED)

    @property
    def name(self) -> str:
        """A name without its quotes."""
        return self.text[1:-1].replace("``", "`") if self.kind is TokenKind.QUOTED else self.text

    @property
    def value(self) -> str:
        """The value of a string literal."""
        if self.text[0] in "rR":
            return self.text[2:-1]
        quote = self.text[0]
        inner = self.text[1:-1].replace(quote * 2, quote)
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), inner, flags=re.DOTALL)


@dataclass(frozen=True, slots=True)
class Statement:
    """A text, its words, and for each opening bracket the number of the word that closes it."""

    text: str
    words: tuple[Word, ...]
    closes: Mapping[int, int] = field(repr=False)

    def upper(self, at: int) -> str:
        """The keyword or mark at a position; empty where there is none."""
        return self.words[at].upper if 0 <= at < len(self.words) else ""

    def kind(self, at: int) -> TokenKind | None:
        return self.words[at].kind if 0 <= at < len(self.words) else None

    def slice(self, first: int, last: int) -> str:
        """The text of words `first` to `last`, which is not included."""
        return self.text[self.words[first].start : self.words[last - 1].end] if first < last else ""

    def after(self, at: int) -> int:
        """The next word; after an opening bracket, the word after its partner."""
        return self.closes[at] + 1 if at in self.closes else at + 1

    def name_end(self, at: int) -> int:
        """The end of the dotted name that begins at a word; the same word where none begins."""
        words, end = self.words, at
        while end < len(words) and words[end].is_name:
            end += 1
            if self.upper(end) != "." or end + 1 >= len(words) or not words[end + 1].is_name:
                return end
            end += 1
        return end

    def names(self, first: int, last: int) -> tuple[str, ...]:
        """The parts of a dotted name."""
        return tuple(w.name for w in self.words[first:last] if w.is_name)


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replaces the characters from `start` to `end`."""

    start: int
    end: int
    text: str


def statement_of(text: str, *, fields: bool = False) -> Statement | None:
    """Cut a text into words; None where that fails. With `fields`, braces are placeholders of Python's formatting."""
    words: list[Word] = []
    at = 0
    while at < len(text):
        if blank := _BETWEEN.match(text, at):
            at = blank.end()
            continue
        if text.startswith("/*", at):
            end = _comment_end(text, at)
            if end is None:
                return None
            at = end
            continue
        word = _word(text, at, fields=fields, after_dot=bool(words) and words[-1].text == ".")
        if word is None:
            return None
        words.append(word)
        at = word.end
    while words and words[-1].upper == ";":
        words.pop()
    closes = _partners(words)
    return None if closes is None else Statement(text, tuple(words), closes)


def applied(text: str, edits: Iterable[Edit], *, start: int = 0, end: int | None = None) -> str:
    """The text from `start` to `end`, with those edits applied that lie within."""
    last = len(text) if end is None else end
    parts: list[str] = []
    at = start
    for edit in sorted({e for e in edits if start <= e.start and e.end <= last}):
        assert at <= edit.start, f"two edits at {edit.start} overlap"
        parts += (text[at : edit.start], edit.text)
        at = edit.end
    return "".join((*parts, text[at:last]))


def _word(text: str, at: int, *, fields: bool, after_dot: bool) -> Word | None:
    for kind, pattern in ((TokenKind.TEXT, _RAW_TEXT), (TokenKind.TEXT, _TEXT), (TokenKind.QUOTED, _QUOTED)):
        if match := pattern.match(text, at):
            return Word(kind, at, match.end(), match[0], "")
    if text[at] in "'\"`":
        return None
    if fields and (match := _FIELD.match(text, at)):
        return Word(TokenKind.FIELD, at, match.end(), match[0], "")
    if not after_dot and (match := _NUMBER.match(text, at)):
        return Word(TokenKind.NUMBER, at, match.end(), match[0], "")
    if match := _NAME.match(text, at):
        return Word(TokenKind.NAME, at, match.end(), match[0], match[0].upper())
    mark = next((m for m in _MARKS if text.startswith(m, at)), text[at])
    return Word(TokenKind.MARK, at, at + len(mark), mark, mark)


def _comment_end(text: str, at: int) -> int | None:
    """Where a comment or a hint ends; comments nest."""
    depth = 0
    for mark in _COMMENT_MARK.finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return None


def _partners(words: list[Word]) -> Mapping[int, int] | None:
    closes: dict[int, int] = {}
    opened: list[int] = []
    for at, word in enumerate(words):
        if word.kind is not TokenKind.MARK:
            continue
        if word.text in _PARTNERS.values():
            opened.append(at)
        elif word.text in _PARTNERS:
            if not opened or words[opened[-1]].text != _PARTNERS[word.text]:
                return None
            closes[opened.pop()] = at
    return None if opened else closes


def split_parts(text: str) -> tuple[str, ...]:
    """Split a dotted name, whose parts may be between backquotes."""
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
