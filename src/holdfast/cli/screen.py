"""Formats output for people: numbers, sizes and times in words, and tables that fit the terminal.

1. Numbers are right-aligned; text is folded, and a cut is always marked. A column without a heading is left out if it
   is empty.
2. Rows with more columns than fit the terminal are printed one below the other, with a line per column.
3. Data is never interpreted as markup, or by the terminal as a control sequence (`cli.visible`).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.cli.visible import screen as screen

LONGEST = 500  # characters of a value that are shown
_NARROWEST = 10  # columns that a folded column needs
_CUT = 20  # columns that a cut name needs
_GAP = 2
_SECONDS = (("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


@dataclass(frozen=True, slots=True)
class Head:
    name: str
    right: bool = False
    whole: bool = False  # never folded
    cut: bool = False  # may be cut to fit, because its beginning identifies it

    @property
    def is_line(self) -> bool:
        return self.right or self.whole or self.cut


def grid(heads: Sequence[Head], rows: Iterable[Sequence[object]]) -> None:
    """Print rows below headings, or one below the other if they are too wide."""
    console = screen()
    cells = [[cell(value) for value in row] for row in rows]
    bare = {at for at, h in enumerate(heads) if not h.name and not any(row[at] for row in cells)}
    heads = [h for at, h in enumerate(heads) if at not in bare]
    cells = [[value for at, value in enumerate(row) if at not in bare] for row in cells]
    widths = [max([len(h.name), *(row[at].cell_len for row in cells)]) for at, h in enumerate(heads)]
    if sum(map(_least, heads, widths)) + _GAP * (len(heads) - 1) > console.width:
        _show_records(console, heads, cells)
        return
    room = console.width - sum(_GAP + (0 if h.cut else w) for h, w in zip(heads, widths, strict=True)) + _GAP
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(
            Text(head.name),
            justify="right" if head.right else "left",
            no_wrap=head.is_line,
            overflow="ellipsis" if head.is_line else "fold",
            max_width=max(_CUT, room) if head.cut else None,
        )
    for row in cells:
        table.add_row(*row)
    console.print(table)


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names and values, a line each."""
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(Text(name), cell(value))
    screen().print(table)


def heading(text: str) -> None:
    console = screen()
    console.print()
    console.print(Text(text, "bold"))


def say(text: str, *, style: str = "") -> None:
    """Print a sentence; on one line if the output is no terminal."""
    console = screen()
    console.print(Text(text, style), soft_wrap=not console.is_terminal)


def cell(value: object) -> Text:
    """A value as the cell of a table."""
    match value:
        case Text():
            return value
        case None:
            return Text("null", "dim")
        case bool():
            return Text("true" if value else "false")
        case bytes():
            return Text(_cut("0x" + value[:LONGEST].hex()))
        case datetime.datetime():
            return Text(_moment(value))
        case dict() | list() | tuple():
            return Text(_cut(msgspec.json.encode(value).decode()))
        case _:
            return Text(_cut(str(value)))


def count_text(count: int, noun: str = "", *, plural: str = "") -> str:
    """`1,234 rows`, `1 row`, or only the number without a noun."""
    if not noun:
        return f"{count:,}"
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def size_text(count: int | None) -> str:
    if count is None:
        return "?"
    size = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"


def time_text(moment: int | datetime.datetime | None) -> str:
    """A time in UTC, to the second, from milliseconds since 1970 or a datetime."""
    if moment is None:
        return "?"
    if isinstance(moment, int):
        moment = datetime.datetime.fromtimestamp(moment / 1000, datetime.UTC)
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


def age_text(then_ms: int, now_ms: int) -> str:
    """How long ago, in the largest unit that fits."""
    return "now" if now_ms - then_ms < 1000 else f"{span_text(now_ms - then_ms)} ago"


def span_text(span_ms: int) -> str:
    """A span of time in the largest unit that fits."""
    seconds = span_ms // 1000
    name, unit = next(((name, unit) for name, unit in _SECONDS if seconds >= unit), _SECONDS[-1])
    return count_text(seconds // unit, name)


def _moment(value: datetime.datetime) -> str:
    """A datetime in full precision, in UTC if it has a zone."""
    local = value.astimezone(datetime.UTC).replace(tzinfo=None) if value.tzinfo else value
    unit = "seconds" if not local.microsecond else "microseconds" if local.microsecond % 1000 else "milliseconds"
    return local.isoformat(" ", timespec=unit)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"


def _least(head: Head, natural: int) -> int:
    """The width below which a column cannot be read."""
    if head.cut:
        return min(natural, _CUT)
    return natural if head.is_line else max(len(head.name), min(natural, _NARROWEST))


def _show_records(console: Console, heads: Sequence[Head], cells: list[list[Text]]) -> None:
    for at, row in enumerate(cells):
        if at:
            console.print()
        table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True, max_width=max(console.width // 3, _NARROWEST))
        table.add_column(overflow="fold")
        for head, value in zip(heads, row, strict=True):
            table.add_row(Text(head.name), value)
        console.print(table)
