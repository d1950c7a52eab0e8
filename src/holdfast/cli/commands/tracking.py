"""`holdfast enable-row-tracking`: row ids for a table that has none, while others go on writing."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.command import dry_run_option, on_table
from holdfast.cli.output import Answer
from holdfast.cli.progress import counting
from holdfast.cli.screen import count_text, say
from holdfast.cli.target import Target
from holdfast.cli.write_result import tell_wish
from holdfast.formats.delta.commit.restamp import Tracking, tracking_of, unstamped
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
        done = tracking_of(state) is Tracking.ENABLED
        what = "every row has an id already" if done else f"would give ids to {count_text(missing, 'file')}"
        tell_wish(answer, what, {"enabled": done, "files": missing})
        return
    with counting("giving ids to files") as told:

        def heard(progress: Any) -> None:
            told(progress.files_done, progress.files_done + progress.files_left)

        found = target.table().enableRowTracking(batch_files, heard)
    if answer.as_json:
        answer.lines([found])
    elif found.version is None:
        say("every row has an id already: nothing was written")
    else:
        commits = count_text(found.commits, "commit")
        say(f"version {found.version}: every row has an id; {count_text(found.files, 'file')} got them, in {commits}")
