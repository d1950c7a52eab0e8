"""`holdfast enable-row-tracking`: row ids for a table that has none, while others go on writing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.cli.command import dry_run_option, on_table
from holdfast.cli.output import Answer
from holdfast.cli.screen import count_text, say
from holdfast.cli.target import Target
from holdfast.cli.visible import screen
from holdfast.cli.write_result import report_dry_run
from holdfast.formats.delta.commit.restamp import Tracking, tracking_of, unstamped
from holdfast.terminal import on_terminal
from holdfast.verbs.define.backfill import BATCH_FILES


@click.command("enable-row-tracking")
@on_table()
@click.option(
    "--batch-files", type=click.IntRange(min=1), default=BATCH_FILES, show_default=True, help="Files per commit."
)
@dry_run_option
def command(target: Target, answer: Answer, batch_files: int, dry_run: bool) -> None:
    """Give every row an id, while others go on writing.

    Rewrites no data. Stopped anywhere, it goes on when it is run again. Writers that do not know row tracking can no
    longer write to the table.
    """
    state = target.delta()
    _, missing = unstamped(state, 1)
    if dry_run:
        enabled = tracking_of(state) is Tracking.ENABLED
        what = "every row has an id already" if enabled else f"would give ids to {count_text(missing, 'file')}"
        report_dry_run(answer, what, {"enabled": enabled, "files": missing})
        return
    with progress_bar("giving ids to files") as advance:

        def on_progress(progress: Any) -> None:
            advance(progress.files_done, progress.files_done + progress.files_left)

        result = target.table().enableRowTracking(batch_files, on_progress)
    if answer.as_json:
        answer.lines([result])
    elif result.version is None:
        say("every row has an id already: nothing was written")
    else:
        commits = count_text(result.commits, "commit")
        say(f"version {result.version}: every row has an id; {count_text(result.files, 'file')} got them, in {commits}")


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal; yields a function that takes the work done and the total."""
    if not on_terminal():
        yield lambda done, total: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen(stderr=True), transient=True) as bar:
        number = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(number, completed=done, total=total)
