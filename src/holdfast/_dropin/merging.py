"""delta-spark's merge builder.

1. The source is written once and read back, so columns of the source's DataFrame (`updates.id`) are replaced by names.
   A merge has no other DataFrame, so a column that belongs to one belongs to the source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame, SparkSession

from holdfast._dropin.errors import as_delta_spark
from holdfast.engines.spark.column_text import UNREADABLE, is_bound, sql_of
from holdfast.engines.spark.types import spark_to_struct
from holdfast.errors import Unsupported
from holdfast.plan.dml.change import SOURCE_ALIAS
from holdfast.sql import answers
from holdfast.verbs.dml import merge as merging
from holdfast.verbs.dml.assignments import stated_sets
from holdfast.verbs.open.spark_values import stated_or_none

Expression = str | Column


def by_name(expression: Expression, *, alias: str | None = None) -> Expression:
    """An expression with names in the place of columns of the source's DataFrame, which has this alias."""
    if not isinstance(expression, Column) or not is_bound(expression):
        return expression
    text = sql_of(expression, bound=alias or SOURCE_ALIAS)
    if UNREADABLE in text or "\\" in text:  # what a backslash means in a text is up to the session
        raise Unsupported(
            f"{expression} holds columns of a DataFrame in a way that cannot be told by name: give the source an alias "
            'and name them, as in F.col("s.id")'
        )
    return text


class DeltaMergeBuilder:
    """A MERGE under construction."""

    def __init__(
        self,
        spark: SparkSession,
        builder: merging.DeltaMergeBuilder,
        source: DataFrame,
        with_metadata: Callable[[Expression], Expression],
    ) -> None:
        self._spark = spark
        self._builder = builder
        self._source = source
        self._with_metadata = with_metadata

    @as_delta_spark()
    def whenMatchedUpdate(
        self, condition: Expression | None = None, set: Mapping[str, Expression] | None = None
    ) -> DeltaMergeBuilder:
        """Set columns of matched rows."""
        return self._with(
            self._builder.whenMatchedUpdate(self._when(condition), self._values(set, "set", "whenMatchedUpdate"))
        )

    @as_delta_spark()
    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Set every column that the source has."""
        return self._with(self._builder.whenMatchedUpdateAll(self._when(condition)))

    @as_delta_spark()
    def whenMatchedDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete matched rows."""
        return self._with(self._builder.whenMatchedDelete(self._when(condition)))

    @as_delta_spark()
    def whenNotMatchedInsert(
        self, condition: Expression | None = None, values: Mapping[str, Expression] | None = None
    ) -> DeltaMergeBuilder:
        """Insert rows of the source that match nothing, with these values."""
        sets = self._values(values, "values", "whenNotMatchedInsert")
        return self._with(self._builder.whenNotMatchedInsert(self._when(condition), sets))

    @as_delta_spark()
    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Insert rows of the source that match nothing, as they are."""
        return self._with(self._builder.whenNotMatchedInsertAll(self._when(condition)))

    @as_delta_spark()
    def whenNotMatchedBySourceUpdate(
        self, condition: Expression | None = None, set: Mapping[str, Expression] | None = None
    ) -> DeltaMergeBuilder:
        """Set columns of rows that no row of the source matches."""
        given = self._values(set, "set", "whenNotMatchedBySourceUpdate")
        return self._with(self._builder.whenNotMatchedBySourceUpdate(self._when(condition), given))

    @as_delta_spark()
    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete rows that no row of the source matches."""
        return self._with(self._builder.whenNotMatchedBySourceDelete(self._when(condition)))

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Add columns of the source that the table lacks."""
        return self._with(self._builder.withSchemaEvolution())

    @as_delta_spark()
    def execute(self) -> DataFrame:
        """Carry it out; one row says how many rows it touched."""
        return answers.merged(self._spark, self._builder.execute())

    def _with(self, builder: merging.DeltaMergeBuilder) -> DeltaMergeBuilder:
        return DeltaMergeBuilder(self._spark, builder, self._source, self._with_metadata)

    def _values(self, sets: object, name: str, method: str) -> Mapping[str, Expression]:
        if sets is None:
            raise ValueError(f"{name!r} of {method} cannot be None")
        if not isinstance(sets, Mapping):
            raise TypeError(f"{name!r} of {method} is a dict, not {type(sets).__name__}")
        return {column: self._by_name(value) for column, value in stated_sets(sets, f"{method}()").items()}

    def _when(self, condition: Expression | None) -> Expression | None:
        expression = stated_or_none(condition, "a clause of merge()")
        return None if expression is None else self._by_name(expression)

    def _by_name(self, expression: Expression) -> Expression:
        if not isinstance(expression, Column) or not is_bound(expression):
            return self._with_metadata(expression)
        columns = spark_to_struct(self._source.schema, where="the source")
        return by_name(expression, alias=self._builder.alias_of_source(columns))
