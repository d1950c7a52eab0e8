"""Rows of a table of any format, read: as a DataFrame, as an Arrow table, or only said how they would be.

1. A condition is understood as far as it goes: that prunes files, and all of it is asked of rows.
2. Without a Spark session rows are read by `toArrow`, and a condition is SQL text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from holdfast.engines.local.scan import LocalRunner
from holdfast.engines.spark.conditions import stated_or_none, stated_without_spark
from holdfast.engines.spark.scan.native import SparkRunner
from holdfast.plan.scan.request import Request
from holdfast.verbs.open.handle import Metadata, TableBase, Timestamp, Version
from holdfast.verbs.read.explain import Explanation


class ReadVerbs(TableBase, ABC):
    """Verbs that read rows."""

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
        runner, opened = SparkRunner(self.handle.session()), self.handle.open(version, timestamp)
        condition = self.handle.condition(given, opened.snapshot, metadata)
        return opened.scan(Request(columns, condition, metadata), runner)

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
        opened = self.handle.open(version, timestamp)
        condition = self.handle.local_condition(text, opened.snapshot, metadata)
        return opened.scan(Request(columns, condition, metadata), LocalRunner())

    def explain(
        self,
        columns: Sequence[str] | None = None,
        where: str | Column | None = None,
        version: Version = None,
        timestamp: Timestamp = None,
        metadata: Metadata = (),
    ) -> Explanation:
        """What `scan` with the same arguments would read, and why; printing it shows it."""
        given, spark = stated_or_none(where, "explain(where=)"), self.handle.spark
        text = stated_without_spark(where, "explain(where=) without a session") if spark is None else None
        opened = self.handle.open(version, timestamp)
        if spark is None:
            condition = self.handle.local_condition(text, opened.snapshot, metadata)
            return opened.explain(Request(columns, condition, metadata), LocalRunner())
        condition = self.handle.condition(given, opened.snapshot, metadata)
        return opened.explain(Request(columns, condition, metadata), SparkRunner(spark))

    def history(self, limit: int | None = None) -> DataFrame:
        """The commits of the table, newest first."""
        return self.handle.session().createDataFrame(self.historyArrow(limit))
