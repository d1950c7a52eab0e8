"""Splits an expression of a table's metadata into tokens, as every engine would.

1. Characters that no rule accepts are refused, as are comments, hints and parameters.
2. So is `${`, which Spark would replace by a setting or an environment variable.
3. A text in double quotes, which some sessions read as a name, has no quote and no backslash in it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LONGEST = 1 << 16

_TOKEN = re.compile(
    r"""
      (?P<space> [ \t\r\n]+ )
    | (?P<raw> [rR]'[^']*' )
    | (?P<string> '(?: [^'\\] | \\. | '' )*' )
    | (?P<double> "[^"\\']*"(?!") )
    | (?P<quoted> `(?: [^`] | `` )+` )
    | (?P<number> (?: [0-9]+\.?[0-9]* | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? (?: [bB][dD] | [lLsSyYdDfF] )? (?![\w.]) )
    | (?P<word> [^\W\d]\w* )
    | (?P<symbol> <=> | >>> | \|\| | -> | :: | << | >> | <= | >= | <> | != | == | [-+*/%&|^~!=<>()\[\],.:] )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"--|/\*|\*/")


class RefusedExpression(Exception):
    """Why an expression is not evaluated; the message continues a sentence about the expression."""


class Token(NamedTuple):
    """A word, literal or symbol."""

    kind: str
    text: str

    @property
    def upper(self) -> str:
        """A word in capitals; empty for everything else."""
        return self.text.upper() if self.kind == "word" else ""


END = Token("end", "")


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text, without spaces."""
    if len(text) > _LONGEST:
        raise RefusedExpression(f"has {len(text)} characters, and at most {_LONGEST} are read")
    if "${" in text:
        raise RefusedExpression("has ${, which stands for a setting or a variable of the environment")
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or _COMMENT.match(text, at):
            raise RefusedExpression(f"cannot be read at {text[at : at + 20]!r}")
        assert token.lastgroup is not None, "every alternative is named"
        if token.lastgroup != "space":
            tokens.append(Token(token.lastgroup, token[0]))
        at = token.end()
    return tokens


def unquoted(token: Token) -> str:
    """The name of a word or a quoted name."""
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"
