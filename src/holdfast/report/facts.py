"""The facts that a tour collects for its report: measured, or read from the tables.

1. Nothing is estimated: bytes are sizes of new files, times are from a clock, counts are of rows that were read.
2. A step has only claims that were checked and hold.
3. A step that was skipped (no Java, no pyiceberg) has the reason in `skipped`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.plan.changefeed.biography import Biography


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes written, by kind of file."""

    data: int = 0
    vectors: int = 0
    log: int = 0
    index: int = 0

    @property
    def total(self) -> int:
        return self.data + self.vectors + self.log + self.index

    def __add__(self, other: Bytes) -> Bytes:
        return Bytes(
            self.data + other.data, self.vectors + other.vectors, self.log + other.log, self.index + other.index
        )


@dataclass(frozen=True, slots=True)
class TourStep:
    """A step of the tour: its text, code and checked claims."""

    title: str
    says: str
    code: str = ""
    checks: tuple[str, ...] = ()
    seconds: float = 0.0
    written: Bytes = field(default_factory=Bytes)
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the table, from its log."""

    number: int
    operation: str
    rows: int  # live
    hidden: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FileLife:
    """A data file, from the version that added it to the last version that has it."""

    key: str
    first: int
    last: int
    rows: int  # as written
    is_live: bool  # in the newest version


@dataclass(frozen=True, slots=True)
class Life:
    """The versions of a table in order, and its files in the order they were added."""

    versions: tuple[Version, ...]
    files: tuple[FileLife, ...]


@dataclass(frozen=True, slots=True)
class Writer:
    """One of several concurrent writers."""

    name: str
    did: str
    tries: int
    version: int


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """The result of a change query: rows by change type."""

    kind: str
    rows: Mapping[str, int]
    bytes_read: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Lookup:
    """The mean time to find one row by its key."""

    how: str
    files: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Facts:
    made_ms: int
    seconds: float
    software: Mapping[str, str]  # names and versions
    table: str
    rows: int
    compared: int  # rows whose ids and versions were equal before and after a compaction
    steps: tuple[TourStep, ...]
    life: Life
    row: Biography
    row_name: str  # of that row, on the page
    writers: tuple[Writer, ...]
    conflict: str
    answers: tuple[ChangeCounts, ...]
    lookups: tuple[Lookup, ...]
    proof: str  # the last check of the erasure
