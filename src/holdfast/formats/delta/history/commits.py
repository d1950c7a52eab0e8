"""The history of a table, as DESCRIBE HISTORY shows it.

1. One row per commit in the log, newest first; commits that were cleaned up are absent.
2. Columns and types are those of DESCRIBE HISTORY. A field that the commit lacks is null; where text is expected,
   another value is shown as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa

from holdfast.errors import Invalid
from holdfast.formats.delta.log.actions import commit_info
from holdfast.formats.delta.log.listing import list_all, read_commits
from holdfast.formats.delta.log.times import file_times
from holdfast.model.files import STRINGS
from holdfast.storage.location import Location

_JOB = ("jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType")
_NOTEBOOK = ("notebookId",)
HISTORY = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("userId", pa.string()),
        ("userName", pa.string()),
        ("operation", pa.string()),
        ("operationParameters", STRINGS),
        ("job", pa.struct([(name, pa.string()) for name in _JOB])),
        ("notebook", pa.struct([(name, pa.string()) for name in _NOTEBOOK])),
        ("clusterId", pa.string()),
        ("readVersion", pa.int64()),
        ("isolationLevel", pa.string()),
        ("isBlindAppend", pa.bool_()),
        ("operationMetrics", STRINGS),
        ("userMetadata", pa.string()),
        ("engineInfo", pa.string()),
    ]
)


def history(location: Location, *, limit: int | None = None) -> pa.Table:
    """The commits of a table, newest first, at most `limit` of them."""
    if limit is not None and limit < 0:
        raise Invalid(f"a history of {limit} commits cannot be given: ask for 0 or more")
    listing = list_all(location).listing
    times = file_times(listing)
    versions = sorted(listing.commits, reverse=True)[:limit]
    rows = [
        _row(version, times[version], commit_info(lines))
        for version, lines in read_commits(location, listing, versions)
    ]
    return pa.Table.from_pylist(rows, schema=HISTORY)


def _row(version: int, written_ms: int, info: Mapping[str, Any]) -> dict[str, Any]:
    timestamp_ms = info.get("inCommitTimestamp")
    if not isinstance(timestamp_ms, int):
        timestamp_ms = written_ms
    stored = {field.name: _value(info.get(field.name), field.type) for field in list(HISTORY)[2:]}
    return {"version": version, "timestamp": timestamp_ms * 1000, **stored}


def _value(value: object, type_: pa.DataType) -> object:
    """A field of a commitInfo as a value of its column; null where it has another type."""
    if type_ == pa.string():
        return _text(value)
    if type_ == pa.int64():
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if type_ == pa.bool_():
        return value if isinstance(value, bool) else None
    if not isinstance(value, dict):
        return None
    if type_ == STRINGS:
        return [(name, _text(inner)) for name, inner in value.items()]
    return {field.name: _text(value.get(field.name)) for field in type_}


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
