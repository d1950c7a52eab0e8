"""The `holdfast` command, with one file per subcommand.

1. Starting the command imports neither Spark nor any subcommand except the one that runs; listing and completing
   subcommands imports none.
2. COMMANDS names the module of a subcommand; the module has its click command as `command`.
3. An error of the table or the machine prints one sentence, with exit code 1; an invalid command line is exit code 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from holdfast.cli.failure import CommandRefused, debug_option, wants_json, wants_traceback
from holdfast.cli.stderr import guarded
from holdfast.errors import TableError


@dataclass(frozen=True, slots=True)
class Subcommand:
    """The module of a subcommand, its heading in the help, and its summary."""

    module: str
    section: str
    summary: str


LOOK, CHANGE, TEND, HERE = "Look", "Change rows", "Look after a table", "This machine"

COMMANDS = {
    "show": Subcommand("holdfast.cli.commands.show", LOOK, "Rows of a table, now or at an earlier version."),
    "history": Subcommand("holdfast.cli.commands.history", LOOK, "What was done to a table, newest first."),
    "detail": Subcommand(
        "holdfast.cli.commands.detail", LOOK, "What a table is: size, columns, settings, who can open it."
    ),
    "files": Subcommand(
        "holdfast.cli.commands.files", LOOK, "The live files of a table, or what a condition would read."
    ),
    "changes": Subcommand("holdfast.cli.commands.changes", LOOK, "What happened to rows from one version to another."),
    "biography": Subcommand("holdfast.cli.commands.biography", LOOK, "The life of one row, by its id."),
    "take": Subcommand("holdfast.cli.commands.take", LOOK, "Rows by their ids, in the order asked."),
    "lookup": Subcommand(
        "holdfast.cli.commands.lookup", LOOK, "Rows by the values of columns, through an index if there is one."
    ),
    "sql": Subcommand("holdfast.cli.commands.sql", LOOK, "A SELECT over tables, on Spark."),
    "append": Subcommand("holdfast.cli.commands.append", CHANGE, "Add the rows of Parquet, CSV or JSON files."),
    "delete": Subcommand("holdfast.cli.commands.delete", CHANGE, "Take out the rows that satisfy a condition."),
    "update": Subcommand("holdfast.cli.commands.update", CHANGE, "Set columns of the rows that satisfy a condition."),
    "merge": Subcommand(
        "holdfast.cli.commands.merge", CHANGE, "Update the rows that a file matches and insert the others."
    ),
    "restore": Subcommand("holdfast.cli.commands.restore", CHANGE, "Bring back the rows of an earlier version."),
    "compact": Subcommand("holdfast.cli.commands.compact", TEND, "Write small files together, every row as it was."),
    "cluster": Subcommand("holdfast.cli.commands.cluster", TEND, "Put rows with near values into the same files."),
    "vacuum": Subcommand(
        "holdfast.cli.commands.vacuum", TEND, "Delete files that no version within the retention needs."
    ),
    "check": Subcommand("holdfast.cli.commands.check", TEND, "Is the table sound? Repair what can be repaired safely."),
    "properties": Subcommand("holdfast.cli.commands.properties", TEND, "The properties of a table: list, set, unset."),
    "enable-row-tracking": Subcommand(
        "holdfast.cli.commands.tracking", TEND, "Give every row an id, while others go on writing."
    ),
    "publish": Subcommand(
        "holdfast.cli.commands.publish", TEND, "Bring rows into a table of the other format, ids kept."
    ),
    "index": Subcommand(
        "holdfast.cli.commands.index", TEND, "Indexes: list, create, refresh, rebuild, drop, verify, stats."
    ),
    "tour": Subcommand("holdfast.cli.tour.command", HERE, "What Holdfast does, shown on tables made on the spot."),
    "doctor": Subcommand(
        "holdfast.cli.doctor.command", HERE, "Look at this machine: versions, Java, ways to run Spark."
    ),
}


class OnDemand(click.Group):
    """A group whose commands are imported by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command = import_module(entry.module).command
        assert isinstance(command, click.Command), f"{entry.module}.command is not a click command"
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))  # one column of summaries below all headings
        for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
            with formatter.section(section):
                formatter.write_dl(
                    [(name.ljust(width), e.summary) for name, e in COMMANDS.items() if e.section == section]
                )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [CompletionItem(n, help=e.summary) for n, e in COMMANDS.items() if n.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def main(self, *args: Any, **more: Any) -> Any:
        with guarded():
            return super().main(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TableError as error:
            if wants_traceback(ctx):
                raise
            raise CommandRefused(error, as_json=wants_json(ctx)) from error


@click.group(cls=OnDemand, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="holdfast", prog_name="holdfast")
@debug_option
def main() -> None:
    """Row identity for lakehouse tables: files churn, rows hold fast.

    TABLE is the directory of a Delta table, a local path or s3://, gs://, abfss://; commands that only look also take
    the metadata file of an Iceberg table, or with --catalog its name.
    """
