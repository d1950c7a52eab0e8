"""A table that is held open: where it is, the newest version that was seen, and the session that reads it.

1. `newest` looks for commits of others, at the cost of what came since; `state` costs nothing.
2. A table object and its aliases share one handle: what one of them has seen, the others have.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pyspark.sql import Column, SparkSession

from holdfast.engines.spark.conditions import condition
from holdfast.env import Env, system
from holdfast.errors import Invalid
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.request import Condition, known_columns, refuse_unknown
from holdfast.predicate.parse import parse, unknown_names
from holdfast.verbs.dml.delete_update import ExecutionContext
from holdfast.verbs.dml.write_mutation import CommitOptions
from holdfast.verbs.open.dialect import TableState
from holdfast.verbs.read.open_table import OpenTable

Metadata: TypeAlias = Mapping[str, str] | Sequence[str]
Version: TypeAlias = int | str | None
Timestamp: TypeAlias = str | datetime.datetime | None


class Handle(ABC):
    """A table of some format."""

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

    @abstractmethod
    def caller(
        self, alias: str | None, mode: str | None, said: CommitOptions | None, isolation: str | None
    ) -> ExecutionContext:
        """How a verb that changes rows runs on this table."""

    @property
    def env(self) -> Env:
        """Where clock, randomness and uuids come from."""
        return system()

    @property
    def zone(self) -> str:
        """The time zone of the session; UTC without one."""
        return "UTC" if self.spark is None else self.spark.conf.get("spark.sql.session.timeZone") or "UTC"

    def session(self) -> SparkSession:
        """The session, for what needs one."""
        if self.spark is None:
            raise Invalid("this table was opened without a Spark session: use toArrow, or open it with one")
        return self.spark

    def condition(self, where: str | Column | None, snapshot: Snapshot, metadata: Metadata = ()) -> Condition | None:
        """What a condition asks of rows, as Spark understands it; it may name these metadata columns."""
        return None if where is None else condition(self.session(), where, known_columns(snapshot, metadata))

    def local_condition(self, where: str | None, snapshot: Snapshot, metadata: Metadata = ()) -> Condition | None:
        """What a condition asks of rows that are read in this process."""
        if where is None:
            return None
        columns = known_columns(snapshot, metadata)
        refuse_unknown(unknown_names(where, columns), columns)
        return Condition(where, where, parse(where, columns, zone=self.zone))


class TableBase:
    """A table object: a handle, and the name that conditions call the table by."""

    def __init__(self, handle: Handle, alias: str | None = None) -> None:
        self.handle = handle  # for Holdfast's own packages
        self._alias = alias

    def _caller(
        self, mode: str | None = None, said: CommitOptions | None = None, isolation: str | None = None
    ) -> ExecutionContext:
        return self.handle.caller(self._alias, mode, said, isolation)
