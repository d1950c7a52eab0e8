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
    return {
        "version": version,
        "timestamp": (timestamp_ms if isinstance(timestamp_ms, int) else written_ms) * 1000,
        "userId": _text(info.get("userId")),
        "userName": _text(info.get("userName")),
        "operation": _text(info.get("operation")),
        "operationParameters": _texts(info.get("operationParameters")),
        "job": _struct(info.get("job"), _JOB),
        "notebook": _struct(info.get("notebook"), _NOTEBOOK),
        "clusterId": _text(info.get("clusterId")),
        "readVersion": _whole(info.get("readVersion")),
        "isolationLevel": _text(info.get("isolationLevel")),
        "isBlindAppend": info.get("isBlindAppend") if isinstance(info.get("isBlindAppend"), bool) else None,
        "operationMetrics": _texts(info.get("operationMetrics")),
        "userMetadata": _text(info.get("userMetadata")),
        "engineInfo": _text(info.get("engineInfo")),
    }


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _texts(value: object) -> list[tuple[str, str | None]] | None:
    return [(name, _text(inner)) for name, inner in value.items()] if isinstance(value, dict) else None


def _struct(value: object, names: tuple[str, ...]) -> dict[str, str | None] | None:
    return {name: _text(value.get(name)) for name in names} if isinstance(value, dict) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
