"""A merge as delta-spark's users build it.

1. Rows of the source are written once and read from there, where columns of the DataFrame itself (`updates.id`) mean
   nothing: they are told by name before the merge sees them. A merge knows no other DataFrame, so the source is meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

from holdfast._dropin.errors import as_delta_spark
from holdfast.engines.spark.column_text import UNREADABLE, is_bound, sql_of
from holdfast.engines.spark.types import spark_to_struct
from holdfast.errors import Unsupported
from holdfast.plan.dml.change import SOURCE_ALIAS
from holdfast.sql import answers
from holdfast.sql.query.row_fields import with_metadata_columns
from holdfast.verbs.dml import merge as merging
from holdfast.verbs.dml.assignments import stated_sets
from holdfast.verbs.open.spark_values import stated_or_none

Expression = str | Column


def by_name(expression: Expression, *, called: str | None = None) -> Expression:
    """An expression that names the columns of the source, which is called so in other texts of the merge."""
    if not isinstance(expression, Column) or not is_bound(expression):
        return expression
    text = sql_of(expression, bound=called or SOURCE_ALIAS)
    if UNREADABLE in text or "\\" in text:  # what a backslash means in a text is up to the session
        raise Unsupported(
            f"{expression} holds columns of a DataFrame in a way that cannot be told by name: give the source an alias "
            'and name them, as in F.col("s.id")'
        )
    return text


class DeltaMergeBuilder:
    """A MERGE in the making."""

    def __init__(self, spark: SparkSession, begun: merging.DeltaMergeBuilder, source: DataFrame) -> None:
        self._spark = spark
        self._begun = begun
        self._source = source

    @as_delta_spark()
    def whenMatchedUpdate(
        self, condition: Expression | None = None, set: Mapping[str, Expression] | None = None
    ) -> DeltaMergeBuilder:
        """Set columns of matched rows."""
        return self._with(
            self._begun.whenMatchedUpdate(self._when(condition), self._given(set, "set", "whenMatchedUpdate"))
        )

    @as_delta_spark()
    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Set every column that the source has."""
        return self._with(self._begun.whenMatchedUpdateAll(self._when(condition)))

    @as_delta_spark()
    def whenMatchedDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete matched rows."""
        return self._with(self._begun.whenMatchedDelete(self._when(condition)))

    @as_delta_spark()
    def whenNotMatchedInsert(
        self, condition: Expression | None = None, values: Mapping[str, Expression] | None = None
    ) -> DeltaMergeBuilder:
        """Insert rows of the source that match nothing, with these values."""
        given = self._given(values, "values", "whenNotMatchedInsert")
        return self._with(self._begun.whenNotMatchedInsert(self._when(condition), given))

    @as_delta_spark()
    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Insert rows of the source that match nothing, as they are."""
        return self._with(self._begun.whenNotMatchedInsertAll(self._when(condition)))

    @as_delta_spark()
    def whenNotMatchedBySourceUpdate(
        self, condition: Expression | None = None, set: Mapping[str, Expression] | None = None
    ) -> DeltaMergeBuilder:
        """Set columns of rows that no row of the source matches."""
        given = self._given(set, "set", "whenNotMatchedBySourceUpdate")
        return self._with(self._begun.whenNotMatchedBySourceUpdate(self._when(condition), given))

    @as_delta_spark()
    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete rows that no row of the source matches."""
        return self._with(self._begun.whenNotMatchedBySourceDelete(self._when(condition)))

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Add columns of the source that the table lacks."""
        return self._with(self._begun.withSchemaEvolution())

    @as_delta_spark()
    def execute(self) -> DataFrame:
        """Carry it out; one row says how many rows it touched."""
        return answers.merged(self._spark, self._begun.execute())

    def _with(self, begun: merging.DeltaMergeBuilder) -> DeltaMergeBuilder:
        return DeltaMergeBuilder(self._spark, begun, self._source)

    def _given(self, sets: Any, name: str, method: str) -> Mapping[str, Expression]:
        if sets is None:
            raise ValueError(f"{name!r} of {method} cannot be None")
        if not isinstance(sets, Mapping):
            raise TypeError(f"{name!r} of {method} is a dict, not {type(sets).__name__}")
        return {column: self._named(value) for column, value in stated_sets(sets, f"{method}()").items()}

    def _when(self, condition: Expression | None) -> Expression | None:
        given = stated_or_none(condition, "a clause of merge()")
        return None if given is None else self._named(given)

    def _named(self, expression: Expression) -> Expression:
        if not isinstance(expression, Column) or not is_bound(expression):
            begun = self._begun
            return with_metadata_columns(expression, begun.target_schema, begun.target_alias)
        columns = spark_to_struct(self._source.schema, where="the source")
        return by_name(expression, called=self._begun.alias_of_source(columns))
