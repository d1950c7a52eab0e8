"""The plan of a DELETE, UPDATE or MERGE, and the result that an engine gives back.

    live rows of some files, each with file and position  ->  matched with a pinned source, if there is one
        ->  the first clause whose condition holds  ->  updated: hidden, and written again under the same id
                                                        deleted: hidden
                                                        no clause: left alone, or copied if the file is rewritten

DELETE is a clause without assignments, UPDATE a clause with assignments, MERGE adds a source. Compaction has no clause
and copies every row. So every engine changes rows in one way, for copy-on-write and merge-on-read.

1. Clauses are tried in order; the first whose condition is true applies. Null is not true.
2. A written row keeps its id. Its version is null if a clause changed it, and is kept if it was copied.
3. The result names rows by file key and position in the file as it was written.
4. Two rows of the source that change one row of the target are reported; no engine picks one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from holdfast.model.format import Storing
from holdfast.model.mutation import STAGED
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.plan.maintain.curve import Along
from holdfast.plan.scan.metadata_columns import NO_METADATA, MetadataColumns
from holdfast.plan.scan.request import ScanPlan, with_metadata
from holdfast.rows.stamp import PROVISIONAL
from holdfast.schema.types import Struct

Expression: TypeAlias = Any  # SQL text, or a Column that only Spark can evaluate
CHANGE = "_change_type"  # the column that tells what happened to a row
SOURCE_ALIAS = "__hf_source"  # the alias of a source that the user gave none
Positions: TypeAlias = Mapping[str, BitMap64]  # physical positions by file key; files without any are absent


class Side(Enum):
    """The rows that a clause applies to."""

    MATCHED = "rows of the target that a row of the source matches"
    ALONE = "rows of the target that none matches; all of them where there is no source"
    NEW = "rows of the source that match no row of the target"


@dataclass(frozen=True, slots=True)
class Set:
    """An assignment to a column, or to a field inside it."""

    path: tuple[str, ...]  # logical names as the table spells them
    value: Expression
    complete: bool = True  # refuse a value whose structs lack fields of the column; else these fields are null


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause of a change; `sets` of None deletes the rows."""

    side: Side
    condition: Expression | None = None  # None: applies to every row of its side
    sets: tuple[Set, ...] | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """An equality of a target column and a source column in the condition of a MERGE."""

    target: str
    source: str
    null_safe: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a MERGE, pinned: its rows were written once and are read like a table."""

    snapshot: Snapshot
    on: Expression
    keys: tuple[Key, ...] = ()  # the equalities that were understood
    alias: str | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Order:
    """The order to write rows in: along a curve through these columns."""

    columns: tuple[tuple[str, ...], ...]  # logical paths
    along: Along
    parts: int  # the curve is cut into so many parts, each written by itself


@dataclass(frozen=True)
class Work:
    """A change: which rows of the target to look at, and the clauses that change them."""

    target: ScanPlan  # the files; its condition, if any, holds for every row that a clause may apply to
    hidden: HiddenRows
    clauses: tuple[Clause, ...]  # MATCHED and ALONE
    schema: Struct  # of the table after the commit; it may have more columns than the target
    source: Source | None = None
    alias: str | None = None  # of the target
    metadata: MetadataColumns = NO_METADATA  # those that clauses may name
    keep: bool = False  # copy rows that no clause applies to
    together: bool = False  # write as few files as their target size allows
    order: Order | None = None  # all rows are of one partition and copied, and are written in this order
    by_id: bool = False  # likewise, in the order of row ids
    label: str = "changing rows"  # for the progress display
    meets: bool = False  # report which rows of the source match a row, whether a clause applies or not
    store: Storing | None = None  # None: only find

    @property
    def named(self) -> Struct:
        """The columns of the target that clauses may name, metadata columns included."""
        snapshot = self.target.snapshot
        return with_metadata(snapshot, snapshot.schema, self.metadata)

    @property
    def has_provisional(self) -> bool:
        """Whether some rows of the target have provisional ids and versions, which are never stored."""
        bases = self.target.files.column("base_row_id")
        return pc.any(pc.greater_equal(bases, PROVISIONAL)).as_py() or False


@dataclass(frozen=True)
class Done:
    """What an engine did for a `Work`."""

    staged: pa.Table = field(default_factory=STAGED.empty_table)  # rows written
    feed: pa.Table = field(default_factory=STAGED.empty_table)  # change data files
    updated: Positions = field(default_factory=dict)
    deleted: Positions = field(default_factory=dict)
    copied: int = 0
    met: Positions = field(default_factory=dict)  # rows of the source with a match, by file keys of the source
    doubled: int = 0  # rows of the target that several rows of the source change
    seen: Positions = field(default_factory=dict)  # rows of the target with a match to which no clause applies


@dataclass(frozen=True)
class Insertion:
    """Inserts the rows of a source that match no row of the target."""

    source: Source
    met: Positions  # rows of the source to leave out
    clauses: tuple[Clause, ...]  # NEW, tried in order; a row without a clause is not inserted
    schema: Struct
    store: Storing
    alias: str | None = None  # of the target


@dataclass(frozen=True)
class Inserted:
    """What an engine stored for an `Insertion`."""

    staged: pa.Table = field(default_factory=STAGED.empty_table)
    feed: pa.Table = field(default_factory=STAGED.empty_table)
    marks: Mapping[str, int] = field(default_factory=dict)  # the last number given out, per identity column


@dataclass(frozen=True, slots=True)
class PinnedSource:
    """A source whose rows were written once."""

    schema: Struct
    staged: pa.Table  # with the columns of STAGED


@dataclass(frozen=True, slots=True)
class TouchedRows:
    """Rows that a committed change touched."""

    change: str  # update, delete or insert
    plan: ScanPlan
    hidden: HiddenRows


def count(positions: Positions) -> int:
    return sum(map(len, positions.values()))
