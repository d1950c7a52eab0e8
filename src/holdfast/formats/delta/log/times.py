"""Commit times of versions, and the version at a given time.

1. A commit's time is its in-commit timestamp where the table had that feature enabled at that version. Otherwise it is
   the modification time of its file, raised where needed so that times increase with versions.
2. The version at a time is the last one committed at or before it. A time before the first readable version or after
   the last version is refused; the error names the range.
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
    """The version and time from which on commits have in-commit timestamps."""

    version: int
    since_ms: int | None  # None: since the table was created


def in_commit_times(protocol: Protocol, metadata: Metadata) -> InCommitTimes | None:
    """From when on commits have in-commit timestamps; None where they have none."""
    properties = metadata.properties
    supported = writer_features(protocol) & {"inCommitTimestamp", "inCommitTimestamp-preview"}
    if not supported or not truth(properties.get(ENABLE_IN_COMMIT_TIMESTAMPS)):
        return None
    version, since = properties.get(IN_COMMIT_TIMESTAMP_VERSION), properties.get(IN_COMMIT_TIMESTAMP_TIME)
    if version is None or since is None:
        return InCommitTimes(0, None)
    return InCommitTimes(number(IN_COMMIT_TIMESTAMP_VERSION, version), number(IN_COMMIT_TIMESTAMP_TIME, since))


def file_times(listing: LogListing) -> dict[int, int]:
    """The modification time of each commit's file, by version, raised so that times increase."""
    versions = sorted(listing.commits)
    written = np.array([listing.commits[v].modified_ms for v in versions], np.int64)
    steps = np.arange(len(versions))
    return dict(zip(versions, (np.maximum.accumulate(written - steps) + steps).tolist(), strict=True))


def in_commit_timestamp(lines: Sequence[Line]) -> int | None:
    """The in-commit timestamp among the actions of a commit."""
    timestamp = commit_info(lines).get("inCommitTimestamp")
    return timestamp if isinstance(timestamp, int) else None


def version_time(location: Location, replayed: Replayed) -> int:
    """The commit time of a replayed version; the time of its file where there is no in-commit timestamp."""
    version, listing = replayed.segment.version, replayed.listing
    if in_commit_times(replayed.settings.protocol, replayed.settings.metadata):
        timestamp = in_commit_timestamp(replayed.last)
        if timestamp is None:
            timestamp = _read_timestamp(location, listing, version)
        if timestamp is None and (checksum := checksum_of(location, listing, version)):
            timestamp = checksum.in_commit_timestamp_opt
        if timestamp is not None:
            return timestamp
    if version in listing.commits:
        return listing.commits[version].modified_ms
    files = replayed.segment.checkpoint.files if replayed.segment.checkpoint else replayed.segment.deltas
    return files[-1].modified_ms


def _read_timestamp(location: Location, listing: LogListing, version: int) -> int | None:
    """The in-commit timestamp of a version; None where its commit is missing or cannot be read."""
    if version not in listing.commits:
        return None
    try:
        return in_commit_timestamp(next(read_lines(location, (listing.commits[version],))))
    except Damaged:
        return None


@dataclass(frozen=True)
class Timeline:
    """The versions whose commits are in the log, and their commit times."""

    location: Location
    versions: tuple[int, ...]
    in_commit: InCommitTimes | None
    time_of: Callable[[int], int]

    def last_at(self, timestamp_ms: int) -> int | None:
        """The last version committed at or before a time; None where there is none."""
        versions: Sequence[int] = self.versions
        if self.in_commit is not None:
            after = self.in_commit.since_ms is None or timestamp_ms >= self.in_commit.since_ms
            versions = [v for v in versions if (v >= self.in_commit.version) == after] or versions
        return _last_at(versions, self.time_of, timestamp_ms)

    def range_text(self) -> str:
        """The range of versions and times, for messages."""
        first, last = self.versions[0], self.versions[-1]
        times = f"{_format_time(self.time_of(first))} to {_format_time(self.time_of(last))}"
        return f"its versions {first} to {last} were made from {times}"


def timeline(location: Location) -> Timeline:
    """The commit times of a table's versions; in-commit timestamps are read on demand."""
    listed = list_all(location)
    replayed = replay(location, listed, files=False)
    listing, settings = listed.listing, replayed.settings
    versions = tuple(v for v in readable_versions(listing) if v in listing.commits)
    in_commit = in_commit_times(settings.protocol, settings.metadata)
    times = file_times(listing)

    def time_of(version: int) -> int:
        if in_commit is None or version < in_commit.version:
            return times[version]
        timestamp = _read_timestamp(location, listing, version)
        if timestamp is None:
            path = f"{log_url(location)}/{listing.commits[version].name}"
            raise Damaged(f"{path} lacks the in-commit timestamp it must have", path=path, expected="inCommitTimestamp")
        return timestamp

    if not versions:
        raise UnknownVersion(f"no version of the table at {location.url} can be dated: its commits are gone")
    return Timeline(location, versions, in_commit, time_of)


def version_at(location: Location, timestamp_ms: int) -> int:
    """The last version committed at or before a time."""
    times = timeline(location)
    version = times.last_at(timestamp_ms)
    if version is None or timestamp_ms > times.time_of(times.versions[-1]):
        raise UnknownVersion(
            f"the table at {location.url} has no version at {_format_time(timestamp_ms)}: {times.range_text()}"
        ).named(
            "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"
            if version is None
            else "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"
        )
    return version


def _last_at(versions: Sequence[int], time_of: Callable[[int], int], timestamp_ms: int) -> int | None:
    """The last version committed at or before a time; a binary search, because `time_of` may read a commit."""
    low, high = 0, len(versions)
    while low < high:
        middle = (low + high) // 2
        if time_of(versions[middle]) <= timestamp_ms:
            low = middle + 1
        else:
            high = middle
    return versions[low - 1] if low else None


def _format_time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(sep=" ", timespec="milliseconds")
