"""`holdfast merge`: bring the rows of a file into a table, each where it belongs."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.command import change_options, dry_run_option, on_table
from holdfast.cli.incoming import file_argument, format_option, read_files
from holdfast.cli.output import Answer
from holdfast.cli.target import Target, columns_of
from holdfast.cli.write_result import report_commit, report_plan
from holdfast.errors import UnknownColumn
from holdfast.plan.scan.request import known_columns, refuse_unknown
from holdfast.schema.constraints import quoted
from holdfast.schema.types import Struct
from holdfast.terminal import phase


@click.command("merge")
@on_table()
@file_argument
@format_option
@click.option(
    "--on",
    multiple=True,
    required=True,
    metavar="A,B|SQL",
    help="The columns that tell which row is which, or a condition over t (the table) and s (the file).",
)
@click.option("--no-update", is_flag=True, help="Leave rows that match as they are.")
@click.option("--no-insert", is_flag=True, help="Leave out rows of the file that match nothing.")
@click.option("--delete-when", metavar="SQL", help="Delete rows that match where this is true, such as s.gone.")
@click.option("--delete-missing", is_flag=True, help="Delete rows of the table that no row of the file matches.")
@click.option("--evolve", is_flag=True, help="Add columns of the file that the table lacks.")
@click.option("--keep", type=click.Choice(["first", "last"]), help="Of rows of the file with one key; goes with --by.")
@click.option("--by", "order_by", metavar="COLUMN", help="The column that says which is first.")
@dry_run_option
@change_options
def command(
    target: Target,
    answer: Answer,
    file: str,
    format_: str | None,
    on: tuple[str, ...],
    no_update: bool,
    no_insert: bool,
    delete_when: str | None,
    delete_missing: bool,
    evolve: bool,
    keep: str | None,
    order_by: str | None,
    dry_run: bool,
    mode: str | None,
    retry: int | None,
    message: str | None,
    spark: bool,
) -> None:
    """Update the rows that a file matches and insert the others.

    \b
    holdfast merge orders new.parquet --on id
    holdfast merge orders new.csv --on id --delete-when "s.gone" --dry-run
    """
    if (keep is None) != (order_by is None):
        raise click.UsageError("--keep and --by go together: which row counts, and by which column")
    if no_update and no_insert and not delete_missing and delete_when is None:
        raise click.UsageError("with --no-update and --no-insert nothing is left to do: take one of them out")
    table = target.table(spark=spark)
    snapshot = target.delta().snapshot
    rows = read_files([file], format_, snapshot.schema)
    condition = _condition(on, known_columns(snapshot, ()), rows.column_names)
    merge = table.alias("t").merge(
        rows,
        condition,
        mode=mode,
        duplicates=keep or "error",
        orderBy=order_by,
        retry=retry,
        userMetadata=message,
    )
    merge = _with_clauses(merge, no_update, no_insert, delete_when, delete_missing)
    if evolve:
        merge = merge.withSchemaEvolution()
    if dry_run:
        report_plan(answer, merge.plan())
        return
    with phase("merging rows"):
        commit = merge.execute()
    report_commit(answer, commit, nothing="the table had it all: nothing was written")


def _with_clauses(merge: Any, no_update: bool, no_insert: bool, delete_when: str | None, delete_missing: bool) -> Any:
    if delete_when is not None:
        merge = merge.whenMatchedDelete(delete_when)
    if not no_update:
        merge = merge.whenMatchedUpdateAll()
    if not no_insert:
        # A row that would be deleted is not inserted.
        merge = merge.whenNotMatchedInsertAll(None if delete_when is None else f"NOT coalesce({delete_when}, false)")
    return merge.whenNotMatchedBySourceDelete() if delete_missing else merge


def _condition(on: tuple[str, ...], table: Struct, file: list[str]) -> str:
    """The condition: `on` itself, or equality of the columns it names."""
    if len(on) == 1 and any(sign in on[0] for sign in "=<>"):
        return on[0]
    names = columns_of(on) or []
    refuse_unknown(names, table)
    if missing := [name for name in names if name.lower() not in (column.lower() for column in file)]:
        raise UnknownColumn(f"the file has no column {missing[0]!r}; it has {', '.join(file[:20])}", column=missing[0])
    return " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in names)
