"""`holdfast doctor`: what this machine can run, what it lacks, and what to do.

1. The exit code is 1 exactly when a check says that Holdfast cannot work here.
2. `--json` prints the same findings as the table, one object, and nothing else.
"""

from __future__ import annotations

import sys

import click
import msgspec
from rich.table import Table
from rich.text import Text

from holdfast.cli.doctor.checks import CHECKS, STARTS, Check
from holdfast.cli.visible import json_line, screen

_MARKS = {True: ("ok", "green"), None: ("optional", "yellow"), False: ("missing", "bold red")}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@click.option("--start", is_flag=True, help="Also start Spark in all three ways; takes a minute or two.")
def command(*, as_json: bool, start: bool) -> None:
    """Look at this machine: versions, Java, ways to run Spark, object store connectors."""
    checks = [check() for check in (*CHECKS, *(STARTS if start else ()))]
    well = all(check.ok is not False for check in checks)
    if as_json:
        click.echo(json_line(msgspec.json.encode({"ok": well, "checks": checks})))
    else:
        _show(checks, well)
    sys.exit(0 if well else 1)


def _show(checks: list[Check], well: bool) -> None:
    table = Table("", "what", "found", box=None, padding=(0, 2, 0, 0), header_style="bold")
    for check in checks:
        mark, style = _MARKS[check.ok]
        table.add_row(Text(mark, style), Text(check.name), Text(check.found))
    console = screen()
    console.print(table)
    for check in checks:
        if check.advice:
            console.print()
            console.print(Text(check.name, _MARKS[check.ok][1]), Text(check.advice), sep=": ")
    console.print()
    console.print("Holdfast can run here." if well else "Holdfast cannot run here yet: see the lines marked missing.")
