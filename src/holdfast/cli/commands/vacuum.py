"""`holdfast vacuum`: delete files that nothing needs, and say which versions that costs."""

from __future__ import annotations

import click

from holdfast.cli.command import dry_run_option, on_table
from holdfast.cli.output import Answer
from holdfast.cli.screen import count_text, facts, heading, say, size_text, time_text
from holdfast.cli.target import Target

_SHOWN = 20


@click.command("vacuum")
@on_table()
@click.option("--hours", type=float, help="Keep what was needed so many hours ago; else what the table says, a week.")
@click.option(
    "--force", is_flag=True, help="Let --hours be less than the table says: no writer or reader may be at work."
)
@click.option("--lite", is_flag=True, help="Look only at what commits since the last vacuum removed; no listing.")
@click.option(
    "--versions", is_flag=True, help="Say exactly which versions are lost and which are left; reads their commits."
)
@dry_run_option
def command(
    target: Target, answer: Answer, hours: float | None, force: bool, lite: bool, versions: bool, dry_run: bool
) -> None:
    """Delete files that no version within the retention needs."""
    if force and hours is None:
        raise click.UsageError("--force lets --hours be less than the table says: give --hours too")
    table = target.table()
    result = table.vacuum(hours, dryRun=dry_run, lite=lite, enforceRetention=not force)
    lost = result.lost if versions else result.lost_if_known
    readable = result.readable if versions else None
    if answer.as_json:
        line = {
            "dry_run": result.dry_run,
            "version": result.version,
            "files": result.paths,
            "bytes": result.bytes,
            "retention_ms": result.retention_ms,
            "at_risk": result.at_risk.spans,
            "lost": None if lost is None else lost.spans,
            "readable": None if readable is None else readable.spans,
            "kept": result.kept,
            "notes": result.notes,
        }
        answer.lines([line])
        return
    count = result.files.num_rows
    would = "would delete" if dry_run else "deleted"
    facts(
        [
            (would, f"{count_text(count, 'file')}, {size_text(result.bytes)}"),
            ("needed by", f"nothing since {time_text(result.horizon_ms)} UTC"),
            ("versions lost", f"some of {result.at_risk} (--versions says which)" if lost is None else str(lost)),
            *([] if readable is None else [("versions left", str(readable))]),
            *((f"pin {k.pin}", f"keeps {count_text(k.files, 'file')}, {size_text(k.bytes)}") for k in result.kept),
            *(("note", note) for note in result.notes),
        ]
    )
    if dry_run and count:
        heading("Files")
        for path in result.files.column("key").slice(0, _SHOWN).to_pylist():
            say(path)
        if count > _SHOWN:
            say(f"and {count_text(count - _SHOWN)} more")
    if dry_run:
        say("nothing was deleted", style="dim")
