"""`holdfast biography`: the life of one row.

Reads the log or the metadata, and of data files only those the row may have been in.
"""

from __future__ import annotations

import click
from rich.text import Text

from holdfast.cli.command import on_table
from holdfast.cli.output import Answer
from holdfast.cli.screen import Head, grid, say, time_text
from holdfast.cli.target import Target
from holdfast.plan.changefeed.biography import Event, What
from holdfast.terminal import phase
from holdfast.verbs.changefeed.biography import biography

_STYLES = {What.BORN: "green", What.RESTORED: "green", What.DELETED: "red", What.PURGED: "red", What.LOST: "yellow"}


@click.command("biography")
@on_table(iceberg=True)
@click.argument("row_id", type=int)
def command(target: Target, answer: Answer, row_id: int) -> None:
    """The life of one row, by its id: born, changed, moved, deleted, restored.

    `holdfast show TABLE --ids` shows the ids of rows.
    """
    with phase("following the row"):
        row = target.either().biography(row_id) if target.is_iceberg else biography(target.delta(), row_id)
    if answer.as_json:
        answer.lines([row])
        return
    say(f"row {row_id} is {'in the table' if row.alive else 'not in the table'}", style="bold")
    if row.events:
        heads = [
            Head("version", right=True),
            Head("when (UTC)", whole=True),
            Head("operation", whole=True),
            Head("the row", whole=True),
            Head("file", cut=True),
            Head("at", right=True),
            Head(""),
        ]
        grid(heads, [_line(event) for event in row.events])
    for file in row.remains:
        say(f"its bytes are still in {file}", style="yellow")
    for note in row.notes:
        say(note, style="dim")


def _line(event: Event) -> list[object]:
    return [
        "?" if event.version is None else event.version,
        time_text(event.timestamp_ms),
        event.operation or "",
        Text(event.what.value, _STYLES.get(event.what, "")),
        "" if event.file is None else event.file.rpartition("/")[2],
        "" if event.position is None else event.position,
        event.detail,
    ]
