"""A transaction as a value that is committed, and again after a lost race.

Everything that depends on the version it lands at (row ids, commit versions, log bytes) is made per attempt from this
value, so losing a race never means writing a data file again.

1. Files in `added` are written and complete, and nobody refers to them yet.
2. `removed` are files of the snapshot the transaction started from.
3. `reads` says what must not have changed for the transaction still to be right.
4. `restamped` are live files without row ids, to be added again with ids; they belong to the version the attempt is
   made on, so a mutation that has any is made anew after a lost race.
5. `hidden` are positions to hide beyond those that are hidden already: an attempt unites them with the vector the file
   then has, and a file with no row left is removed.
6. `readded` are files of an earlier version that come back as they were, ids included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from holdfast.model.files import FILES, PARTITION, PLACED, STRINGS, FileTable
from holdfast.model.publication import Publishing
from holdfast.model.snapshot import Placement
from holdfast.predicate.records import Predicate
from holdfast.rows.stamp import PROVISIONAL
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import Struct

STAGED = pa.schema(
    [
        ("key", pa.string()),  # decoded, relative to the table's directory
        ("size", pa.int64()),
        ("modified_ms", pa.int64()),
        ("partition_values", STRINGS),  # by physical name, as text
        ("num_records", pa.int64()),
        ("stats", pa.string()),  # as the format stores them
        ("carried", pa.string()),  # what rows carry of identity, see `parquet.carried`; null: not known
    ]
)
RESTAMPED = pa.schema([*FILES, ("num_records", pa.int64()), ("stats", pa.string())])
ENABLES_ROW_TRACKING = "rowTrackingEnablementOnly"  # tags a commit that changes nothing else
HANDS_OUT_NUMBERS = "delta.identity.schemaUpdate"  # tags one that changes only how far identity columns have come
DROPS_FEATURE = "DROP FEATURE"  # the operation that takes a feature out of the table
TAKES_FILES = "VACUUM START"  # the operation after which files of old versions go
KEEPS_ROW_IDS = "delta.rowTracking.preserved"  # tags a commit whose rewritten rows are still themselves


@dataclass(frozen=True, slots=True)
class NoRows:
    """It read nothing of the table: a blind append."""


@dataclass(frozen=True, slots=True)
class AllRows:
    """It depends on every row."""


@dataclass(frozen=True, slots=True)
class RowsWhere:
    """It depends on the rows that satisfy a condition."""

    predicate: Predicate


Reads: TypeAlias = NoRows | AllRows | RowsWhere


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What a table is, apart from its rows."""

    schema: Struct
    partition_columns: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    clustering_columns: tuple[tuple[str, ...], ...] | None = None  # physical names; None: not a clustered table
    name: str | None = None
    description: str | None = None
    features: frozenset[str] = frozenset()  # asked for by name, beyond those the rest needs


@dataclass(frozen=True, slots=True)
class AppVersion:
    """How far an application has written: a version at or below what the table knows is not written again."""

    app_id: str
    version: int


@dataclass(frozen=True, slots=True)
class Laid:
    """How the rows of added files were laid out, for whoever lays them out again."""

    provider: str | None = None  # who keeps the table clustered; None: nobody
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Mutation:
    """One transaction."""

    operation: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    added: pa.Table = field(default_factory=STAGED.empty_table)
    laid: Mapping[str, Laid] = field(default_factory=dict)  # by key of added files; the others are as they came
    removed: pa.Table = field(default_factory=FILES.empty_table)
    restamped: pa.Table = field(default_factory=RESTAMPED.empty_table)
    hidden: Mapping[str, BitMap64] = field(default_factory=dict)  # by file key
    readded: pa.Table = field(default_factory=RESTAMPED.empty_table)
    back_to: int | None = None  # the version that comes back, in a format that lists the files of each
    mends: bool = False  # what the format has beside rows and contradicts the files is told as the files prove it
    counts: Mapping[str, int] = field(default_factory=dict)  # rows of files, by key, that a mending puts right
    covered: Mapping[str, BitMap64] = field(default_factory=dict)  # rows of added files that are hidden from the start
    feed: pa.Table = field(default_factory=STAGED.empty_table)  # change data files
    data_change: bool = True
    mark: int | None = None  # row ids up to here count as handed out, whatever the table says
    reads: Reads = NoRows()
    shape: TableDefinition | None = None  # what the table becomes; None: as it is
    app: AppVersion | None = None
    user_metadata: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)  # what other writers may go by
    domains: Mapping[str, str | None] = field(default_factory=dict)  # state kept in the table by name; None: dropped
    publishes: Publishing | None = None  # whose rows it brings, where they are another table's
    drops: frozenset[str] = frozenset()  # features that the table does without from here on

    @property
    def is_blind(self) -> bool:
        """Whether it only adds, without having looked at the table."""
        takes = bool(self.removed.num_rows or self.hidden or self.readded.num_rows)
        return isinstance(self.reads, NoRows) and not takes and self.shape is None


@dataclass(frozen=True, slots=True)
class Committed:
    """The transaction is in the table, at this version."""

    version: int


@dataclass(frozen=True, slots=True)
class VersionTaken:
    """Another writer has the version; nothing of this attempt is in the table."""

    version: int


Outcome: TypeAlias = Committed | VersionTaken


@dataclass(frozen=True)
class Winner:
    """A commit that came between the snapshot a transaction read and its attempt."""

    version: int
    operation: str
    timestamp_ms: int
    added: FileTable
    removed_keys: frozenset[str]
    data_change: bool
    blind_append: bool
    changes_shape: bool
    changes_protocol: bool
    apps: frozenset[str]
    only_enables_row_tracking: bool = False  # then what it did to the shape is adopted
    only_hands_out_numbers: bool = False  # likewise, by who hands out none
    keeps_row_ids: bool = False  # rows that it wrote again have the ids they had
    domains: frozenset[str] = frozenset()  # of state kept in the table, those it set or dropped
    deletes_by_value: bool = False  # rows went, or came back, that nobody has told by their places

    @property
    def only_appends(self) -> bool:
        """Whether all it did is to bring files that the table has not had."""
        return self.blind_append and not (self.removed_keys or self.deletes_by_value or self.changes_shape)


@dataclass(frozen=True, slots=True)
class Came:
    """Commits that came since a version, oldest first, and the files that all of them added, together."""

    winners: tuple[Winner, ...] = ()
    added: FileTable = field(default_factory=FileTable)

    @property
    def only_appends(self) -> bool:
        """Whether every one of them brought files and did nothing else."""
        return all(winner.only_appends for winner in self.winners)


def joined(stretches: Sequence[Came]) -> Came:
    """What came in stretches, one after another."""
    slabs = tuple(slab for came in stretches for slab in came.added.slabs)
    return Came(tuple(winner for came in stretches for winner in came.winners), FileTable(slabs))


def staged_files(staged: pa.Table, placement: Placement | None = None) -> pa.Table:
    """Staged files with the columns of FILES, as if they were in the table: rows that carry no id have provisional
    ones, and a provisional version. Where a table places files by specs, it is not said where these are."""
    counts = staged.column("num_records").combine_chunks()
    ends = pc.cumulative_sum(counts)
    paths = pa.array([quote(key) for key in staged.column("key").to_pylist()], pa.string())  # one per file
    given = {
        **{name: staged.column(name) for name in ("key", "size", "modified_ms", "partition_values")},
        "path": paths,
        "base_row_id": pc.add(pc.subtract(ends, counts), PROVISIONAL),
        "default_row_commit_version": pa.repeat(pa.scalar(PROVISIONAL, pa.int64()), staged.num_rows),
    }
    nothing = {f.name: pa.nulls(staged.num_rows, f.type) for f in FILES}
    files = pa.table({**nothing, **given}).select(FILES.names).cast(FILES)
    if placement is None:
        return files
    values = {"format": pa.repeat("parquet", staged.num_rows), "sequence": files.column("default_row_commit_version")}
    for f in PLACED:
        files = files.append_column(f, values.get(f.name, pa.nulls(staged.num_rows, f.type)))
    tuples = arrow_type(placement.tuple_type)
    return files.append_column(PARTITION, pa.nulls(staged.num_rows, tuples))
