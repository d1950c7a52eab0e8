"""`holdfast delete`: take rows out."""

from __future__ import annotations

import click

from holdfast.cli.command import change_options, dry_run_option, on_table, where_option, where_or_all
from holdfast.cli.output import Answer
from holdfast.cli.target import Target
from holdfast.cli.write_result import report_commit, report_plan
from holdfast.terminal import phase


@click.command("delete")
@on_table()
@where_option
@click.option("--all", "everything", is_flag=True, help="Every row.")
@dry_run_option
@change_options
def command(
    target: Target,
    answer: Answer,
    where: str | None,
    everything: bool,
    dry_run: bool,
    mode: str | None,
    retry: int | None,
    message: str | None,
    spark: bool,
) -> None:
    """Take out the rows that satisfy a condition.

    \b
    holdfast delete orders --where "id = 42" --dry-run
    """
    where_or_all(where, everything, "delete")
    table = target.table(spark=spark)
    if dry_run:
        report_plan(answer, table.plan.delete(where, mode=mode))
        return
    with phase("deleting rows"):
        commit = table.delete(where, mode=mode, retry=retry, userMetadata=message)
    report_commit(answer, commit, nothing="no row satisfies the condition: nothing was written")
