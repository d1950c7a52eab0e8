"""Writes a log compaction: one file that holds the actions of several commits.

1. The log itself does not change: readers that do not know such files, or do not trust one, read the commits.
2. By default it begins after the newest checkpoint and ends with the newest version.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import Invalid
from holdfast.formats.delta.log.compaction import write_log_compaction
from holdfast.formats.delta.log.listing import list_all
from holdfast.formats.delta.protocol.features import check_writable
from holdfast.formats.delta.state import DeltaState


@dataclass(frozen=True, slots=True)
class LogCompaction:
    """The versions, both ends included, that a file of the log says together."""

    first: int
    last: int
    name: str


def compact_log(state: DeltaState, *, start: int | None = None, end: int | None = None) -> LogCompaction | None:
    """Say the commits from `start` to `end` in one file; None where there are not two to say together."""
    for given in (start, end):
        if given is not None and (type(given) is not int or given < 0):
            raise Invalid(f"a version is a whole number from 0 on, not {given!r}")
    location = state.snapshot.location
    check_writable(state.protocol, table=location.url)
    last = state.version if end is None else end
    first = start
    if first is None:
        checkpoints = list_all(location).listing.checkpoints
        first = max((c.version + 1 for c in checkpoints if c.version <= last), default=0)
        if first >= last:
            return None
    return LogCompaction(first, last, write_log_compaction(location, first, last))
