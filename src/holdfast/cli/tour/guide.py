"""Runs the steps of the tour: prints the text and code of a step, runs the code, prints the result and checks it.

1. The printed code is the code that runs: it is the source of the function that is called.
2. A claim is printed only if it holds; a claim that does not hold ends the tour.
3. The bytes that a step wrote are measured from new and changed files below the tour's directory.
4. The output is at most WIDEST columns wide, and no line of code is broken.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Span, Text

from holdfast.cli.screen import Head, cell, size_text
from holdfast.report.facts import Bytes, TourStep

WIDEST = 100
_INDENT = 4
_GLARING = frozenset({"bright_cyan", "bright_magenta"})
_MEASURE = 84  # columns of a sentence that is good to read


class DoesNotHold(click.ClickException):
    """A claim of the tour that is not true."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The printed text of a function, and the names that it defines."""

    text: str
    names: tuple[str, ...]


def shown(function: Callable[..., Any], *, imports: str = "") -> Shown:
    """The text to type for what a function does."""
    source = textwrap.dedent(inspect.getsource(function))
    [definition] = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef), "the tour shows functions"
    last = definition.body[-1]
    assert isinstance(last, ast.Return), f"{definition.name} ends with what it gives"
    assert last.value is not None, f"{definition.name} gives something"
    lines = source.splitlines()
    typed = lines[definition.body[0].lineno - 1 : last.lineno - 1]
    values = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
    names = tuple(value.id for value in values if isinstance(value, ast.Name))
    if len(names) != len(values):
        names = ()
        typed += [line.replace("return ", "", 1) for line in lines[last.lineno - 1 : last.end_lineno]]
    text = textwrap.dedent("\n".join(typed))
    return Shown(f"{imports}\n\n{text}" if imports else text, names)


@dataclass(slots=True)
class _OpenStep:
    title: str
    says: str
    code: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    seconds: float = 0.0
    written: Bytes = field(default_factory=Bytes)
    skipped: str = ""


class Guide:
    """Runs numbered steps, and records them."""

    def __init__(self, console: Console, home: Path, names: dict[str, Any], *, pause: bool = False) -> None:
        self.console = console
        self.names = names
        self._home = home.resolve()
        self._pause = pause
        self._steps: list[_OpenStep] = []

    @property
    def home(self) -> str:
        """The tour's directory as a URI, as tables spell it."""
        return self._home.as_uri()

    @property
    def steps(self) -> tuple[TourStep, ...]:
        return tuple(
            TourStep(s.title, s.says, "\n\n".join(s.code), tuple(s.checks), s.seconds, s.written, s.skipped)
            for s in self._steps
        )

    def step(self, title: str, says: str) -> None:
        if self._steps:
            self.end()
        self._steps.append(_OpenStep(title, says))
        head = Text.assemble((f"{len(self._steps):>2}  ", "bold cyan"), (title, "bold"))
        self.console.print()
        self.console.print(Rule(head, align="left", style="dim cyan"))
        self._lines(Text(says), width=min(_MEASURE, self.console.width - _INDENT))

    def run(self, function: Callable[..., Any], *, imports: str = "") -> Any:
        """Print code and run it; the names it defines are available to later steps."""
        code = shown(function, imports=imports)
        self.console.print()
        self._lines(_python(code.text), width=max(map(len, code.text.splitlines())))
        step = self._steps[-1]
        step.code.append(code.text)
        before, began = _sizes(self._home), time.perf_counter()
        result = function(*(self.names[name] for name in inspect.signature(function).parameters))
        step.seconds += time.perf_counter() - began
        step.written += _written(before, _sizes(self._home))
        if code.names:
            self.names |= zip(code.names, result if len(code.names) > 1 else (result,), strict=True)
        return result

    def rows(self, rows: pa.Table) -> None:
        heads = [Head(f.name, right=pa.types.is_integer(f.type)) for f in rows.schema]
        self.grid(heads, [tuple(record.values()) for record in rows.to_pylist()])

    def grid(self, heads: Sequence[Head], rows: Iterable[Sequence[Any]]) -> None:
        table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
        for head in heads:
            mark = head.name.startswith("_row")
            table.add_column(
                Text(head.name),
                justify="right" if head.right else "left",
                style="yellow" if mark else "",
                no_wrap=head.is_line,
                overflow="ellipsis",
            )
        for row in rows:
            table.add_row(*map(cell, row))
        self.show(table)

    def bars(self, bars: Sequence[tuple[str, float, str]]) -> None:
        """Print amounts as bars, relative to the largest."""
        most = max(amount for _, amount, _ in bars)
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
        for name, amount, label in bars:
            length = max(1, round(40 * amount / most)) if amount else 0
            table.add_row(Text(name), Text("█" * length or "·", "blue" if length else "dim"), Text(label))
        self.show(table)

    def text(self, text: object) -> None:
        """Print the text of an object, without the tour's directory."""
        self.show(Text(str(text).replace(self.home + "/", "")))

    def check(self, *claims: tuple[str, bool]) -> None:
        """Print claims that hold, or end the tour."""
        for claim, holds in claims:
            if not holds:
                raise DoesNotHold(f"the tour ends here, because this does not hold: {claim}")
        self._steps[-1].checks += [claim for claim, _ in claims]
        self.show(Group(*(Text.assemble(("✓ ", "bold green"), claim) for claim, _ in claims)))

    def skip(self, why: str) -> None:
        """Skip the step, and print why."""
        self._steps[-1].skipped = why
        self.show(Text.assemble(("left out: ", "yellow"), why))

    def show(self, what: RenderableType) -> None:
        """Show anything, after a blank line."""
        self.console.print()
        self._lines(what)

    def _lines(self, what: RenderableType, *, width: int | None = None) -> None:
        """Print indented, without blanks at the ends of lines, so that code can be copied."""
        options = self.console.options.update(width=width or self.console.width - _INDENT)
        for segments in self.console.render_lines(what, options, pad=False):
            line = Text.assemble(" " * _INDENT, *((s.text, s.style or "") for s in segments), no_wrap=True)
            line.rstrip()
            self.console.print(line, soft_wrap=True)

    def end(self) -> None:
        """End the step: print its time, and the bytes it wrote."""
        step = self._steps[-1]
        parts = [f"{step.seconds:.2f} s"] if step.code else []
        if step.written.total:
            kinds = (
                ("data", step.written.data),
                ("deletion vectors", step.written.vectors),
                ("log", step.written.log),
                ("index", step.written.index),
            )
            parts.append("wrote " + ", ".join(f"{size_text(n)} {kind}" for kind, n in kinds if n))
        if parts:
            self.show(Text(" · ".join(parts), "dim"))
        if self._pause:
            click.pause(click.style("\n    Enter for the next step", dim=True))


def _python(code: str) -> Text:
    """Code in colours that are readable on dark and light terminals."""
    text = Syntax("", "python", theme="ansi_dark", background_color="default").highlight(code)
    text.rstrip()
    styles = [(span, span.style) for span in text.spans if isinstance(span.style, Style)]
    spans = [
        Span(span.start, span.end, Style(color=style.color, dim=style.dim))
        for span, style in styles
        if style.color is None or style.color.name not in _GLARING
    ]
    return Text(text.plain, spans=spans)


def _sizes(home: Path) -> dict[Path, tuple[int, int]]:
    """Files below a directory, with sizes and modification times."""
    sizes = {}
    for path in home.rglob("*"):
        if path.is_file():
            status = path.stat()
            sizes[path.relative_to(home)] = (status.st_size, status.st_mtime_ns)
    return sizes


def _written(before: dict[Path, tuple[int, int]], after: dict[Path, tuple[int, int]]) -> Bytes:
    sums = {"data": 0, "vectors": 0, "log": 0, "index": 0}
    for path, size_and_time in after.items():
        if before.get(path) != size_and_time:
            sums[_kind(path)] += size_and_time[0]
    return Bytes(**sums)


def _kind(path: Path) -> str:
    """The kind of a file below a table."""
    if {"_holdfast", "index"} <= set(path.parts):
        return "index"
    if {"_delta_log", "metadata"} & set(path.parts):
        return "log"
    if path.name.startswith("deletion_vector") or path.suffix == ".puffin":
        return "vectors"
    return "data" if path.suffix == ".parquet" else "log"
