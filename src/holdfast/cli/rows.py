"""Reads and prints rows of a table for commands, in this process and only as many as are shown."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from holdfast.cli.output import Answer, show_rows
from holdfast.cli.screen import count_text
from holdfast.cli.target import Opened
from holdfast.engines.local.scan import scan_batches
from holdfast.plan.scan.request import Condition, Request
from holdfast.rows.columns import ROW_COMMIT_VERSION, ROW_ID

IDS = (ROW_ID, ROW_COMMIT_VERSION)


def request_of(opened: Opened, columns: Sequence[str] | None, where: str | None, metadata: Sequence[str]) -> Request:
    condition: Condition | None = None
    if where is not None:
        from holdfast.cli.condition import parse_condition

        condition = parse_condition(where, opened.snapshot, metadata)
    return Request(columns, condition, metadata)


def read(opened: Opened, request: Request, *, limit: int | None) -> pa.RecordBatchReader:
    """The rows in batches, one more than the limit, to know whether there are more."""
    return scan_batches(*opened.table.plan(request), limit=None if limit is None else limit + 1)


def print_rows(answer: Answer, rows: pa.RecordBatchReader | pa.Table, *, limit: int | None, noun: str = "row") -> None:
    """Print rows up to a limit, and note whether there are more."""
    if answer.as_json and limit is None:
        answer.batches(rows if isinstance(rows, pa.RecordBatchReader) else rows.to_batches())
        return
    rows = rows.read_all() if isinstance(rows, pa.RecordBatchReader) else rows
    shown = rows if limit is None else rows.slice(0, limit)
    if answer.as_json:
        answer.batches(shown.to_batches())
        return
    if rows.num_rows == 0:
        answer.note(f"no {noun}s")
        return
    show_rows(shown)
    more = rows.num_rows > shown.num_rows
    answer.note(
        f"{count_text(shown.num_rows, noun)}, and there are more: --limit N shows N, --all shows every one"
        if more
        else count_text(shown.num_rows, noun)
    )
