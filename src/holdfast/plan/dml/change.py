"""A change to the rows of a table, as a runner carries it out: values only.

    live rows of some files, each with its address  ->  matched with a pinned source, if there is one
        ->  the first clause that takes the row  ->  updated: hidden here, written anew under its id
                                                     deleted: hidden here
                                                     taken by none: left, or copied where its file is rewritten

DELETE is a clause without assignments and UPDATE one with, both on rows that stand alone; MERGE adds a source. So
there is one way to change rows, on every runner, in both strategies.

1. Clauses are tried in order, and a row is taken by the first whose condition is true; null is not true.
2. A row that is written keeps its id; its version is null where a clause changed it, and kept where it was copied.
3. What a runner says it did is by file key and physical position, whatever way the rows went.
4. Two rows of the source that take one row of the target are told, never settled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from holdfast.model.mutation import STAGED
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.parquet.write import WriteSpec
from holdfast.plan.maintain.curve import Along
from holdfast.plan.scan.metadata_columns import NO_METADATA, MetadataColumns
from holdfast.plan.scan.request import ScanPlan, with_metadata
from holdfast.rows.stamp import PROVISIONAL
from holdfast.schema.types import Struct

Expression: TypeAlias = Any  # SQL text, or a Column that only Spark can evaluate
SOURCE_ALIAS = "__hf_source"  # what a source is called that the user gave no name
Positions: TypeAlias = Mapping[str, BitMap64]  # physical positions by file key; files without any are absent


class Side(Enum):
    """Which rows a clause is about."""

    MATCHED = "rows of the target that a row of the source matches"
    ALONE = "rows of the target that none matches; all of them where there is no source"
    NEW = "rows of the source that match no row of the target"


@dataclass(frozen=True, slots=True)
class Set:
    """A column, or a field inside of it, and the value it gets."""

    path: tuple[str, ...]  # logical names as the table spells them
    value: Expression
    complete: bool = True  # a value whose structs lack fields of the column is refused; else those are null


@dataclass(frozen=True, slots=True)
class Clause:
    """What becomes of the rows it takes. `sets` of None deletes them."""

    side: Side
    condition: Expression | None = None  # None: takes every row of its side
    sets: tuple[Set, ...] | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """Equality of a column of the target and one of the source, as the condition of a MERGE demands it."""

    target: str
    source: str
    null_safe: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """The rows a MERGE brings, pinned: written once, and read like a table."""

    snapshot: Snapshot
    on: Expression
    keys: tuple[Key, ...] = ()  # as far as the condition is understood
    alias: str | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Storing:
    """How changed rows are stored."""

    data: WriteSpec  # with the names under which ids and versions are carried, where the table tracks rows
    feed: WriteSpec | None = None  # change data files: the table's columns and the kind of change; None: no feed
    properties: Mapping[str, str] = field(default_factory=dict)  # for the constraints they hold


@dataclass(frozen=True, slots=True)
class Order:
    """Which rows are to lie near each other: those with near values, along a curve through these columns."""

    columns: tuple[tuple[str, ...], ...]  # logical paths
    along: Along
    parts: int  # the curve is cut into as many, each written by itself


@dataclass(frozen=True)
class Work:
    """Look at rows of the target and change those that a clause takes."""

    target: ScanPlan  # the files; its condition, if any, is true of every row that may be taken
    hidden: HiddenRows
    clauses: tuple[Clause, ...]  # MATCHED and ALONE
    schema: Struct  # of the table once the change is committed: that of the target, or more
    source: Source | None = None
    alias: str | None = None  # of the target
    metadata: MetadataColumns = NO_METADATA  # those that clauses may name
    keep: bool = False  # rows that no clause takes are copied
    together: bool = False  # what is written goes into as few files as their target size allows
    order: Order | None = None  # all rows are of one partition and copied, and are written in this order
    by_id: bool = False  # likewise, in the order of their row ids
    label: str = "changing rows"  # what people are shown while it lasts
    meets: bool = False  # tell which rows of the source found a row, whether a clause took it or not
    store: Storing | None = None  # None: only find

    @property
    def named(self) -> Struct:
        """What clauses may name of the target: its columns, and the metadata columns that are read beside them."""
        snapshot = self.target.snapshot
        return with_metadata(snapshot, snapshot.schema, self.metadata)

    @property
    def has_provisional(self) -> bool:
        """Whether rows of the target may have ids and versions that are only made up, and are never stored."""
        bases = self.target.files.column("base_row_id")
        return pc.any(pc.greater_equal(bases, PROVISIONAL)).as_py() or False


@dataclass(frozen=True)
class Done:
    """What a runner did."""

    staged: pa.Table = field(default_factory=STAGED.empty_table)  # rows written
    feed: pa.Table = field(default_factory=STAGED.empty_table)  # change data files
    updated: Positions = field(default_factory=dict)
    deleted: Positions = field(default_factory=dict)
    copied: int = 0
    met: Positions = field(default_factory=dict)  # rows of the source, by its own file keys
    doubled: int = 0  # rows of the target taken by more than one row of the source
    seen: Positions = field(default_factory=dict)  # rows of the target that the source met and no clause took


@dataclass(frozen=True)
class Insertion:
    """Store rows of a source that match nothing."""

    source: Source
    met: Positions  # these rows of the source are left out
    clauses: tuple[Clause, ...]  # NEW, tried in order; a row that none takes is not inserted
    schema: Struct
    store: Storing
    alias: str | None = None  # of the target: no row of it can be named, only its columns


@dataclass(frozen=True)
class Inserted:
    """What a runner stored."""

    staged: pa.Table = field(default_factory=STAGED.empty_table)
    feed: pa.Table = field(default_factory=STAGED.empty_table)
    marks: Mapping[str, int] = field(default_factory=dict)  # the furthest number given out per identity column


@dataclass(frozen=True, slots=True)
class PinnedSource:
    """A source that was written once."""

    schema: Struct
    staged: pa.Table  # with the columns of STAGED


Rows_contra = TypeVar("Rows_contra", contravariant=True)


class Changer(Protocol[Rows_contra]):
    """What a runner does for DELETE, UPDATE and MERGE. Rows are whatever it takes them from."""

    def change(self, work: Work) -> Done:
        """Find the rows that clauses take, and store what becomes of them."""

    def pin(self, rows: Rows_contra, prefix: str, target: Snapshot) -> PinnedSource:
        """Evaluate a source exactly once and write its rows below a directory of the table."""

    def insert(self, work: Insertion) -> Inserted:
        """Store the rows of a source that found no row."""

    def colliding(self, work: Work, limit: int) -> Sequence[str]:
        """Some rows of the source that take one row of the target together, for people to read."""


def count(positions: Positions) -> int:
    """How many rows there are."""
    return sum(map(len, positions.values()))
