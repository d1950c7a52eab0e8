"""Commit ranges for change queries: which versions a query means, and what their commits did to files.

1. A start time means the first version committed at or after it, an end time the last one committed at or before it,
   as in delta-spark. An end after the newest version means the newest; a start after it is refused.
2. Only the commits of the range and the states at its two ends are read.
3. A commit's time is its in-commit timestamp where the table had them enabled, else that of its file.
4. Columns that a `remove` action leaves out are null; a plan looks them up where the file was added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from holdfast.errors import Invalid, UnknownVersion
from holdfast.formats.delta.log.actions import FileAction, Line, commit_info, info_map
from holdfast.formats.delta.log.columns import from_actions
from holdfast.formats.delta.log.file_names import first_name
from holdfast.formats.delta.log.listing import list_log, log_url, read_commits
from holdfast.formats.delta.log.settings import CompleteSettings, TableSettings, complete, fold
from holdfast.formats.delta.log.times import file_times, in_commit_times, in_commit_timestamp, timeline
from holdfast.formats.delta.metadata import identity_of, partitions_of, resolve_of, schema_of
from holdfast.formats.delta.state import DeltaState, load
from holdfast.formats.delta.stats.reader import JsonStats
from holdfast.model.commits import MOVED, CommitFacts, CommitRange, Described
from holdfast.model.files import FileTable
from holdfast.model.mutation import KEEPS_ROW_IDS
from holdfast.schema.properties import truth
from holdfast.storage.arrays import longs, strings
from holdfast.storage.location import Location

ENABLE_FEED = ("delta.enableChangeDataFeed", "delta.enableChangeDataCapture")
_MERGE_COUNTS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time, as milliseconds since 1970 UTC."""

    ms: int


Point: TypeAlias = int | Moment  # a version or a time


def versions_between(location: Location, newest: int, start: Point, end: Point | None) -> tuple[int, int]:
    """The first and last version of a range; the last is one before the first where nothing was committed yet."""
    first = _first(location, newest, start)
    last = newest if end is None else _last(location, newest, end)
    if last < first and not (end is None and first == newest + 1):
        message = f"changes from version {first} to version {last} are none: the end is before the start"
        raise Invalid(message).named("DELTA_INVALID_CDC_RANGE")
    return first, last


def read_range(before: DeltaState | None, after: DeltaState, *, start: int) -> CommitRange:
    """The commits from a version up to a state; `before` is the state before them, where it is readable."""
    location, end = after.snapshot.location, after.version
    listing = list_log(location, start=first_name(max(start - 1, 0)))
    missing = [v for v in range(start, end + 1) if v not in listing.commits]
    if missing:
        raise UnknownVersion(
            f"the commit of version {missing[0]} is gone from {log_url(location)}, so the changes from version {start} "
            f"to {end} cannot be told; ask for changes from version {missing[-1] + 1} on",
            version=missing[0],
        )
    times = file_times(listing)
    settings = TableSettings()
    if before is not None or start > 0:  # a log that begins after version 0 begins with a checkpoint
        settings = (before or load(location, version=start)).settings
    commits: list[CommitFacts] = []
    first: Described | None = None
    added, removed, change_files = _Actions(), _Actions(), _Actions()
    for version, lines in read_commits(location, listing, range(start, end + 1)):
        settings = fold(settings, lines)
        complete_settings = complete(settings)
        described = any(line.meta_data is not None or line.protocol is not None for line in lines)
        description = _described(complete_settings, location) if described or first is None else None
        first = first or description
        commits.append(_facts(version, times[version], lines, complete_settings, description if described else None))
        added.take(version, (line.add for line in lines if line.add is not None))
        removed.take(version, (line.remove for line in lines if line.remove is not None))
        change_files.take(version, (line.cdc for line in lines if line.cdc is not None))
    assert first is not None, "a range has a commit"
    return CommitRange(
        None if before is None else before.snapshot,
        after.snapshot,
        tuple(commits),
        first,
        added.table(location),
        removed.table(location),
        change_files.table(location),
    )


def _first(location: Location, newest: int, start: Point) -> int:
    if isinstance(start, int):
        if start < 0:
            raise Invalid(f"versions begin with 0, not {start}")
        if start > newest + 1:
            raise UnknownVersion(
                f"the changes of version {start} are not there yet: the newest version of {location.url} is {newest}",
                version=start,
            ).named("DELTA_CDC_START_VERSION_AFTER_LATEST")
        return start
    times = timeline(location)
    version = times.last_at(start.ms)
    if version is None:
        return times.versions[0]
    if times.time_of(version) == start.ms:
        return version
    if version == times.versions[-1]:
        raise UnknownVersion(f"nothing was committed to {location.url} at or after the start: {times.range_text()}")
    return version + 1


def _last(location: Location, newest: int, end: Point) -> int:
    if isinstance(end, int):
        return min(end, newest)
    times = timeline(location)
    version = times.last_at(end.ms)
    if version is None:
        raise UnknownVersion(f"nothing was committed to {location.url} at or before the end: {times.range_text()}")
    return version


def _described(settings: CompleteSettings, location: Location) -> Described:
    protocol, metadata = settings.protocol, settings.metadata
    mapped = resolve_of(protocol, metadata) is not None
    schema = schema_of(metadata, mapped=mapped, files=FileTable(), where=location.url)
    return Described(
        schema,
        partitions_of(metadata, schema, where=location.url),
        identity_of(protocol, metadata, settings.domains, where=location.url) is not None,
        any(truth(metadata.properties.get(name)) for name in ENABLE_FEED),
    )


def _facts(
    version: int, written_ms: int, lines: Sequence[Line], settings: CompleteSettings, described: Described | None
) -> CommitFacts:
    info = commit_info(lines)
    tags, metrics = info_map(info, "tags"), info_map(info, "operationMetrics")
    enabled = in_commit_times(settings.protocol, settings.metadata)
    timestamp = in_commit_timestamp(lines) if enabled is not None and version >= enabled.version else None
    operation = str(info.get("operation") or "an unnamed operation")
    changed = [_number(metrics.get(name)) for name in _MERGE_COUNTS]
    return CommitFacts(
        version,
        written_ms if timestamp is None else timestamp,
        operation,
        keeps_ids=tags.get(KEEPS_ROW_IDS) == "true",
        copied_rows=_number(metrics.get("numCopiedRows")),
        touches_no_row=operation == "MERGE" and changed == [0, 0, 0],
        described=described,
    )


class _Actions:
    """File actions of one kind, collected from commits."""

    def __init__(self) -> None:
        self._actions: list[FileAction] = []
        self._versions: list[int] = []

    def take(self, version: int, actions: Iterable[FileAction]) -> None:
        self._actions += actions
        self._versions += [version] * (len(self._actions) - len(self._versions))

    def table(self, location: Location) -> pa.Table:
        """The actions with the columns of MOVED."""
        actions = self._actions
        files = from_actions(actions, location)
        counts = JsonStats(strings([a.stats for a in actions])).read({}).num_records
        data_change = pa.array([a.data_change for a in actions], pa.bool_())
        return pa.Table.from_arrays([*files.columns, counts, longs(self._versions), data_change], schema=MOVED)


def _number(value: str | int | None) -> int | None:
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None
