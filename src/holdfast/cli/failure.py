"""Prints an error as one sentence on the command line.

1. The sentence is the error's message, with advice for the Python interface replaced by advice for the command line.
2. With `--json` it is one JSON object on stderr, with the error's class and attributes; stdout is not touched.
3. With `--debug` the error is raised with its traceback; `cli.stderr` prints it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import IO, Any, TypeVar

import click
import msgspec

from holdfast.cli.visible import json_line, visible
from holdfast.errors import TableError

_DEBUG, _JSON = "holdfast.debug", "holdfast.json"
F = TypeVar("F", bound=Callable[..., Any])

# Advice for Python -> advice for the command line.
SPELLINGS: tuple[tuple[str, str], ...] = (
    (
        "enable it with enableRowTracking(), or the table property delta.enableRowTracking=true",
        "enable it with `holdfast enable-row-tracking`",
    ),
    ("call enableRowTracking(), which rewrites nothing", "run `holdfast enable-row-tracking`, which rewrites nothing"),
    ("use enableRowTracking()", "use `holdfast enable-row-tracking`"),
    ("with enableRowTracking()", "with `holdfast enable-row-tracking`"),
    (
        "readableVersions() lists those that can, and pin(version, name) keeps one",
        "`holdfast vacuum --dry-run --versions` lists those that can",
    ),
    ("say enforceRetention=False if there are none", "say --force if there are none"),
    ("dropMissing=True takes", "--drop-missing takes"),
    ("say repair=True too", "say --repair too"),
    ("check(repair=True) puts right", "`holdfast check --repair` puts right"),
    ("full=True puts", "--full puts"),
    ("leave maxBytes out", "leave --max-bytes out"),
    ("leave where() out", "leave --where out"),
    ("with optimize(maxBytes=...)", "with --max-bytes"),
    ("use executeCompaction(), or cluster it by other columns with clusterBy", "leave --z-order-by out"),
    (
        "call addFeatureSupport('domainMetadata') first",
        "run `holdfast properties TABLE delta.feature.domainMetadata=supported` first",
    ),
    (
        'leave them out with missing="skip", or have nulls for them with missing="null"; biography(id) tells',
        "leave them out with --skip-missing; `holdfast biography TABLE ID` tells",
    ),
    ("leave it out, or say ifExists=True", "leave it out"),
    ("use a Spark session, or write it otherwise", "add --spark, or write it otherwise"),
    ("scan with Spark, or leave this condition out", "ask with `holdfast sql`, or leave this condition out"),
    ("pass them as storage_options", "pass them with --storage"),
)
_PATTERNS = (
    (re.compile(r"call rebuildIndex\('([^']*)'\)"), r"run `holdfast index rebuild TABLE \1`"),
    (re.compile(r"metadata=\['_row_(?:id|commit_version)'\]"), "--ids"),
)


class CommandRefused(click.ClickException):
    """The error that ends a command."""

    exit_code = 1

    def __init__(self, error: TableError, *, as_json: bool) -> None:
        super().__init__(sentence(error))
        self.error = error
        self.as_json = as_json

    def show(self, file: IO[Any] | None = None) -> None:
        if self.as_json:
            facts = {name: value for name, value in vars(self.error).items() if isinstance(value, int | str | tuple)}
            line = {"error": type(self.error).__name__, "message": self.message, **facts}
            click.echo(json_line(msgspec.json.encode(line)), err=True)
            return
        click.echo(f"{click.style('Error:', fg='red', bold=True)} {visible(self.message)}", file=file or sys.stderr)


def sentence(error: TableError) -> str:
    """The message of an error, with advice for the command line."""
    text = str(error)
    for python, shell in SPELLINGS:
        text = text.replace(python, shell)
    for pattern, shell in _PATTERNS:
        text = pattern.sub(shell, text)
    return text


def wants_traceback(ctx: click.Context) -> bool:
    return bool(ctx.find_root().meta.get(_DEBUG))


def wants_json(ctx: click.Context) -> bool:
    return bool(ctx.find_root().meta.get(_JSON))


def _setting(key: str) -> Callable[[click.Context, click.Parameter, bool], bool]:
    def note(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
        if value:
            ctx.find_root().meta[key] = True
        return value

    return note


def debug_option(command: F) -> F:
    """The option `--debug`, before or after the name of a command."""
    return click.option(
        "--debug", is_flag=True, expose_value=False, callback=_setting(_DEBUG), help="Show the traceback of an error."
    )(command)


def json_option(command: F) -> F:
    """The option `--json`, which applies to errors too."""
    return click.option(
        "--json", "as_json", is_flag=True, callback=_setting(_JSON), help="Print JSON: one object per line."
    )(command)
