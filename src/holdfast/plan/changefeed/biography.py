"""The history of one row as a list of events, and its text.

1. Events are in the order in which they happened. An event without a version happened at an unknown time.
2. `notes` state what is unknown: where the history of the table begins later than the row, or has gaps.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from enum import Enum


class What(Enum):
    """The kinds of events of a row."""

    BORN = "born"
    SEEN = "first seen"  # in the oldest version that can still be read
    CHANGED = "changed"  # its values
    MOVED = "moved"  # to another file, unchanged
    DELETED = "deleted"
    RESTORED = "restored"
    LOST = "lost sight of"  # the files of that version are gone
    FOUND = "found again"
    PURGED = "purged"  # no file that held it exists any more


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a row; file and position are where the row is afterwards, or was before it left the table."""

    what: What
    version: int | None
    timestamp_ms: int | None = None
    operation: str | None = None
    file: str | None = None
    position: int | None = None
    detail: str = ""

    def __str__(self) -> str:
        when = "" if self.timestamp_ms is None else _shown(self.timestamp_ms)
        version = "" if self.version is None else f"version {self.version}"
        place = "" if self.file is None else f"{self.file}, position {self.position}"
        notes = [text for text in (place, self.detail) if text]
        return f"{when:23}  {version:12}  {self.operation or '':22}  {self.what.value:10}  {'; '.join(notes)}".rstrip()


@dataclass(frozen=True, slots=True)
class Biography:
    """The events of a row; `str` gives them as text."""

    table: str
    row_id: int
    events: tuple[Event, ...]
    alive: bool
    remains: tuple[str, ...] = ()  # files that still hold bytes of a row that is not in the table
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        state = "in the table" if self.alive else "not in the table"
        lines = [f"row {self.row_id} of {self.table}: {state}", *(f"  {event}" for event in self.events)]
        lines += [f"  its bytes are still in {file}" for file in self.remains]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


def _shown(moment: int) -> str:
    return datetime.datetime.fromtimestamp(moment / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
