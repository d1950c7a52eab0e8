"""`holdfast take`: rows by their ids, without a scan and without Spark."""

from __future__ import annotations

import click

from holdfast.cli.command import at_option, columns_option, on_table, version_option
from holdfast.cli.output import Answer
from holdfast.cli.rows import IDS, print_rows
from holdfast.cli.target import Target, columns_of, number_or_name
from holdfast.terminal import phase


@click.command("take")
@on_table()
@click.argument("row_ids", type=int, nargs=-1, required=True)
@columns_option
@click.option("--skip-missing", is_flag=True, help="Leave out ids that no row has; else they are an error.")
@version_option
@at_option
def command(
    target: Target,
    answer: Answer,
    row_ids: tuple[int, ...],
    columns: tuple[str, ...],
    skip_missing: bool,
    version: str | None,
    at: str | None,
) -> None:
    """Rows by their ids, in the order asked.

    \b
    holdfast take orders 17 4 1032
    """
    table = target.table()
    with phase("reading rows"):
        rows = table.take(
            list(row_ids),
            columns_of(columns),
            number_or_name(version),
            at,
            IDS,
            "skip" if skip_missing else "error",
        )
    print_rows(answer, rows, limit=None)
