"""`holdfast update`: set columns of rows."""

from __future__ import annotations

import click

from holdfast.cli.command import change_options, dry_run_option, on_table, pairs, where_option, where_or_all
from holdfast.cli.output import Answer
from holdfast.cli.target import Target
from holdfast.cli.write_result import report_commit, report_plan
from holdfast.terminal import phase


@click.command("update")
@on_table()
@click.option(
    "--set",
    "-s",
    "sets",
    multiple=True,
    required=True,
    metavar="COLUMN=SQL",
    callback=pairs,
    help="A column and its value, as SQL text; repeat it for more.",
)
@where_option
@click.option("--all", "everything", is_flag=True, help="Every row.")
@dry_run_option
@change_options
def command(
    target: Target,
    answer: Answer,
    sets: tuple[tuple[str, str], ...],
    where: str | None,
    everything: bool,
    dry_run: bool,
    mode: str | None,
    retry: int | None,
    message: str | None,
    spark: bool,
) -> None:
    """Set columns of the rows that satisfy a condition.

    \b
    holdfast update orders --set "cents=cents + 100" --set "note='corrected'" --where "id = 42"
    """
    where_or_all(where, everything, "update")
    table = target.table(spark=spark)
    if dry_run:
        report_plan(answer, table.plan.update(where, dict(sets), mode=mode))
        return
    with phase("updating rows"):
        commit = table.update(where, dict(sets), mode=mode, retry=retry, userMetadata=message)
    report_commit(answer, commit, nothing="no row satisfies the condition: nothing was written")
