"""`holdfast show`: rows of a table, read in this process without Spark."""

from __future__ import annotations

import click

from holdfast.cli.command import at_option, columns_option, limit_options, most, on_table, version_option, where_option
from holdfast.cli.output import Answer
from holdfast.cli.rows import IDS, print_rows, read, request_of
from holdfast.cli.target import Target, columns_of
from holdfast.terminal import phase


@click.command("show")
@on_table(iceberg=True)
@columns_option
@where_option
@limit_options("rows")
@click.option("--ids", is_flag=True, help="Add the row's id and the version of its content.")
@version_option
@at_option
def command(
    target: Target,
    answer: Answer,
    columns: tuple[str, ...],
    where: str | None,
    limit: int | None,
    everything: bool,
    ids: bool,
    version: str | None,
    at: str | None,
) -> None:
    """Rows of a table, now or at an earlier version.

    \b
    holdfast show orders --where "cents > 1000" --columns id,cents
    holdfast show orders --version 3 --ids --json | jq .id
    """
    opened = target.open(version, at)
    request = request_of(opened, columns_of(columns), where, IDS if ids else ())
    shown = most(answer, limit, everything)
    reader = read(opened, request, limit=shown)
    with phase("reading rows"):
        rows = reader if answer.as_json and shown is None else reader.read_all()
    print_rows(answer, rows, limit=shown)
