"""`holdfast changes`: what happened to rows from one version to another, read in this process without Spark."""

from __future__ import annotations

import click
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.cli.command import limit_options, most, on_table
from holdfast.cli.output import Answer
from holdfast.cli.rows import print_rows
from holdfast.cli.screen import count_text
from holdfast.cli.target import Target, columns_of, number_or_name
from holdfast.plan.changefeed.query import ChangeKind
from holdfast.terminal import phase

_SHORT = {"_change_type": "change", "_commit_version": "version", "_row_id": "row id"}
_HELP = "append-only: rows that came; upsert: rows that came or changed; min-delta: what differs between the two ends; "


@click.command("changes")
@on_table()
@click.option("--from", "start", metavar="N|TIME", help="The first commit: a version, or a time in UTC.")
@click.option("--to", "end", metavar="N|TIME", help="The last commit, included; the newest without it.")
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in ChangeKind]),
    default=ChangeKind.FULL_DELTA.value,
    show_default=True,
    help=f"{_HELP}full-delta: every step.",
)
@click.option("--keys", multiple=True, metavar="A,B", help="Pair rows by columns, where the table has no row ids.")
@click.option("--deleted", is_flag=True, help="With append-only and upsert: rows that are deleted, too.")
@click.option("--drop-unchanged", is_flag=True, help="With min-delta: without updates that changed no value.")
@click.option("--resume", metavar="TOKEN", help="Go on where an earlier answer ended.")
@limit_options("changes")
def command(
    target: Target,
    answer: Answer,
    start: str | None,
    end: str | None,
    kind: str,
    keys: tuple[str, ...],
    deleted: bool,
    drop_unchanged: bool,
    resume: str | None,
    limit: int | None,
    everything: bool,
) -> None:
    """What happened to rows from one version to another.

    \b
    holdfast changes orders --from 3
    holdfast changes orders --from 2024-05-01 --to 2024-05-02 --kind min-delta
    """
    if (start is None) == (resume is None):
        raise click.UsageError("say where changes begin: --from a version or a time, or --resume with a token")
    with phase("reading changes"):
        changes = target.table().changes(
            number_or_name(start),
            number_or_name(end),
            kind=kind,
            keys=columns_of(keys) or (),
            includeDeleted=deleted,
            dropUnchanged=drop_unchanged,
            resume=resume,
        )
        rows = changes.toArrow()
    if not answer.as_json:
        rows = _for_people(rows)
    print_rows(answer, rows, limit=most(answer, limit, everything), noun="change")
    versions = count_text(changes.endVersion - changes.startVersion + 1, "version")
    answer.note(f"versions {changes.startVersion} to {changes.endVersion} ({versions}); go on with")
    answer.note(f"  --resume {changes.resumeToken}")


def _for_people(rows: pa.Table) -> pa.Table:
    """The change type first, then the row; without the commit time, which the history has."""
    for name, words in (("update_preimage", "update from"), ("update_postimage", "update to")):
        at = rows.column_names.index("_change_type")
        rows = rows.set_column(at, "_change_type", pc.replace_substring(rows.column(at), name, words))
    renamed = {name: short for name, short in _SHORT.items() if name in rows.column_names}
    others = [name for name in rows.column_names if name not in (*_SHORT, "_commit_timestamp")]
    return rows.select([*renamed, *others]).rename_columns([*renamed.values(), *others])
