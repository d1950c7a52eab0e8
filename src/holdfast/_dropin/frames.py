"""DataFrames of our tables that are planned late, so that later conditions can prune files.

A lazy frame's class is a subclass of the session's own DataFrame class, classic or Connect. `select`, `where`,
`filter`, `withColumn`, `alias`, and methods that only move rows, such as `orderBy`, record a step and give another lazy
frame. Every other method plans the frame and gives an ordinary DataFrame.

1. A lazy frame does what a DataFrame does: its plan is made at first use.
2. Its columns (`df.id`) are names with a qualifier that every plan of it has, so they mean the same in a frame that was
   planned again with more conditions. A frame whose qualifier changed since (see `qualifier`) is planned again.
3. Expressions with columns of a certain plan are applied to that plan, and give an ordinary DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from holdfast._dropin.errors import as_delta_spark
from holdfast._dropin.lazy_query import LazyQuery, ViewRows
from holdfast._dropin.qualifier import Qualifier
from holdfast.engines.spark.column_text import is_bound

_classes: dict[type, type] = {}


def lazy_frame(query: LazyQuery) -> DataFrame:
    """A lazy frame."""
    like = query.pinned.spark.range(0)
    class_ = _class_of(like, query.pinned.spark)
    frame: DataFrame = object.__new__(class_)
    state = {name: value for name, value in vars(like).items() if not isinstance(vars(class_).get(name), property)}
    vars(frame).update(state, _holdfast_query=query, _holdfast_planned=None, _holdfast_planned_as="")
    return frame


def ordinary(df: DataFrame) -> DataFrame:
    """The ordinary DataFrame of a frame, lazy or not."""
    return df._holdfast_frame() if isinstance(df, _LazyFrame) else df


def query_of(df: DataFrame) -> LazyQuery | None:
    """The query of a lazy frame; None for an ordinary one."""
    return df._holdfast_query if isinstance(df, _LazyFrame) else None


def rows_of(df: DataFrame) -> ViewRows | None:
    """The rows of a view of a frame, where conditions on the view can prune files."""
    query = query_of(df)
    return None if query is None or not query.keeps_columns or query.fields else ViewRows(query)


def _moving_rows(name: str) -> Callable[..., DataFrame]:
    """A method that keeps every row and only moves it."""

    def method(self: _LazyFrame, *args: Any, **kwargs: Any) -> DataFrame:
        def step(df: DataFrame) -> DataFrame:
            moved: DataFrame = getattr(df, name)(*args, **kwargs)
            return moved

        flat = [item for arg in args for item in (arg if isinstance(arg, list | tuple) else [arg])]
        is_known = not kwargs.keys() - {"ascending", "numPartitions"} and all(
            isinstance(item, str | int | Column) for item in flat
        )
        if not is_known or _binds(flat):
            return step(self._holdfast_frame())
        with as_delta_spark():
            expressions = [item for item in flat if isinstance(item, str | Column)]
            return self._holdfast_after(self._holdfast_query.rearranged(expressions, step))

    return method


class _LazyFrame:
    """The mixin of lazy frames."""

    _holdfast_query: LazyQuery
    _holdfast_planned: DataFrame | None
    _holdfast_planned_as: str

    def _holdfast_frame(self) -> DataFrame:
        qualifier, planned = self._holdfast_query.qualifier.current, self._holdfast_planned
        if planned is None or self._holdfast_planned_as != qualifier:
            with as_delta_spark():
                planned = self._holdfast_query.frame()
                vars(self).update(_holdfast_planned=planned, _holdfast_planned_as=qualifier)
        return planned

    @property
    def schema(self) -> StructType:
        planned, query = self._holdfast_planned, self._holdfast_query
        if planned is not None:
            return planned.schema
        return query.pinned.schema if query.keeps_columns else query.empty_frame().schema

    def filter(self, condition: Any) -> DataFrame:
        if not isinstance(condition, str | Column) or _binds([condition]):
            return self._holdfast_frame().filter(condition)
        with as_delta_spark():
            return self._holdfast_after(self._holdfast_query.filtered(condition))

    def where(self, condition: Any) -> DataFrame:
        return self.filter(condition)

    def select(self, *cols: Any) -> DataFrame:
        flat = list(cols[0]) if len(cols) == 1 and isinstance(cols[0], list | tuple) else list(cols)
        if not flat or not all(isinstance(c, str | Column) for c in flat) or _binds(flat):
            return self._holdfast_frame().select(*cols)
        with as_delta_spark():
            return self._holdfast_after(self._holdfast_query.selected(flat))

    def withColumn(self, colName: str, col: Any) -> DataFrame:
        if not isinstance(col, Column) or _binds([col]):
            return self._holdfast_frame().withColumn(colName, col)
        with as_delta_spark():
            return self._holdfast_after(self._holdfast_query.with_columns({colName: col}))

    def withColumns(self, *colsMap: Any) -> DataFrame:
        if (
            len(colsMap) != 1
            or not all(isinstance(c, Column) for c in colsMap[0].values())
            or _binds(colsMap[0].values())
        ):
            return self._holdfast_frame().withColumns(*colsMap)
        with as_delta_spark():
            return self._holdfast_after(self._holdfast_query.with_columns(colsMap[0]))

    def alias(self, alias: str) -> DataFrame:
        return lazy_frame(self._holdfast_query.aliased(Qualifier(alias)))

    repartition, repartitionByRange, coalesce = map(_moving_rows, ("repartition", "repartitionByRange", "coalesce"))
    sort, orderBy, sortWithinPartitions = map(_moving_rows, ("sort", "orderBy", "sortWithinPartitions"))

    def metadataColumn(self, colName: str) -> Column:
        column = self._holdfast_column(colName)
        return self._holdfast_frame().metadataColumn(colName) if column is None else F.col(column)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_holdfast"):
            raise AttributeError(name)  # while `copy` builds the frame
        if not name.startswith("_") and name in self.columns:
            return self[name]
        return getattr(self._holdfast_frame(), name)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, int) and not isinstance(item, bool) and -len(self.columns) <= item < len(self.columns):
            item = self.columns[item]
        if isinstance(item, str):
            column = self._holdfast_column(item)
            return self._holdfast_frame()[item] if column is None else F.col(column)
        if isinstance(item, Column):
            return self.filter(item)
        if isinstance(item, list | tuple):
            return self.select(*item)
        return self._holdfast_frame()[item]

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    def _holdfast_column(self, name: str) -> str | None:
        """A column with its qualifier, which is fixed from now on; None where only the plan has it."""
        self._holdfast_query.qualifier.take()
        return self._holdfast_query.column(name)

    def _holdfast_after(self, query: LazyQuery) -> DataFrame:
        """The frame after a step; what Spark would refuse at once is refused at once."""
        frame = lazy_frame(query)
        if not query.is_checked and ".connect." not in type(self).__module__:
            query.empty_frame()
        return frame


def _class_of(like: DataFrame, spark: SparkSession) -> type:
    """The class of a session's lazy frames.

    The attributes that two frames of one session do not share hold their plans; here they are made at first use.
    """
    base = type(like)
    if base not in _classes:
        other = vars(spark.range(0))
        plans = {name: _plan(name) for name, value in vars(like).items() if value is not other[name]}
        _classes[base] = type(base.__name__, (_LazyFrame, base), {"__module__": base.__module__, **plans})
    return _classes[base]


def _plan(name: str) -> property:
    return property(lambda self: getattr(self._holdfast_frame(), name))


def _binds(expressions: Iterable[object]) -> bool:
    return any(is_bound(c) for c in expressions if isinstance(c, Column))
