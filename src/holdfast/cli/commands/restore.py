"""`holdfast restore`: bring back an earlier version, every row with the id it had."""

from __future__ import annotations

import click
import pyarrow.compute as pc

from holdfast.cli.command import at_option, dry_run_option, on_table, version_option
from holdfast.cli.output import Answer
from holdfast.cli.screen import count_text
from holdfast.cli.target import Target
from holdfast.cli.write_result import report_commit, report_dry_run
from holdfast.formats.delta.format import DeltaFormat
from holdfast.model.files import FileTable
from holdfast.plan.dml.arithmetic import live_counts
from holdfast.terminal import phase
from holdfast.verbs.dml.write import refuse_append_only
from holdfast.verbs.maintain.restore_mutation import differing


@click.command("restore")
@on_table()
@version_option
@at_option
@dry_run_option
def command(target: Target, answer: Answer, version: str | None, at: str | None, dry_run: bool) -> None:
    """Bring back the rows of an earlier version, in a new version.

    \b
    holdfast restore orders --version 7 --dry-run
    """
    if (version is None) == (at is None):
        raise click.UsageError("say what to bring back: --version with a number, or --at with a time")
    restored = target.delta(version, at)
    if dry_run:
        now = target.delta()
        removed, back = differing(now.snapshot, restored.snapshot)
        if len(removed):
            refuse_append_only(DeltaFormat.definition_of(now), now.snapshot.location)
        wish = {
            "version": restored.version,
            "files_removed": len(removed),
            "files_restored": len(back),
            "rows_before": _rows(now.snapshot.files),
            "rows_after": _rows(restored.snapshot.files),
        }
        rows = f"; rows: {wish['rows_before']:,} now, {wish['rows_after']:,} then" if None not in wish.values() else ""
        what = f"would take {count_text(len(removed), 'file')} out and bring {count_text(len(back), 'file')} back"
        report_dry_run(answer, f"version {restored.version} {what}{rows}", wish)
        return
    with phase("restoring"):
        commit = target.table().restoreToVersion(restored.version)
    report_commit(answer, commit, nothing=f"the table is as it was at version {restored.version}: nothing was written")


def _rows(files: FileTable) -> int | None:
    """The live rows of all files; None if the log does not give them."""
    counts = live_counts(files)
    return None if counts.null_count else pc.sum(counts).as_py() or 0
