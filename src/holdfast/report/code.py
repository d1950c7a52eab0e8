"""Renders Python code as HTML, with comments, strings and keywords marked."""

from __future__ import annotations

import io
import keyword
import tokenize
from html import escape


def python(code: str) -> str:
    """Code as HTML; without the markup it is the same code."""
    lines = code.splitlines(keepends=True)
    parts, row, column = [], 1, 0
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        shape = _shape(token)
        if shape is None:
            continue
        parts += [
            escape(_between(lines, (row, column), token.start)),
            f'<span class="{shape}">{escape(token.string)}</span>',
        ]
        row, column = token.end
    rest = escape(_between(lines, (row, column), (len(lines) + 1, 0)))
    return f"<pre><code>{''.join(parts)}{rest}</code></pre>"


def _shape(token: tokenize.TokenInfo) -> str | None:
    if token.type == tokenize.COMMENT:
        return "c"
    if token.type == tokenize.STRING:
        return "s"
    return "k" if token.type == tokenize.NAME and keyword.iskeyword(token.string) else None


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """The text between two positions, each a row (from 1) and a column."""
    (row, column), (last, until) = start, end
    if row == last:
        return lines[row - 1][column:until] if row <= len(lines) else ""
    middle = lines[row - 1 : last - 1]
    head = middle[0][column:] if middle else ""
    tail = lines[last - 1][:until] if last <= len(lines) else ""
    return head + "".join(middle[1:]) + tail
