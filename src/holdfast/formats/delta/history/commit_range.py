"""A stretch of a Delta log for change queries: which versions were asked for, and what their commits did.

1. A start that is a moment means the first version made at or after it, an end the last one made at or before it, as
   delta-spark reads them. An end past the newest version means the newest; a start past it is refused.
2. Only the commits of the stretch and the two states at its ends are read.
3. A commit's time is the one in it where in-commit timestamps were on when it was made, else that of its file.
4. Where a removal does not say what it removed, that is null; a plan looks it up where the file was added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from holdfast.errors import Invalid, UnknownVersion
from holdfast.formats.delta.log.actions import FileAction, Line, commit_info
from holdfast.formats.delta.log.columns import from_actions
from holdfast.formats.delta.log.file_names import first_name
from holdfast.formats.delta.log.listing import list_log, log_url, read_lines
from holdfast.formats.delta.log.settings import CompleteSettings, TableSettings, complete, fold
from holdfast.formats.delta.log.times import file_times, in_commit_times, in_commit_timestamp, timeline
from holdfast.formats.delta.shape import identity_of, partitions_of, resolve_of, schema_of
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


Point: TypeAlias = int | Moment  # a version, or a moment


def versions_between(location: Location, newest: int, start: Point, end: Point | None) -> tuple[int, int]:
    """The first and the last version of a stretch; the last is one before the first where nothing was committed yet."""
    first = _first(location, newest, start)
    last = newest if end is None else _last(location, newest, end)
    if last < first and not (end is None and first == newest + 1):
        wrong = Invalid(f"changes from version {first} to version {last} are none: the end is before the start")
        raise wrong.named("DELTA_INVALID_CDC_RANGE")
    return first, last


def read_range(before: DeltaState | None, after: DeltaState, *, start: int) -> CommitRange:
    """The commits from a version up to a state; `before` is the state before them, where there is one to be had."""
    location, end = after.snapshot.location, after.version
    listing = list_log(location, start=first_name(max(start - 1, 0)))
    gone = [v for v in range(start, end + 1) if v not in listing.commits]
    if gone:
        raise UnknownVersion(
            f"the commit of version {gone[0]} is gone from {log_url(location)}, so the changes from version {start} "
            f"to {end} cannot be told; ask for changes from version {gone[-1] + 1} on",
            version=gone[0],
        )
    times = file_times(listing)
    if before is not None:
        settings = _settings(before)
    else:  # a log that begins after version 0 begins with a checkpoint, which says what the table is
        settings = TableSettings() if start == 0 else _settings(load(location, version=start))
    facts: list[CommitFacts] = []
    first: Described | None = None
    added, removed, feed = _Actions(), _Actions(), _Actions()
    lines_of = read_lines(location, [listing.commits[v] for v in range(start, end + 1)])
    for version, lines in zip(range(start, end + 1), lines_of, strict=True):
        settings = fold(settings, lines)
        now = complete(settings)
        described = any(line.meta_data is not None or line.protocol is not None for line in lines)
        told = _described(now, location) if described or first is None else None
        first = first or told
        facts.append(_facts(version, times[version], lines, now, told if described else None))
        added.take(version, (line.add for line in lines if line.add is not None))
        removed.take(version, (line.remove for line in lines if line.remove is not None))
        feed.take(version, (line.cdc for line in lines if line.cdc is not None))
    assert first is not None, "a stretch has a commit"
    return CommitRange(
        None if before is None else before.snapshot,
        after.snapshot,
        tuple(facts),
        first,
        added.table(location),
        removed.table(location),
        feed.table(location),
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
    line = timeline(location)
    found = line.last_at(start.ms)
    if found is None:
        return line.versions[0]
    if line.time_of(found) == start.ms:
        return found
    if found == line.versions[-1]:
        raise UnknownVersion(f"nothing was committed to {location.url} at or after the start: {line.range_text()}")
    return found + 1


def _last(location: Location, newest: int, end: Point) -> int:
    if isinstance(end, int):
        return min(end, newest)
    line = timeline(location)
    found = line.last_at(end.ms)
    if found is None:
        raise UnknownVersion(f"nothing was committed to {location.url} at or before the end: {line.range_text()}")
    return found


def _settings(state: DeltaState) -> TableSettings:
    return TableSettings(state.protocol, state.metadata, state.txns, state.domains)


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
    tags, metrics = _mapping(info.get("tags")), _mapping(info.get("operationMetrics"))
    own = in_commit_times(settings.protocol, settings.metadata)
    carried = in_commit_timestamp(lines) if own is not None and version >= own.version else None
    operation = str(info.get("operation") or "an unnamed operation")
    changed = [_number(metrics.get(name)) for name in _MERGE_COUNTS]
    return CommitFacts(
        version,
        written_ms if carried is None else carried,
        operation,
        keeps_ids=tags.get(KEEPS_ROW_IDS) == "true",
        copied_rows=_number(metrics.get("numCopiedRows")),
        touches_no_row=operation == "MERGE" and changed == [0, 0, 0],
        described=described,
    )


class _Actions:
    """File actions of one kind, gathered over commits."""

    def __init__(self) -> None:
        self._actions: list[FileAction] = []
        self._versions: list[int] = []

    def take(self, version: int, actions: Iterable[FileAction]) -> None:
        found = list(actions)
        self._actions += found
        self._versions += [version] * len(found)

    def table(self, location: Location) -> pa.Table:
        """With the columns of MOVED."""
        actions = self._actions
        files = from_actions(actions, location.file_keys(strings([a.path for a in actions])))
        counts = JsonStats(strings([a.stats for a in actions])).read({}).num_records
        changes = pa.array([a.data_change for a in actions], pa.bool_())
        return pa.Table.from_arrays([*files.columns, counts, longs(self._versions), changes], schema=MOVED)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> int | None:
    try:
        return None if value is None else int(value)
    except (TypeError, ValueError):
        return None
