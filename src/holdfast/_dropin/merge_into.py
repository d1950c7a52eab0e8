"""`df.mergeInto(name, condition)` of Spark 4, for our tables: a merge as Spark's own API spells it.

1. The target is called by the last part of its name, and so it is in conditions; the source by what it is called.
2. What each method gives is what Spark's own gives: the writer, to go on with.
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
    spark: SparkSession, source: DataFrame, name: str, condition: Column, known: TableResolver
) -> MergeInto | None:
    """A merge into one of our tables; None where the name means another."""
    try:
        parts = split(name)
    except Invalid:
        return None  # Spark says what is wrong with it
    found = known.table(spark, parts)
    if found is None:
        return None
    target = DeltaTable(spark, found.delta("mergeInto"), entry=found.entry).alias(parts[-1])
    return MergeInto(target.merge(source, condition))


class MergeInto:
    """A merge in the making."""

    def __init__(self, begun: DeltaMergeBuilder) -> None:
        self._begun = begun

    def whenMatched(self, condition: Column | None = None) -> WhenMatched:
        """Say what becomes of rows that a row of the source matches."""
        return WhenMatched(self, condition)

    def whenNotMatched(self, condition: Column | None = None) -> WhenNotMatched:
        """Say what becomes of rows of the source that match nothing."""
        return WhenNotMatched(self, condition)

    def whenNotMatchedBySource(self, condition: Column | None = None) -> WhenNotMatchedBySource:
        """Say what becomes of rows that no row of the source matches."""
        return WhenNotMatchedBySource(self, condition)

    def withSchemaEvolution(self) -> MergeInto:
        """Add columns of the source that the table lacks."""
        return self._going_on(self._begun.withSchemaEvolution())

    def merge(self) -> None:
        """Carry it out."""
        self._begun.execute()

    def _going_on(self, begun: DeltaMergeBuilder) -> MergeInto:
        self._begun = begun
        return self


class _When:
    def __init__(self, writer: MergeInto, condition: Column | None) -> None:
        self._writer = writer
        self._condition = condition


class WhenMatched(_When):
    """What becomes of matched rows."""

    def updateAll(self) -> MergeInto:
        """Set every column that the source has."""
        return self._writer._going_on(self._writer._begun.whenMatchedUpdateAll(self._condition))

    def update(self, assignments: Mapping[str, Column]) -> MergeInto:
        """Set some columns."""
        return self._writer._going_on(self._writer._begun.whenMatchedUpdate(self._condition, assignments))

    def delete(self) -> MergeInto:
        """Delete them."""
        return self._writer._going_on(self._writer._begun.whenMatchedDelete(self._condition))


class WhenNotMatched(_When):
    """What becomes of rows of the source that match nothing."""

    def insertAll(self) -> MergeInto:
        """Insert them as they are."""
        return self._writer._going_on(self._writer._begun.whenNotMatchedInsertAll(self._condition))

    def insert(self, assignments: Mapping[str, Column]) -> MergeInto:
        """Insert them with these values."""
        return self._writer._going_on(self._writer._begun.whenNotMatchedInsert(self._condition, assignments))


class WhenNotMatchedBySource(_When):
    """What becomes of rows that no row of the source matches."""

    @as_delta_spark()
    def updateAll(self) -> MergeInto:
        """Refused, as by Spark: there is no row of the source to take values from."""
        raise Invalid("no row of the source is at hand for rows that none matches: say what to set, with update({...})")

    def update(self, assignments: Mapping[str, Column]) -> MergeInto:
        """Set some columns."""
        return self._writer._going_on(self._writer._begun.whenNotMatchedBySourceUpdate(self._condition, assignments))

    def delete(self) -> MergeInto:
        """Delete them."""
        return self._writer._going_on(self._writer._begun.whenNotMatchedBySourceDelete(self._condition))
