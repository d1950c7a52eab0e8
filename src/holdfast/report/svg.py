"""Elements of SVG and HTML as text, and accessible figures.

1. All given text is escaped, in content and in attributes.
2. Colours are classes, so that the style sheet sets them for light, dark and paper.
3. Every figure has a title, a description, and its numbers as a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

_HOLLOW = frozenset({"rect", "line", "circle", "path", "polyline"})


@dataclass(frozen=True, slots=True)
class NumberTable:
    """The numbers of a drawing: headings, and rows below them."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing with its texts and numbers."""

    name: str  # unique on its page
    title: str
    says: str  # below the title
    about: str  # the description for screen readers
    svg: str
    numbers: NumberTable


def tag(name: str, *inner: str, **attributes: object) -> str:
    """An element; `inner` is markup. Underscores in attribute names become hyphens; a trailing one is dropped."""
    rendered = "".join(
        f' {_name(key)}="{escape(_value(value))}"' for key, value in attributes.items() if value is not None
    )
    return f"<{name}{rendered}/>" if name in _HOLLOW and not inner else f"<{name}{rendered}>{''.join(inner)}</{name}>"


def text(x: float, y: float, content: str, **attributes: object) -> str:
    return tag("text", escape(content), x=x, y=y, **attributes)


def hint(content: str) -> str:
    """The tooltip of an element, which is also its name for screen readers."""
    return tag("title", escape(content))


def drawing(name: str, title: str, about: str, width: float, height: float, *parts: str) -> str:
    """A whole drawing, scaled to the width of the page."""
    ids = f"{name}-title {name}-about"
    return tag(
        "svg",
        tag("title", escape(title), id=f"{name}-title"),
        tag("desc", escape(about), id=f"{name}-about"),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_value(width)} {_value(height)}",
        role="img",
        aria_labelledby=ids,
        style=f"min-width:{_value(round(width * 0.62))}px",
    )


def table(numbers: NumberTable) -> str:
    first = numbers.rows[0] if numbers.rows else numbers.heads
    heads = "".join(
        tag("th", escape(head), scope="col", class_=_align(at, below))
        for at, (head, below) in enumerate(zip(numbers.heads, first, strict=True))
    )
    rows = "".join(tag("tr", *(_cell(at, value) for at, value in enumerate(row))) for row in numbers.rows)
    return tag("div", tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows)), class_="scroll")


def _cell(at: int, value: str) -> str:
    if at == 0:
        return tag("th", escape(value), scope="row")
    return tag("td", escape(value), class_=_align(at, value))


def _align(at: int, value: str) -> str | None:
    """Numbers are right-aligned, except in the first column."""
    return "number" if at and value[:1].isdigit() else None


def _name(key: str) -> str:
    return key.removesuffix("_").replace("_", "-")


def _value(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
