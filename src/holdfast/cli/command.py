"""What commands about a table have in common: the table, how to reach it, how to answer.

1. A function that is decorated gets `target` and `answer` in the place of the single options.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, TypeAlias, cast

import click

from holdfast.cli.failure import debug_option, json_option
from holdfast.cli.no_pandas import leave_pandas_out
from holdfast.cli.output import Answer
from holdfast.cli.target import Target

Function: TypeAlias = Callable[..., Any]
SHOWN = 20  # of anything, where nobody says how many


def pairs(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Texts such as NAME=VALUE, taken apart."""
    found = []
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", ctx=ctx, param=param)
        found.append((name.strip(), value.strip()))
    return tuple(found)


dry_run_option = click.option("--dry-run", "-n", is_flag=True, help="Say what would happen, and write nothing.")
spark_option = click.option("--spark", is_flag=True, help="Run on Spark, for tables too large for this process.")
where_option = click.option("--where", "-w", metavar="SQL", help="Only rows that satisfy a condition, as SQL text.")
version_option = click.option("--version", "-v", metavar="N", help="An earlier version: a number, or a pinned name.")
at_option = click.option("--at", metavar="TIME", help="The version at a time: 2024-05-01, '2024-05-01 12:30' (UTC).")
columns_option = click.option(
    "--columns", "-c", multiple=True, metavar="A,B", help="Only these columns, in this order; with commas or repeated."
)
message_option = click.option("--message", "-m", metavar="TEXT", help="A text to keep with the commit.")

_catalog = click.option(
    "--catalog", metavar="NAME", help="TABLE is a name in an Iceberg catalog: pyiceberg's, or a .db file."
)
storage_option = click.option(
    "--storage",
    multiple=True,
    metavar="NAME=VALUE",
    callback=pairs,
    help="How to reach the storage, such as aws_endpoint=...; repeat it for more.",
)
_outside = click.option("--allow-outside", is_flag=True, help="Follow paths in the log that lead anywhere.")
_roots = click.option(
    "--allow-root",
    multiple=True,
    metavar="DIR",
    help="Follow paths in the log that lead below DIR; repeat it for more.",
)


def on_table(*, iceberg: bool = False) -> Callable[[Function], Function]:
    """A command about one table; `iceberg`: of either format."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def run(
            *,
            table: str,
            storage: tuple[tuple[str, str], ...],
            allow_outside: bool,
            allow_root: tuple[str, ...],
            as_json: bool,
            catalog: str | None = None,
            **options: Any,
        ) -> Any:
            # Under any other name this is not the command's own process.
            if click.get_current_context().find_root().info_name == "holdfast" and not options.get("spark"):
                leave_pandas_out()
            target = Target(table, catalog, dict(storage), allow_outside or allow_root or False)
            return function(target=target, answer=Answer(as_json), **options)

        own = list(getattr(run, "__click_params__", ()))
        found: Any = debug_option(_roots(_outside(storage_option(json_option(run)))))
        if iceberg:
            found = _catalog(found)
        # Click lists what was added last first: what every command has comes after what this one has.
        found.__click_params__ = [*found.__click_params__[len(own) :][::-1], *own]
        return cast(Function, click.argument("table")(found))

    return decorate


def limit_options(noun: str) -> Callable[[Function], Function]:
    """`--limit` and `--all`, for what may be long."""

    def decorate(function: Function) -> Function:
        limit = click.option(
            "--limit",
            "-l",
            type=click.IntRange(min=0),
            help=f"At most so many {noun}; without it {SHOWN}, or with --json all.",
        )
        return limit(click.option("--all", "everything", is_flag=True, help="All of them.")(function))

    return decorate


def most(answer: Answer, limit: int | None, everything: bool) -> int | None:
    """How much to show; None: all. A program is never given a part that it did not ask for."""
    if limit is not None and everything:
        raise click.UsageError("--limit and --all exclude each other")
    if limit is not None:
        return limit
    return None if everything or answer.as_json else SHOWN


def where_or_all(where: str | None, everything: bool, verb: str) -> None:
    """Refuse to change every row because a condition was forgotten."""
    if (where is None) != everything:
        raise click.UsageError(f"say which rows to {verb}: --where with a condition, or --all for every one")
    if where is not None:
        import_module("holdfast.cli.condition").refuse_unreadable(where)


def change_options(function: Function) -> Function:
    """How rows are changed."""
    mode = click.option(
        "--mode",
        type=click.Choice(["merge-on-read", "copy-on-write", "auto"]),
        help="Hide rows or rewrite files; without it, what the table does.",
    )
    retry = click.option("--retry", type=click.IntRange(min=1), help="How often to try when other writers come first.")
    return mode(retry(message_option(spark_option(function))))
