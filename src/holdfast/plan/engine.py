"""The protocol of the engines, which read and write rows: Spark, or Arrow in this process.

1. Both engines give the same rows for the same plan, and store the same rows for the same work.
2. What an engine gives to users is a `Frame`: a DataFrame on Spark, an Arrow table in this process. All other answers
   are small: staged files, bitmaps of positions or ids, counts.
3. Verbs ask the engine and never whether there is a session; `verbs.open.engine` is the one place that knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Protocol, TypeVar

import pyarrow as pa
from pyroaring import BitMap64

from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.parquet.write import WriteSpec
from holdfast.plan.changefeed.query import ChangesPlan
from holdfast.plan.dml.change import (
    Done,
    Expression,
    Inserted,
    Insertion,
    PinnedSource,
    Positions,
    TouchedRows,
    Work,
)
from holdfast.plan.dml.follow import Followed, LocatedRows
from holdfast.plan.indexing import Workers
from holdfast.plan.maintain.check import Asks
from holdfast.plan.publish.rows import Arriving, ChangedIds, Storage
from holdfast.plan.scan.request import Condition, ScanPlan
from holdfast.plan.scan.search import RowSearch
from holdfast.predicate.records import Predicate
from holdfast.schema.constraints import Demand
from holdfast.schema.enforce import Fit
from holdfast.schema.types import Struct
from holdfast.storage.location import Location

Frame_co = TypeVar("Frame_co", covariant=True)


class IncomingRows(Protocol):
    """Rows that a user hands over: a DataFrame or an Arrow table."""

    repeatable: ClassVar[bool]  # whether storing them twice stores the same, at no cost to whoever made them

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns."""

    def schema(self) -> Struct:
        """The columns as a table would have them."""

    def is_called(self, name: str) -> bool:
        """Whether the user gave the rows this alias."""

    def input_files(self) -> Sequence[str]:
        """The files that the rows are read from, as Spark spells them."""

    def one_per_key(self, keys: Sequence[tuple[str, bool]], order_by: str, *, last: bool) -> IncomingRows:
        """The first or last row of each key. A key is a column, and whether null equals null in it."""

    def pin(self, prefix: str, target: Snapshot) -> PinnedSource:
        """Evaluate the rows exactly once and write them below a directory of the table."""

    def store(
        self, fitted: Fit, wanted: tuple[Demand, ...], spec: WriteSpec, location: Location
    ) -> tuple[pa.Table, Mapping[str, int]]:
        """Check and store the rows; the staged files, and the furthest number given out per identity column."""


class Engine(Protocol[Frame_co]):
    """Reads and writes rows."""

    parallel_bins: ClassVar[int]  # how many bins a compaction writes at the same time
    failures: ClassVar[tuple[type[Exception], ...]]  # what a failing engine raises beyond this library's own errors

    @property
    def workers(self) -> Workers | None:
        """The processes that do large work; None: this process does all of it."""

    # Reading

    def scan(self, plan: ScanPlan, hidden: HiddenRows) -> Frame_co:
        """The rows of a plan. Every planned file is read, or this or its first use raises."""

    def describe(self, plan: ScanPlan) -> tuple[str, ...]:
        """How the plan would be read, in sentences for people."""

    def condition(self, where: Expression, columns: Struct) -> Condition:
        """What a condition asks of rows, as far as it can be read; `columns` are those it may name."""

    def understands(self, predicate: Predicate) -> bool:
        """Whether the engine can evaluate all of a predicate."""

    def changes(self, plan: ChangesPlan) -> Frame_co:
        """The changes of a change query."""

    def touched_ids(self, parts: Sequence[TouchedRows]) -> Frame_co:
        """The row ids of touched rows, each with the kind of change."""

    def touched_bitmap(self, parts: Sequence[TouchedRows]) -> BitMap64:
        """The row ids of touched rows."""

    # Small answers about rows

    def first_row(self, plan: ScanPlan, hidden: HiddenRows) -> pa.Table:
        """One row of a plan; none where it gives none."""

    def furthest(self, plan: ScanPlan, hidden: HiddenRows, *, upward: bool) -> int | None:
        """The greatest value of a plan's only column, or the least; None where there is none."""

    def id_bitmap(self, plan: ScanPlan, hidden: HiddenRows, column: str) -> BitMap64:
        """The distinct values of a plan's column of row ids."""

    def rows_by_file(self, searches: Sequence[RowSearch], hidden: HiddenRows) -> Mapping[str, int]:
        """How many rows of each file at least one search finds, by the file's URI; files without any are absent."""

    def inspect_files(self, asks: Asks) -> pa.Table:
        """What the footers of files say, with the columns of INSPECTED."""

    # Changing rows

    def source(self, rows: object) -> IncomingRows:
        """The source of a MERGE as this engine takes it; anything else is refused."""

    def change(self, work: Work) -> Done:
        """Find the rows that clauses take, and store what becomes of them."""

    def insert(self, work: Insertion) -> Inserted:
        """Store the rows of a source that found no row."""

    def colliding(self, work: Work, limit: int) -> Sequence[str]:
        """Some rows of the source that take one row of the target together, for people to read."""

    def follow(self, old: LocatedRows, new: LocatedRows) -> Followed:
        """Look for the rows of one place in another."""

    def some_ids(self, place: LocatedRows, limit: int) -> Sequence[int]:
        """Some ids of rows, for people to read."""

    def write_changes(self, plan: ChangesPlan, spec: WriteSpec, location: Location) -> pa.Table:
        """Store the changes of a change query as change data files, with the columns of STAGED."""

    # Publishing

    def changed_ids(self, plan: ChangesPlan) -> ChangedIds:
        """The ids of rows that a net change updates or deletes."""

    def locate(self, place: LocatedRows, ids: BitMap64) -> Positions:
        """Where the live rows with these ids are."""

    def publish(self, rows: Arriving, storage: Storage) -> pa.Table:
        """Store rows with their ids; gives the files, with the columns of STAGED."""

    def progress(self, what: str) -> AbstractContextManager[None]:
        """Show a step of long work on a terminal, where the engine shows nothing of it itself."""
