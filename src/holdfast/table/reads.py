"""Rows of a table of any format, read: as a DataFrame, as an Arrow table, or only said how they would be.

1. A condition is understood as far as it goes: that prunes files, and all of it is asked of rows.
2. Without a Spark session rows are read by `toArrow`, and a condition is SQL text.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession

from holdfast.errors import Invalid
from holdfast.local.runner import LocalRunner
from holdfast.model.snapshot import Snapshot
from holdfast.ops import explain as explaining
from holdfast.ops import scan as scanning
from holdfast.ops.scan import LoadHidden
from holdfast.plan.prune import Pruner
from holdfast.plan.run import Runner
from holdfast.plan.scan import Condition, Request, known_columns, refuse_unknown
from holdfast.predicate.parse import parse, unknown_names
from holdfast.spark.conditions import condition, stated_or_none, stated_without_spark
from holdfast.spark.scan import SparkRunner

Metadata: TypeAlias = Mapping[str, str] | Sequence[str]
Version: TypeAlias = int | str | None
Timestamp: TypeAlias = str | datetime.datetime | None
Frame = TypeVar("Frame")


class ReadVerbs(ABC):
    """Verbs that read rows."""

    _spark: SparkSession | None
    _alias: str | None

    @abstractmethod
    def _at(self, version: Version, timestamp: Timestamp) -> Any:
        """The table at a version, or as it was at a moment; as it is without either."""

    @abstractmethod
    def _hidden(self, state: Any) -> LoadHidden:
        """How the hidden rows of a state are found."""

    @abstractmethod
    def historyArrow(self, limit: int | None = None) -> pa.Table:
        """The commits of the table, newest first, as an Arrow table."""

    def toDF(self) -> DataFrame:
        """All rows and columns of the newest version."""
        df = self.scan()
        return df.alias(self._alias) if self._alias else df

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | Column | None = None,
        version: Version = None,
        timestamp: Timestamp = None,
        metadata: Metadata = (),
    ) -> DataFrame:
        """Rows as a DataFrame.

        `where` is SQL text or a Column; what of it is understood prunes files. `metadata` names columns such as
        `_row_id`, or maps them to other names: `{"_row_id": "rid"}`. A version is a number, or a name: of a pin in
        Delta, of a branch or tag in Iceberg.
        """
        given = stated_or_none(where, "scan(where=)")
        spark, state = self._session(), self._at(version, timestamp)
        asked = self._condition(given, state.snapshot, metadata)
        return self._scanned(state, Request(columns, asked, metadata), SparkRunner(spark))

    def toArrow(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        version: Version = None,
        timestamp: Timestamp = None,
        metadata: Metadata = (),
    ) -> pa.Table:
        """Rows as an Arrow table, read in this process without Spark: for small requests."""
        text = stated_without_spark(where, "toArrow(where=)")
        state = self._at(version, timestamp)
        asked = self._local_condition(text, state.snapshot, metadata)
        return self._scanned(state, Request(columns, asked, metadata), LocalRunner())

    def explain(
        self,
        columns: Sequence[str] | None = None,
        where: str | Column | None = None,
        version: Version = None,
        timestamp: Timestamp = None,
        metadata: Metadata = (),
    ) -> explaining.Explanation:
        """What `scan` with the same arguments would read, and why; printing it shows it."""
        given = stated_or_none(where, "explain(where=)")
        text = stated_without_spark(where, "explain(where=) without a session") if self._spark is None else None
        state = self._at(version, timestamp)
        snapshot, more = state.snapshot, self._passes(state)
        if self._spark is None:
            local = Request(columns, self._local_condition(text, snapshot, metadata), metadata)
            return explaining.explain(snapshot, local, LocalRunner(), more=more)
        request = Request(columns, self._condition(given, snapshot, metadata), metadata)
        return explaining.explain(snapshot, request, SparkRunner(self._spark), more=more)

    def history(self, limit: int | None = None) -> DataFrame:
        """The commits of the table, newest first."""
        return self._session().createDataFrame(self.historyArrow(limit))

    def _passes(self, state: Any) -> tuple[Pruner, ...]:
        """Passes over the files of a state that are offered beyond those every table has."""
        return ()

    def _needed(self, state: Any, where: Condition | None) -> Any:
        """A state that has all files which a condition lets through, and perhaps no others."""
        return state

    def _scanned(self, state: Any, request: Request, runner: Runner[Frame]) -> Frame:
        needed = self._needed(state, request.where)
        return scanning.scan(needed.snapshot, request, runner, self._hidden(needed), self._passes(needed))

    def _zone(self) -> str:
        if self._spark is None:
            return "UTC"
        return self._spark.conf.get("spark.sql.session.timeZone") or "UTC"

    def _session(self) -> SparkSession:
        if self._spark is None:
            raise Invalid("this table was opened without a Spark session: use toArrow, or open it with one")
        return self._spark

    def _condition(self, where: str | Column | None, snapshot: Snapshot, metadata: Metadata) -> Condition | None:
        return None if where is None else condition(self._session(), where, known_columns(snapshot, metadata))

    def _local_condition(self, where: str | None, snapshot: Snapshot, metadata: Metadata) -> Condition | None:
        if where is None:
            return None
        columns = known_columns(snapshot, metadata)
        refuse_unknown(unknown_names(where, columns), columns)
        return Condition(where, where, parse(where, columns, zone=self._zone()))
