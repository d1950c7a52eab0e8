"""The text of a statement, cut into words where Spark's lexer cuts it.

Everything that is done to a statement is done by position in what the user wrote: a part of it is a slice of the text,
and a change of it is an edit between two words. Nothing is rendered.

1. Words are in the order of the text, do not overlap, and leave out only white space, comments and hints.
2. Every bracket has its partner; a text of which that is not true has no words, and Spark says what is wrong with it.
3. Applying edits leaves every character outside of them as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

_BETWEEN = re.compile(r"(?:\s+|--(?:\\\r?\n|[^\r\n])*)+")
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
    """What a word is."""

    NAME = "a keyword or a name"
    QUOTED = "a name between backquotes"
    TEXT = "a string"
    NUMBER = "a number"
    FIELD = "a place that Python's formatting fills"
    MARK = "an operator or a bracket"


@dataclass(frozen=True, slots=True)
class Word:
    """A word and where it stands."""

    kind: TokenKind
    start: int
    end: int
    text: str  # as written
    upper: str  # of a keyword or a mark, to compare with; empty for what cannot be one

    @property
    def is_name(self) -> bool:
        return self.kind in (TokenKind.NAME, TokenKind.QUOTED)

    @property
    def name(self) -> str:
        """A name without its quotes."""
        return self.text[1:-1].replace("``", "`") if self.kind is TokenKind.QUOTED else self.text

    @property
    def value(self) -> str:
        """What a string says."""
        if self.text[0] in "rR":
            return self.text[2:-1]
        quote = self.text[0]
        inner = self.text[1:-1].replace(quote * 2, quote)
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), inner, flags=re.DOTALL)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement: its text, its words, and the partner of every bracket by the number of its word."""

    text: str
    words: tuple[Word, ...]
    closes: Mapping[int, int] = field(repr=False)

    def upper(self, at: int) -> str:
        """The keyword or mark at a place; empty where there is none."""
        return self.words[at].upper if 0 <= at < len(self.words) else ""

    def kind(self, at: int) -> TokenKind | None:
        return self.words[at].kind if 0 <= at < len(self.words) else None

    def slice(self, first: int, last: int) -> str:
        """The text of words `first` to `last`, which is not included."""
        return self.text[self.words[first].start : self.words[last - 1].end] if first < last else ""

    def after(self, at: int) -> int:
        """The word after the one at a place, or after the bracket that closes there."""
        return self.closes[at] + 1 if at in self.closes else at + 1


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Put a text in the place of the characters from `start` to `end`."""

    start: int
    end: int
    text: str


def statement_of(text: str, *, fields: bool = False) -> Statement | None:
    """A statement, cut into words; None where it cannot be cut. `fields`: the text is one for Python's formatting."""
    words: list[Word] = []
    at = 0
    while at < len(text):
        if found := _BETWEEN.match(text, at):
            at = found.end()
            continue
        if text.startswith("/*", at):
            ended = _comment_end(text, at)
            if ended is None:
                return None
            at = ended
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
    """The text from `start` to `end`, with the edits made that lie within."""
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
        if found := pattern.match(text, at):
            return Word(kind, at, found.end(), found[0], "")
    if text[at] in "'\"`":
        return None
    if fields and (found := _FIELD.match(text, at)):
        return Word(TokenKind.FIELD, at, found.end(), found[0], "")
    if not after_dot and (found := _NUMBER.match(text, at)):
        return Word(TokenKind.NUMBER, at, found.end(), found[0], "")
    if found := _NAME.match(text, at):
        return Word(TokenKind.NAME, at, found.end(), found[0], found[0].upper())
    mark = next((m for m in _MARKS if text.startswith(m, at)), text[at])
    return Word(TokenKind.MARK, at, at + len(mark), mark, mark)


def _comment_end(text: str, at: int) -> int | None:
    """Where a comment or a hint ends; comments nest."""
    depth, here = 0, at
    for found in re.compile(r"/\*|\*/").finditer(text, at):
        depth += 1 if found[0] == "/*" else -1
        here = found.end()
        if depth == 0:
            return here
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
