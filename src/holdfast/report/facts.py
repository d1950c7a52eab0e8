"""What a tour found: plain values, measured or read back from the tables, that a page can be made of.

1. Nothing here is estimated: bytes are sizes of files that were not there before, times are of a clock, counts are of
   rows that were read.
2. A claim is in a step only if it was checked and holds.
3. What was left out on a machine (no Java, no pyiceberg) is a step with `skipped`, which says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.plan.changefeed.biography import Biography


@dataclass(frozen=True, slots=True)
class Bytes:
    """Bytes written, by what they are for."""

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
    """A step of the tour: what it says, the code that ran, what was checked."""

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
    rows: int  # that can be seen
    hidden: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class FileLife:
    """A data file, from the version that brought it to the last one that has it."""

    key: str
    first: int
    last: int
    rows: int  # as written
    is_live: bool  # in the newest version


@dataclass(frozen=True, slots=True)
class Life:
    """What became of a table: its versions in order, its files in the order they came."""

    versions: tuple[Version, ...]
    files: tuple[FileLife, ...]


@dataclass(frozen=True, slots=True)
class Writer:
    """One of several writers that met."""

    name: str
    did: str
    tries: int
    version: int


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """What a change query said, in rows by the type of change."""

    kind: str
    rows: Mapping[str, int]
    bytes_read: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Lookup:
    """How long finding one row by its key took, over several keys."""

    how: str
    files: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a tour found."""

    made_ms: int
    seconds: float
    software: Mapping[str, str]  # names and versions
    table: str
    rows: int
    compared: int  # rows whose ids and versions were compared before and after a compaction, and found equal
    steps: tuple[TourStep, ...]
    life: Life
    row: Biography
    row_name: str  # how the page calls that row
    writers: tuple[Writer, ...]
    conflict: str
    answers: tuple[ChangeCounts, ...]
    lookups: tuple[Lookup, ...]
    proof: str  # what the erasure's last check said
