"""The commits of a log as touches of files, one after another.

1. Where commits were cleaned up, the trail starts from the oldest version that can still be read.
2. A commit is read when it is asked for, once, and not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from holdfast.errors import Damaged
from holdfast.formats.delta.log.actions import FileAction, Line, commit_info, decode_lines
from holdfast.formats.delta.log.columns import from_actions
from holdfast.formats.delta.log.listing import list_all, log_url, read_bytes
from holdfast.formats.delta.log.segment import LogListing, readable_versions
from holdfast.formats.delta.log.times import file_times, in_commit_timestamp
from holdfast.formats.delta.state import load
from holdfast.formats.delta.stats.reader import JsonStats
from holdfast.model.files import FileTable, Slab
from holdfast.model.touch import Touch, Trail
from holdfast.storage.arrays import strings
from holdfast.storage.location import Location


def trail(location: Location) -> Trail:
    """The commits of a table that are left."""
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
    for version, (meta, data) in zip(
        versions, read_bytes(location, [listing.commits[v] for v in versions]), strict=True
    ):
        lines = decode_lines(data, where=f"{log_url(location)}/{meta.name}")
        yield _touch(location, version, times[version], lines)


def _touch(location: Location, version: int, written_ms: int, lines: Sequence[Line]) -> Touch:
    adds = [line.add for line in lines if line.add is not None]
    removes = [line.remove for line in lines if line.remove is not None]
    # Files of old versions are only asked for if they are there, so a spelling may lead anywhere.
    anywhere = location.anywhere
    added = from_actions(adds, anywhere.file_keys(strings([action.path for action in adds])))
    vectors = [None if (dv := action.deletion_vector) is None else dv.unique_id for action in removes]
    own = in_commit_timestamp(lines)
    return Touch(
        version,
        written_ms if own is None else own,
        str(commit_info(lines).get("operation", "an unnamed operation")),
        FileTable((Slab(added, JsonStats(strings([action.stats for action in adds]))),) if adds else ()),
        pa.table({"key": _keys(anywhere, removes), "vector": strings(vectors)}),
        any(action.data_change for action in (*adds, *removes)),
    )


def _keys(location: Location, actions: Sequence[FileAction]) -> pa.Array:
    return location.file_keys(strings([action.path for action in actions]))
