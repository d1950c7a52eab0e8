"""`holdfast history`: the commits of a Delta table, or the snapshots of an Iceberg one. Reads nothing but the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import msgspec
import pyarrow as pa

from holdfast.cli.command import limit_options, most, on_table
from holdfast.cli.output import Answer, records
from holdfast.cli.screen import Head, count_text, grid, time_text
from holdfast.cli.target import Target, saying_what_is_there
from holdfast.cli.write_result import summary_of
from holdfast.formats.delta.history.commits import history


@click.command("history")
@on_table(iceberg=True)
@limit_options("commits")
def command(target: Target, answer: Answer, limit: int | None, everything: bool) -> None:
    """What was done to a table, newest first."""
    shown = most(answer, limit, everything)
    commits = _history(target, None if shown is None else shown + 1)
    if answer.as_json:
        answer.rows(commits if shown is None else commits.slice(0, shown))
        return
    rows = records(commits if shown is None else commits.slice(0, shown))
    if "operationMetrics" in commits.column_names:
        heads = [Head("version", right=True), *_WHEN, Head("what was done")]
        grid(heads, [(r["version"], time_text(r["timestamp"]), r["operation"] or "?", _done(r)) for r in rows])
    else:
        heads = [Head("snapshot", right=True), *_WHEN, Head("names"), Head("what was done")]
        lines = [
            (
                r["version"],
                time_text(r["timestamp"]),
                r["operation"],
                " ".join(r["refs"]),
                summary_of(r["summary"] or {}),
            )
            for r in rows
        ]
        grid(heads, lines)
    if commits.num_rows > len(rows):
        answer.note(f"{count_text(len(rows), 'commit')}, and there are more: --all shows every one")


_WHEN = (Head("when (UTC)", whole=True), Head("operation"))


def _history(target: Target, limit: int | None) -> pa.Table:
    if target.is_iceberg:
        from holdfast.formats.iceberg.history.snapshots import history as snapshots

        state = target.open().iceberg
        return snapshots(state.metadata, limit=limit)
    with saying_what_is_there(target.location):
        return history(target.location, limit=limit)


def _done(row: Mapping[str, Any]) -> str:
    parameters = row["operationParameters"] or {}
    word = "on" if row["operation"] == "MERGE" else "where"
    parts = [_where(parameters, word), summary_of(row["operationMetrics"] or {}), row["userMetadata"] or ""]
    return "; ".join(part for part in parts if part)


def _where(parameters: Mapping[str, Any], word: str) -> str:
    """The condition of a commit; some writers store a JSON list of texts."""
    text = parameters.get("predicate") or ""
    if text.startswith("["):
        try:
            text = " AND ".join(msgspec.json.decode(text, type=list[str]))
        except msgspec.DecodeError:
            return f"{word} {text}"
    return f"{word} {text}" if text else ""
