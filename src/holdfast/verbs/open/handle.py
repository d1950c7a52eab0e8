"""A table that is held open: its location, the newest version that was read, and the engine.

1. `newest` looks for commits of others, at the cost of what came since; `state` costs nothing.
2. A table object and its aliases share one handle: what one of them has seen, the others have.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import pyarrow as pa

from holdfast.env import Env, system
from holdfast.index.reader import PinnedReader
from holdfast.model.format import TableState
from holdfast.model.snapshot import Snapshot
from holdfast.plan.changefeed.biography import Biography
from holdfast.plan.changefeed.query import ChangeQuery
from holdfast.plan.scan.request import Condition, known_columns, refuse_unknown
from holdfast.predicate.parse import parse, unknown_names
from holdfast.schema.properties import isolation as level_named
from holdfast.schema.types import Struct
from holdfast.verbs.changefeed.change_set import ChangeSet, When
from holdfast.verbs.define.alteration import Alteration
from holdfast.verbs.dml.delete_update import Changed, ExecutionContext
from holdfast.verbs.dml.write_mutation import CommitOptions
from holdfast.verbs.index.registry import IndexRegistry, Searchable
from holdfast.verbs.maintain.check import CheckReport
from holdfast.verbs.open.engine import AnyEngine, engine_of, on_spark, zone_of
from holdfast.verbs.open.open_table import OpenTable
from holdfast.verbs.publish.mutation import Origin

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from holdfast.engines.spark.engine import SparkEngine

Metadata: TypeAlias = Mapping[str, str] | Sequence[str]
Version: TypeAlias = int | str | None
Timestamp: TypeAlias = str | datetime.datetime | None


@dataclass(frozen=True, slots=True)
class TableDetails:
    """What catalogs show of a table beside its schema and its own properties."""

    description: str | None = None
    clustering_columns: tuple[str, ...] = ()
    protocol: Mapping[str, str] = field(default_factory=dict)  # versions and features, as properties


class Handle(ABC):
    """A table of some format."""

    format_name: ClassVar[str]  # as catalogs spell it
    state: TableState  # the newest that was seen

    def __init__(self, spark: SparkSession | None) -> None:
        self.spark = spark

    @abstractmethod
    def newest(self) -> TableState:
        """The table as it is now."""

    @abstractmethod
    def at(self, version: Version, timestamp: Timestamp) -> TableState:
        """The table at a version, or as it was at a moment; as it is without either."""

    @abstractmethod
    def open(self, version: Version = None, timestamp: Timestamp = None) -> OpenTable:
        """The table, to be read at a version or moment; as it is now without either."""

    def caller(
        self,
        alias: str | None = None,
        mode: str | None = None,
        options: CommitOptions | None = None,
        isolation: str | None = None,
    ) -> ExecutionContext:
        """How a call of a verb runs on this table."""
        level = None if isolation is None else level_named(isolation)
        return ExecutionContext(
            self.engine, self.env, self.zone, alias, options or CommitOptions(), mode, level, reindex=self.reindex
        )

    @abstractmethod
    def reindex(self) -> None:
        """Refresh the indexes that ask for it after every write."""

    @abstractmethod
    def is_partitioned(self) -> bool:
        """Whether rows that are written now have partitions, which they can take the place of."""

    @abstractmethod
    def refuse_overwrite(self, *, by_match: bool, replaces_schema: bool) -> None:
        """Refuse an overwrite that the format does not have."""

    @abstractmethod
    def history(self, limit: int | None) -> pa.Table:
        """The commits of the table, newest first."""

    @property
    @abstractmethod
    def alter(self) -> Alteration:
        """Changes of the newest version's columns and properties."""

    @abstractmethod
    def reader(self, version: Version = None, timestamp: Timestamp = None) -> PinnedReader:
        """A reader of single rows, by their ids."""

    @abstractmethod
    def searchable(self, version: Version = None, timestamp: Timestamp = None) -> Searchable:
        """The table as `lookup` reads it."""

    @property
    @abstractmethod
    def registry(self) -> IndexRegistry:
        """The indexes of the newest version."""

    @abstractmethod
    def changes(self, start: When | None, end: When | None, query: ChangeQuery, resume: str | None) -> ChangeSet:
        """What commits did to rows; versions and timestamps are inclusive."""

    @abstractmethod
    def biography(self, row_id: int) -> Biography:
        """What happened to a row."""

    @abstractmethod
    def check(self, *, repair: bool, deep: bool, drop_missing: bool) -> CheckReport:
        """Whether what is stored is what the log or the metadata says."""

    @abstractmethod
    def restore(self, version: Version = None, timestamp: Timestamp = None) -> Changed:
        """Bring an earlier version back, in one attempt."""

    @abstractmethod
    def origin(self, upto: int | None) -> Origin:
        """The table as it is published, up to a version."""

    @abstractmethod
    def refuse_unpublishable(self, schema: Struct) -> None:
        """Refuse columns that no table of this format has, as far as nothing else does."""

    def details(self) -> TableDetails:
        """The description, clustering and protocol of the newest version, as far as the format has them."""
        return TableDetails()

    @property
    def env(self) -> Env:
        """Where clock, randomness and uuids come from."""
        return system()

    @property
    def zone(self) -> str:
        """The time zone of the session; UTC without one."""
        return zone_of(self.spark)

    @property
    def engine(self) -> AnyEngine:
        """The engine that reads and writes the table's rows."""
        return engine_of(self.spark, self.env, self.zone)

    def on_spark(self) -> SparkEngine:
        """The engine, for what gives DataFrames."""
        return on_spark(self.engine)

    def session(self) -> SparkSession:
        """The session, for what needs one."""
        return self.on_spark().spark

    def condition(self, where: str | Column | None, snapshot: Snapshot, metadata: Metadata = ()) -> Condition | None:
        """What a condition asks of rows, as Spark understands it; it may name these metadata columns."""
        return None if where is None else self.on_spark().condition(where, known_columns(snapshot, metadata))

    def local_condition(self, where: str | None, snapshot: Snapshot, metadata: Metadata = ()) -> Condition | None:
        """What a condition asks of rows that are read in this process."""
        if where is None:
            return None
        columns = known_columns(snapshot, metadata)
        refuse_unknown(unknown_names(where, columns), columns)
        return Condition(where, where, parse(where, columns, zone=self.zone))
