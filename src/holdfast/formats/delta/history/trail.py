"""Reads the commits of a log in order, with the files that each one added and removed.

1. Where commits were cleaned up, the trail starts from the oldest version from which no commit is missing.
2. Each commit is read once, on demand, and not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from holdfast.errors import Damaged
from holdfast.formats.delta.log.actions import Line, commit_info
from holdfast.formats.delta.log.columns import dv_ids_of, file_keys, from_actions
from holdfast.formats.delta.log.listing import list_all, log_url, read_commits
from holdfast.formats.delta.log.segment import LogListing, readable_versions
from holdfast.formats.delta.log.times import file_times, in_commit_timestamp
from holdfast.formats.delta.state import load
from holdfast.formats.delta.stats.reader import JsonStats
from holdfast.model.files import FileTable, Slab
from holdfast.model.touch import Touch, Trail
from holdfast.storage.arrays import strings
from holdfast.storage.location import Location


def trail(location: Location) -> Trail:
    """The commits that the log of a table still has."""
    listing = list_all(location).listing
    if 0 in listing.commits and len(listing.commits) == (listing.latest or 0) + 1:
        return Trail(None, FileTable(), _touches(location, listing, 0))
    readable = readable_versions(listing)
    if not readable:
        raise Damaged(f"no version in {log_url(location)} can be read from its start on", path=log_url(location))
    # The oldest version from which no commit is missing.
    start = max((v for v in readable if v not in listing.commits or v - 1 not in readable), default=readable[0])
    files = load(location, version=start).snapshot.files
    return Trail(start, files, _touches(location, listing, start + 1))


def _touches(location: Location, listing: LogListing, start: int) -> Iterator[Touch]:
    versions = [version for version in sorted(listing.commits) if version >= start]
    times = file_times(listing)
    for version, lines in read_commits(location, listing, versions):
        yield _touch(location, version, times[version], lines)


def _touch(location: Location, version: int, written_ms: int, lines: Sequence[Line]) -> Touch:
    adds = [line.add for line in lines if line.add is not None]
    removes = [line.remove for line in lines if line.remove is not None]
    # Paths may lead outside the table: a missing file of an old version is no error.
    added = from_actions(adds, location.anywhere)
    timestamp = in_commit_timestamp(lines)
    return Touch(
        version,
        written_ms if timestamp is None else timestamp,
        str(commit_info(lines).get("operation", "an unnamed operation")),
        FileTable((Slab(added, JsonStats(strings([action.stats for action in adds]))),) if adds else ()),
        pa.table({"key": file_keys(removes, location.anywhere), "vector": dv_ids_of(removes)}),
        any(action.data_change for action in (*adds, *removes)),
    )
