"""When versions were made, and which version a moment in time means.

1. A commit's time is the one written in it where in-commit timestamps were on when it was made; else it is the time of
   its file, moved up where needed so that times rise with versions.
2. A moment means the last version made at or before it; one before the first readable version or after the last version
   is refused with the range there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from holdfast.errors import Damaged, UnknownVersion
from holdfast.formats.delta.log.actions import Line, Metadata, Protocol, commit_info
from holdfast.formats.delta.log.listing import checksum_of, list_all, log_url, read_lines
from holdfast.formats.delta.log.reader import Replayed, replay
from holdfast.formats.delta.log.segment import LogListing, readable_versions
from holdfast.formats.delta.protocol.features import writer_features
from holdfast.schema.properties import (
    ENABLE_IN_COMMIT_TIMESTAMPS,
    IN_COMMIT_TIMESTAMP_TIME,
    IN_COMMIT_TIMESTAMP_VERSION,
    number,
    truth,
)
from holdfast.storage.location import Location


@dataclass(frozen=True, slots=True)
class InCommitTimes:
    """From which version, and since when, commits carry their own time."""

    version: int
    since_ms: int | None  # None: since the table was made


def in_commit_times(protocol: Protocol, metadata: Metadata) -> InCommitTimes | None:
    """Since when commits carry their own time; None where they do not."""
    properties = metadata.properties
    supported = writer_features(protocol) & {"inCommitTimestamp", "inCommitTimestamp-preview"}
    if not supported or not truth(properties.get(ENABLE_IN_COMMIT_TIMESTAMPS)):
        return None
    version, since = properties.get(IN_COMMIT_TIMESTAMP_VERSION), properties.get(IN_COMMIT_TIMESTAMP_TIME)
    if version is None or since is None:
        return InCommitTimes(0, None)
    return InCommitTimes(number(IN_COMMIT_TIMESTAMP_VERSION, version), number(IN_COMMIT_TIMESTAMP_TIME, since))


def file_times(listing: LogListing) -> dict[int, int]:
    """The time of each commit's file, by version, moved up so that times rise."""
    versions = sorted(listing.commits)
    written = np.array([listing.commits[v].modified_ms for v in versions], np.int64)
    steps = np.arange(len(versions))
    return dict(zip(versions, (np.maximum.accumulate(written - steps) + steps).tolist(), strict=True))


def written_time(lines: Sequence[Line]) -> int | None:
    """The time a commit carries in itself."""
    found = commit_info(lines).get("inCommitTimestamp")
    return found if isinstance(found, int) else None


def version_time(location: Location, replayed: Replayed) -> int:
    """When the version of a replay was made; where nothing says, when its file was written."""
    version, listing = replayed.segment.version, replayed.listing
    if in_commit_times(replayed.settings.protocol, replayed.settings.metadata):
        found = written_time(replayed.last)
        if found is None:
            found = _own_time(location, listing, version)
        if found is None and (told := checksum_of(location, listing, version)):
            found = told.in_commit_timestamp_opt
        if found is not None:
            return found
    if version in listing.commits:
        return listing.commits[version].modified_ms
    files = replayed.segment.checkpoint.files if replayed.segment.checkpoint else replayed.segment.deltas
    return files[-1].modified_ms


def _own_time(location: Location, listing: LogListing, version: int) -> int | None:
    """The time in the version's own commit; None where the commit is gone or cannot be read."""
    if version not in listing.commits:
        return None
    try:
        return written_time(next(read_lines(location, (listing.commits[version],))))
    except Damaged:
        return None


@dataclass(frozen=True)
class Timeline:
    """The versions that can be dated, and when each was made."""

    location: Location
    versions: tuple[int, ...]
    own: InCommitTimes | None
    time_of: Callable[[int], int]

    def last_at(self, timestamp_ms: int) -> int | None:
        """The last version made at or before a moment; None where there is none."""
        within: Sequence[int] = self.versions
        if self.own is not None:
            after = self.own.since_ms is None or timestamp_ms >= self.own.since_ms
            within = [v for v in within if (v >= self.own.version) == after] or within
        return _last_at(within, self.time_of, timestamp_ms)

    def told(self) -> str:
        """The range of times there is, for people."""
        first, last = self.versions[0], self.versions[-1]
        made = f"{_shown(self.time_of(first))} to {_shown(self.time_of(last))}"
        return f"its versions {first} to {last} were made from {made}"


def timeline(location: Location) -> Timeline:
    """When the versions of a table were made; in-commit times are read when they are asked for."""
    listed = list_all(location)
    replayed = replay(location, listed, files=False)
    listing, settings = listed.listing, replayed.settings
    versions = tuple(v for v in readable_versions(listing) if v in listing.commits)
    own = in_commit_times(settings.protocol, settings.metadata)
    times = file_times(listing)

    def time_of(version: int) -> int:
        if own is None or version < own.version:
            return times[version]
        found = _own_time(location, listing, version)
        if found is None:
            path = f"{log_url(location)}/{listing.commits[version].name}"
            raise Damaged(f"{path} lacks the in-commit timestamp it must have", path=path, expected="inCommitTimestamp")
        return found

    if not versions:
        raise UnknownVersion(f"no version of the table at {location.url} can be dated: its commits are gone")
    return Timeline(location, versions, own, time_of)


def version_at(location: Location, timestamp_ms: int) -> int:
    """The last version made at or before a moment."""
    line = timeline(location)
    found = line.last_at(timestamp_ms)
    if found is None or timestamp_ms > line.time_of(line.versions[-1]):
        late = found is not None
        raise UnknownVersion(
            f"the table at {location.url} has no version at {_shown(timestamp_ms)}: {line.told()}"
        ).named("DELTA_TIMESTAMP_GREATER_THAN_COMMIT" if late else "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION")
    return found


def _last_at(versions: Sequence[int], time_of: Callable[[int], int], moment: int) -> int | None:
    """The last version whose time is not after a moment; asks for the times of about log2 of them."""
    low, high = 0, len(versions)
    while low < high:
        middle = (low + high) // 2
        if time_of(versions[middle]) <= moment:
            low = middle + 1
        else:
            high = middle
    return versions[low - 1] if low else None


def _shown(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")
