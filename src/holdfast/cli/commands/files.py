"""`holdfast files`: the live files of a table, or what a condition would read and why. Reads nothing but the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import pyarrow as pa

from holdfast.cli.command import at_option, columns_option, limit_options, most, on_table, version_option, where_option
from holdfast.cli.output import Answer
from holdfast.cli.rows import request_of
from holdfast.cli.screen import Head, age_text, count_text, facts, grid, heading, say, size_text
from holdfast.cli.target import Opened, Target, columns_of
from holdfast.env import system
from holdfast.model.files import PARTITION
from holdfast.plan.scan.request import partition_fields, plan_scan
from holdfast.verbs.read.explain import Explanation

_INDEX = "holdfast.index."  # domains of indexes


@click.command("files")
@on_table(iceberg=True)
@click.option("--explain", "explains", is_flag=True, help="Say what a scan with --where would read, and why.")
@where_option
@columns_option
@version_option
@at_option
@limit_options("files")
def command(
    target: Target,
    answer: Answer,
    explains: bool,
    where: str | None,
    columns: tuple[str, ...],
    version: str | None,
    at: str | None,
    limit: int | None,
    everything: bool,
) -> None:
    """The live files of a table, or what a condition would read.

    \b
    holdfast files orders --where "day = '2024-05-01'"
    holdfast files orders --explain --where "cents > 1000"
    """
    opened = target.open(version, at)
    if explains:
        _show(answer, _explained(target, opened, columns_of(columns), where))
        return
    plan = plan_scan(opened.snapshot, request_of(opened, columns_of(columns), where, ()))
    shown = most(answer, limit, everything)
    table = plan.files.table.append_column("num_records", plan.files.num_records)
    files = list(_described(opened, table if shown is None else table.slice(0, shown)))
    if answer.as_json:
        answer.lines(files)
        return
    tracked = opened.snapshot.identity is not None
    dated = any(f["modified_ms"] for f in files)
    placed = list(dict.fromkeys(name for f in files for name in f["partition"]))
    heads = [
        Head("file", cut=True),
        *(Head(name, whole=True) for name in placed),
        Head("rows", right=True),
        Head("hidden", right=True),
        Head("size", right=True),
        *([Head("ids from", right=True)] if tracked else []),
        *([Head("written", whole=True)] if dated else []),
    ]
    now = system().now_ms() if dated else None
    grid(heads, [_line(f, placed, now, tracked=tracked) for f in files])
    summary = f"{count_text(len(plan.files), 'file')} of {count_text(len(opened.snapshot.files))}" if where else ""
    summary = summary or count_text(len(plan.files), "file")
    answer.note(f"{summary}, {len(files)} shown: --all shows every one" if len(files) < len(plan.files) else summary)


def _line(file: Mapping[str, Any], placed: Sequence[str], now_ms: int | None, *, tracked: bool) -> list[Any]:
    return [
        file["file"].rpartition("/")[2],
        *(file["partition"].get(name) for name in placed),
        "?" if file["rows"] is None else count_text(file["rows"]),
        count_text(file["hidden_rows"]) if file["hidden_rows"] else "",
        size_text(file["bytes"]),
        *([file["base_row_id"]] if tracked else []),
        *([] if now_ms is None else [age_text(file["modified_ms"] or 0, now_ms)]),
    ]


def _described(opened: Opened, files: pa.Table) -> Iterator[dict[str, Any]]:
    """Files as records; `rows` are live rows."""
    names = {f.physical_name: f.name for f in partition_fields(opened.snapshot)}
    for file in files.to_pylist():
        hidden = 0 if file["dv"] is None else file["dv"]["cardinality"]
        if PARTITION in file:
            partition = {k: v for k, v in (file[PARTITION] or {}).items() if v is not None}
        else:
            partition = {names.get(name, name): value for name, value in file["partition_values"] or ()}
        countable = file["num_records"] is not None and hidden is not None
        yield {
            "file": file["key"],
            "partition": partition,
            "rows": file["num_records"] - hidden if countable else None,
            "hidden_rows": hidden,
            "bytes": file["size"],
            "base_row_id": file["base_row_id"],
            "default_row_commit_version": file["default_row_commit_version"],
            "modified_ms": file["modified_ms"],
        }


def _explained(target: Target, opened: Opened, columns: Sequence[str] | None, where: str | None) -> Explanation:
    state = opened.delta
    if state is not None and any(name.startswith(_INDEX) for name in state.domains):
        explained: Explanation = target.table().explain(columns, where, state.version)  # uses indexes too
        return explained
    from holdfast.engines.local.engine import LocalEngine

    return opened.table.explain(request_of(opened, columns, where, ()), LocalEngine())


def _show(answer: Answer, explained: Explanation) -> None:
    if answer.as_json:
        answer.lines([explained])
        return
    read = f"{count_text(explained.files_read)} of {count_text(explained.files_total, 'file')}"
    hidden = f"without {count_text(explained.rows_hidden, 'row')} hidden by deletion vectors"
    facts(
        [
            ("table", explained.table),
            ("version", explained.version),
            ("condition", explained.condition or "none: every row"),
            ("read", f"{read}, {size_text(explained.bytes_read)} of {size_text(explained.bytes_total)}"),
            *(("", line) for line in explained.reading),
            *([("", hidden)] if explained.rows_hidden else []),
        ]
    )
    if explained.steps:
        heading("What leaves files out")
        heads = [Head("by"), Head("keeps", right=True), Head("drops", right=True), Head("")]
        grid(
            heads,
            [
                (s.name.removeprefix("by_"), count_text(s.kept), count_text(s.dropped), s.detail or "")
                for s in explained.steps
            ],
        )
    if explained.kept:
        heading("Why the others are read")
        grid(
            [Head("file", cut=True), Head("because")],
            [(reason.file.rpartition("/")[2], "; ".join(reason.why)) for reason in explained.kept],
        )
        if explained.files_read > len(explained.kept):
            say(f"and {count_text(explained.files_read - len(explained.kept))} more")
    for note in explained.notes:
        say(f"note: {note}", style="yellow")
