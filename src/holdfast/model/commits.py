"""A range of commits as change queries read it: the table before and after, and what each commit did.

1. Commits are all of those from the first to the last, oldest first, without a gap.
2. File actions stand in the order of their commits; an added file has the columns of MOVED, a removed one as well, as
   far as whoever removed it said.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from holdfast.model.files import FILES
from holdfast.model.snapshot import Snapshot
from holdfast.schema.types import Struct

MOVED = pa.schema(
    [
        *FILES,
        ("num_records", pa.int64()),
        ("version", pa.int64()),  # of the commit
        ("data_change", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class Described:
    """What a commit says the table is from then on."""

    schema: Struct
    partition_columns: tuple[str, ...]
    tracks_rows: bool
    has_feed: bool


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """One commit, apart from its files."""

    version: int
    timestamp_ms: int
    operation: str
    keeps_ids: bool  # rows that it moved are still themselves
    copied_rows: int | None  # as its metrics tell; None: they do not
    touches_no_row: bool  # its metrics tell that no row changed, whatever files it moved
    described: Described | None  # None: as before


@dataclass(frozen=True)
class CommitRange:
    """Commits one after another."""

    before: Snapshot | None  # None: there was no table
    after: Snapshot
    commits: tuple[CommitFacts, ...]
    first: Described  # what the table was once the first commit had landed
    added: pa.Table
    removed: pa.Table
    feed: pa.Table  # change data files

    @property
    def start(self) -> int:
        return self.commits[0].version

    @property
    def end(self) -> int:
        return self.commits[-1].version
