"""`df.mergeInto(name, condition)` of Spark 4 for our tables.

1. The last part of its name qualifies the target's columns; the source keeps its own alias.
2. Each method returns what Spark's own returns: the writer.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession

from holdfast._dropin.errors import as_delta_spark
from holdfast._dropin.merging import DeltaMergeBuilder
from holdfast._dropin.tables import DeltaTable
from holdfast.engines.spark.session.catalog import split
from holdfast.errors import Invalid
from holdfast.sql.resolver import TableResolver


def merge_into(
    spark: SparkSession, source: DataFrame, name: str, condition: Column, resolver: TableResolver
) -> MergeInto | None:
    """A merge into one of our tables; None where the name means another."""
    try:
        parts = split(name)
    except Invalid:
        return None  # Spark reports the error
    resolved = resolver.table(spark, parts)
    if resolved is None:
        return None
    target = DeltaTable(spark, resolved.delta("mergeInto"), entry=resolved.entry).alias(parts[-1])
    return MergeInto(target.merge(source, condition))


class MergeInto:
    """A merge under construction."""

    def __init__(self, builder: DeltaMergeBuilder) -> None:
        self.builder = builder

    def whenMatched(self, condition: Column | None = None) -> WhenMatched:
        """Choose what happens to rows that a row of the source matches."""
        return WhenMatched(self, condition)

    def whenNotMatched(self, condition: Column | None = None) -> WhenNotMatched:
        """Choose what happens to rows of the source that match nothing."""
        return WhenNotMatched(self, condition)

    def whenNotMatchedBySource(self, condition: Column | None = None) -> WhenNotMatchedBySource:
        """Choose what happens to rows that no row of the source matches."""
        return WhenNotMatchedBySource(self, condition)

    def withSchemaEvolution(self) -> MergeInto:
        """Add columns of the source that the table lacks."""
        self.builder = self.builder.withSchemaEvolution()
        return self

    def merge(self) -> None:
        """Carry it out."""
        self.builder.execute()


class _When:
    def __init__(self, writer: MergeInto, condition: Column | None) -> None:
        self._writer = writer
        self._condition = condition

    @property
    def _builder(self) -> DeltaMergeBuilder:
        return self._writer.builder

    def _with(self, builder: DeltaMergeBuilder) -> MergeInto:
        self._writer.builder = builder
        return self._writer


class WhenMatched(_When):
    """The actions for matched rows."""

    def updateAll(self) -> MergeInto:
        """Set every column that the source has."""
        return self._with(self._builder.whenMatchedUpdateAll(self._condition))

    def update(self, assignments: Mapping[str, Column]) -> MergeInto:
        """Set some columns."""
        return self._with(self._builder.whenMatchedUpdate(self._condition, assignments))

    def delete(self) -> MergeInto:
        """Delete them."""
        return self._with(self._builder.whenMatchedDelete(self._condition))


class WhenNotMatched(_When):
    """The actions for rows of the source that match nothing."""

    def insertAll(self) -> MergeInto:
        """Insert them as they are."""
        return self._with(self._builder.whenNotMatchedInsertAll(self._condition))

    def insert(self, assignments: Mapping[str, Column]) -> MergeInto:
        """Insert them with these values."""
        return self._with(self._builder.whenNotMatchedInsert(self._condition, assignments))


class WhenNotMatchedBySource(_When):
    """The actions for rows that no row of the source matches."""

    @as_delta_spark()
    def updateAll(self) -> MergeInto:
        """Refused, as in Spark: there is no row of the source to take values from."""
        raise Invalid("no row of the source is at hand for rows that none matches: say what to set, with update({...})")

    def update(self, assignments: Mapping[str, Column]) -> MergeInto:
        """Set some columns."""
        return self._with(self._builder.whenNotMatchedBySourceUpdate(self._condition, assignments))

    def delete(self) -> MergeInto:
        """Delete them."""
        return self._with(self._builder.whenNotMatchedBySourceDelete(self._condition))
