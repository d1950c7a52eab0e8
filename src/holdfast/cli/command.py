"""Options and arguments that commands share, and the decorator for commands about a table.

1. A function that `on_table` decorates gets `target` and `answer` in place of the single options.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any, TypeAlias, cast

import click

from holdfast.cli.failure import debug_option, json_option
from holdfast.cli.output import Answer
from holdfast.cli.target import Target

Function: TypeAlias = Callable[..., Any]
SHOWN = 20  # rows or files that are shown by default


def pairs(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Split texts such as NAME=VALUE."""
    split = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", ctx=ctx, param=param)
        split.append((name.strip(), value.strip()))
    return tuple(split)


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
    """Decorate a command about one table; `iceberg`: of either format."""

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
            # Under another name the process belongs to someone else.
            if click.get_current_context().find_root().info_name == "holdfast" and not options.get("spark"):
                _leave_pandas_out()
            target = Target(table, catalog, dict(storage), allow_outside or allow_root or False)
            return function(target=target, answer=Answer(as_json), **options)

        own = list(getattr(run, "__click_params__", ()))
        decorated: Any = debug_option(_roots(_outside(storage_option(json_option(run)))))
        if iceberg:
            decorated = _catalog(decorated)
        # Click lists the last option first: the shared options come after the command's own.
        decorated.__click_params__ = [*decorated.__click_params__[len(own) :][::-1], *own]
        return cast(Function, click.argument("table")(decorated))

    return decorate


def limit_options(noun: str) -> Callable[[Function], Function]:
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
    """How many to show; None: all. With --json a limit applies only if it is given."""
    if limit is not None and everything:
        raise click.UsageError("--limit and --all exclude each other")
    if limit is not None:
        return limit
    return None if everything or answer.as_json else SHOWN


def where_or_all(where: str | None, everything: bool, verb: str) -> None:
    """Require a condition or `--all`, so that a forgotten condition changes no row."""
    if (where is None) != everything:
        raise click.UsageError(f"say which rows to {verb}: --where with a condition, or --all for every one")
    if where is not None:
        from holdfast.cli.condition import refuse_unreadable

        refuse_unreadable(where)


def change_options(function: Function) -> Function:
    """The options of commands that change rows."""
    mode = click.option(
        "--mode",
        type=click.Choice(["merge-on-read", "copy-on-write", "auto"]),
        help="Hide rows or rewrite files; without it, what the table does.",
    )
    retry = click.option("--retry", type=click.IntRange(min=1), help="How often to try when other writers come first.")
    return mode(retry(message_option(spark_option(function))))


class _NoPandas(MetaPathFinder):
    """Hides pandas from imports. Arrow imports it with its first array, which takes half of a short command; only
    PySpark uses it."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ImportError("this command runs without pandas")


def _leave_pandas_out() -> None:
    """Hide pandas in this process, unless it is already imported."""
    if not any(isinstance(finder, _NoPandas) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NoPandas())
