"""`holdfast tour`: shows what Holdfast does on sample tables, and writes an HTML report.

1. Tables are in a temporary directory, which is deleted afterwards unless `--keep` is set.
2. Steps that need Java or pyiceberg are skipped without them, with a note.
3. `--help` loads no Spark: the steps are imported when the tour begins.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from holdfast.cli.failure import debug_option, json_option
from holdfast.cli.output import Answer
from holdfast.cli.screen import count_text
from holdfast.cli.tour.guide import WIDEST
from holdfast.env import system
from holdfast.errors import Invalid
from holdfast.report.facts import Facts
from holdfast.report.page import page

QUICK_ROWS, ROWS = 30_000, 300_000  # a day
PAGE, TABLES = "holdfast-tour.html", "holdfast-tour"


@click.command("tour")
@click.option("--quick", is_flag=True, help="Smaller tables: about a minute.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("."),
    metavar="DIR",
    help="Where the report goes; the current directory if nothing is said.",
)
@click.option("--no-report", is_flag=True, help="Write no report.")
@click.option("--keep", is_flag=True, help=f"Keep the tables too, as {TABLES} beside the report.")
@click.option("--pause", is_flag=True, help="Wait for Enter after each step.")
@json_option
@debug_option
def command(*, quick: bool, out: Path, no_report: bool, keep: bool, pause: bool, as_json: bool) -> None:
    """What Holdfast does, shown on tables made on the spot.

    Every line of code on the screen is the code that runs, and every claim is checked: the tour ends with an error
    where one does not hold. It ends with a report, an HTML page that needs no network.
    """
    rows = QUICK_ROWS if quick else ROWS
    console = _console(quiet=as_json)
    from holdfast.cli.tour import session as spark
    from holdfast.cli.tour import story

    with _directory(out / TABLES if keep else None) as home, spark.prepared() as no_spark:
        _welcome(console, rows * story.DAYS)
        facts = story.take(story.Scene(home, rows, no_spark, pause and not as_json), console, system())
    if as_json:
        Answer(as_json).lines([facts])
    written = None if no_report else _report(out, facts)
    _farewell(console, facts, written, out / TABLES if keep else None)


def _console(*, quiet: bool) -> Console:
    """The terminal, at most WIDEST columns wide; exactly WIDEST if the output is no terminal."""
    terminal = Console(quiet=quiet)
    return Console(width=min(terminal.width, WIDEST) if terminal.is_terminal else WIDEST, highlight=False, quiet=quiet)


@contextmanager
def _directory(keep_in: Path | None) -> Iterator[Path]:
    """The directory of the tables: new, and temporary unless it is kept."""
    if keep_in is None:
        with tempfile.TemporaryDirectory(prefix="holdfast-tour-") as temporary:
            yield Path(temporary)
        return
    if keep_in.exists():
        raise Invalid(f"{keep_in} is there already: remove it, or choose another place with --out")
    keep_in.mkdir(parents=True)
    yield keep_in


def _report(out: Path, facts: Facts) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    written = out / PAGE
    written.write_text(page(facts), encoding="utf-8")
    return written


def _welcome(console: Console, orders: int) -> None:
    greeting = Text.assemble(
        ("Holdfast", "bold"),
        ": files churn, rows hold fast.\n\n",
        f"A tour on {count_text(orders, 'made-up order')}. ",
        "You see the code that runs; each ",
        ("✓", "bold green"),
        " was checked.",
    )
    console.print()
    console.print(Panel(greeting, border_style="cyan", padding=(1, 3)))


def _farewell(console: Console, facts: Facts, written: Path | None, tables: Path | None) -> None:
    checks = sum(len(step.checks) for step in facts.steps)
    lines = [
        Text.assemble(
            (f"That was Holdfast, in {facts.seconds:.0f} seconds: ", "bold"),
            f"{len(facts.life.versions)} versions, {len(facts.life.files)} files, {checks} claims, all of them true.",
        )
    ]
    if written is not None:
        lines.append(Text.assemble("the report   ", (str(written), "bold cyan"), "  open it in a browser"))
    if tables is not None:
        lines.append(Text.assemble("the tables   ", (str(tables), "bold cyan"), f"  holdfast history {tables}/orders"))
    lines.append(Text.assemble("go on        ", ("holdfast --help", "bold cyan")))
    console.print()
    console.print(Panel(Text("\n").join([lines[0], Text(""), *lines[1:]]), border_style="cyan", padding=(1, 3)))
    console.print()
