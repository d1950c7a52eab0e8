"""`holdfast sql`: a SELECT over tables, on Spark.

1. Tables are temporary views. Nothing is written: a statement that would write is refused, and the error names the
   command for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

import click
from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

import holdfast
from holdfast.cli.command import limit_options, most, pairs, storage_option
from holdfast.cli.failure import debug_option, json_option
from holdfast.cli.output import Answer
from holdfast.cli.rows import IDS, print_rows
from holdfast.cli.target import Target
from holdfast.errors import Invalid
from holdfast.terminal import phase
from holdfast.verbs.open.engine import spark_engine

_BY_PATH = re.compile(r"(?:delta\s*\.\s*)?`([^`]+)`")
_INSTEAD = {
    exp.Delete: "holdfast delete",
    exp.Update: "holdfast update",
    exp.Merge: "holdfast merge",
    exp.Insert: "holdfast append",
    exp.Create: "holdfast append --create",
}


@click.command("sql")
@click.argument("query")
@click.option(
    "--table",
    "-t",
    "tables",
    multiple=True,
    metavar="NAME=TABLE",
    callback=pairs,
    help="Call a table by a name in the query; repeat it for more.",
)
@click.option("--ids", is_flag=True, help="Give every table the columns _row_id and _row_commit_version.")
@limit_options("rows")
@json_option
@storage_option
@debug_option
def command(
    query: str,
    tables: tuple[tuple[str, str], ...],
    ids: bool,
    limit: int | None,
    everything: bool,
    as_json: bool,
    storage: tuple[tuple[str, str], ...],
) -> None:
    """A SELECT over tables, on Spark, which takes a few seconds to start.

    Tables are named with --table, or by their paths between backquotes.

    \b
    holdfast sql "SELECT customer, sum(cents) FROM o GROUP BY customer" -t o=warehouse/orders
    holdfast sql 'SELECT count(*) FROM `warehouse/orders`'
    """
    answer = Answer(as_json)
    text, paths = _with_names(query, dict(tables))
    _refuse_unfit(text, paths)
    opened = {name: Target(path, storage=dict(storage)) for name, path in paths.items()}
    for target in opened.values():
        target.delta()  # a missing table is an error before Spark starts
    shown = most(answer, limit, everything)
    with phase("starting Spark"):
        spark = holdfast.session("holdfast sql")
    try:
        for name, target in opened.items():
            target.table(spark=True).scan(metadata=IDS if ids else ()).createOrReplaceTempView(name)
        with phase("running the query"):
            frame = spark.sql(text)
            rows = (frame if shown is None else frame.limit(shown + 1)).toArrow()
    except spark_engine(spark).failures as error:
        raise Invalid(_first_line(error)) from error
    print_rows(answer, rows, limit=shown)


def _with_names(query: str, tables: dict[str, str]) -> tuple[str, dict[str, str]]:
    """The query with names in place of paths, and the paths by name."""
    paths = dict(tables)

    def name_of(match: re.Match[str]) -> str:
        path = match[1]
        if path in tables or not ("/" in path or os.path.isdir(os.path.join(path, "_delta_log"))):
            return match[0]
        name = next((other for other, at in paths.items() if at == path), f"holdfast_{len(paths)}")
        paths[name] = path
        return name

    return _BY_PATH.sub(name_of, query), paths


def _refuse_unfit(query: str, names: Collection[str]) -> None:
    """Refuse a statement that is no query, or uses unknown tables, before Spark starts."""
    try:
        statement = parse_one(query, dialect="spark")
    except SqlglotError:
        return  # Spark says what is wrong with it
    for kind, instead in _INSTEAD.items():
        if isinstance(statement, kind):
            raise Invalid(f"sql reads and does not write: use `{instead}`, which also has --dry-run")
    if not isinstance(statement, exp.Query):
        raise Invalid(f"sql answers SELECT, not {statement.key.upper()}: ask for rows")
    allowed = {name.lower() for name in (*names, *(cte.alias for cte in statement.find_all(exp.CTE)))}
    for table in statement.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and table.name.lower() not in allowed:
            raise Invalid(
                f"the query names {table.name}, and nobody said where it is: add --table {table.name}=PATH, or put the "
                "path itself between backquotes"
            )


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"Spark says: {lines[0]}" if lines else "Spark gave no reason"
