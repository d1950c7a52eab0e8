"""DataFrames that remember their table.

A subclass of the session's own class, classic or Connect. `select`, `where`, `filter`, `withColumn` and `alias` give
frames that remember too, and so do those that only put rows elsewhere, as `orderBy` and `repartition` do; for
everything else the frame becomes what it stands for, and what comes of that is an ordinary DataFrame.

1. Whatever a DataFrame does, this does: its plan is made when something first asks for it.
2. Its columns (`df.id`) are named by a qualifier that every plan of it carries, so that they mean the same in a frame
   that was planned anew with more conditions. What goes by another qualifier since (see `calling`) is planned anew.
3. Expressions that hold columns of a certain plan are applied to that plan, and end the remembering.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from holdfast._dropin.errors import as_delta_spark
from holdfast._dropin.lazy_frame import Memory, PinnedTable, ViewRows
from holdfast._dropin.qualifier import Calling
from holdfast.engines.spark.column_text import is_bound

_classes: dict[type, type] = {}


def remembering(pinned: PinnedTable) -> DataFrame:
    """The rows of a table, as a DataFrame that remembers it."""
    return going_on(Memory(pinned))


def going_on(memory: Memory) -> DataFrame:
    """A DataFrame that remembers what another one does."""
    made: DataFrame = _made(memory.pinned.spark, memory)
    return made


def ordinary(df: DataFrame) -> DataFrame:
    """What a frame stands for."""
    if not isinstance(df, _Remembering):
        return df
    planned: DataFrame = df._holdfast_frame()
    return planned


def memory_of(df: DataFrame) -> Memory | None:
    """What a frame remembers; None: it is an ordinary one."""
    return df._holdfast_memory if isinstance(df, _Remembering) else None


def rows_of(df: DataFrame) -> ViewRows | None:
    """What a view of a frame is of, where conditions on it can leave out files."""
    memory = memory_of(df)
    return None if memory is None or memory.is_shaped or memory.fields else ViewRows(memory)


def _keeping(name: str) -> Callable[..., Any]:
    """A method that keeps every row as it is."""

    def keep(self: _Remembering, *args: Any, **kwargs: Any) -> Any:
        def act(df: DataFrame) -> DataFrame:
            found: DataFrame = getattr(df, name)(*args, **kwargs)
            return found

        given = [each for arg in args for each in (arg if isinstance(arg, list | tuple) else [arg])]
        known = not kwargs.keys() - {"ascending", "numPartitions"} and all(
            isinstance(g, str | int | Column) for g in given
        )
        if not known or _binds(given):
            return act(self._holdfast_frame())
        with as_delta_spark():
            named = [each for each in given if isinstance(each, str | Column)]
            return self._holdfast_after(self._holdfast_memory.kept(named, act))

    return keep


class _Remembering:
    """The part of a frame that remembers."""

    _holdfast_memory: Memory
    _holdfast_planned: DataFrame | None
    _holdfast_planned_as: str

    def _holdfast_frame(self) -> Any:
        called = self._holdfast_memory.calling.qualifier
        if self._holdfast_planned is None or self._holdfast_planned_as != called:
            with as_delta_spark():
                vars(self).update(_holdfast_planned=self._holdfast_memory.frame(), _holdfast_planned_as=called)
        return self._holdfast_planned

    @property
    def schema(self) -> StructType:
        planned, memory = self._holdfast_planned, self._holdfast_memory
        if planned is not None:
            return planned.schema
        return memory.shape().schema if memory.is_shaped else memory.pinned.schema

    def filter(self, condition: Any) -> Any:
        if not isinstance(condition, str | Column) or _binds([condition]):
            return self._holdfast_frame().filter(condition)
        with as_delta_spark():
            return self._holdfast_after(self._holdfast_memory.filtered(condition))

    def where(self, condition: Any) -> Any:
        return self.filter(condition)

    def select(self, *cols: Any) -> Any:
        flat = list(cols[0]) if len(cols) == 1 and isinstance(cols[0], list | tuple) else list(cols)
        if not flat or not all(isinstance(c, str | Column) for c in flat) or _binds(flat):
            return self._holdfast_frame().select(*cols)
        with as_delta_spark():
            return self._holdfast_after(self._holdfast_memory.selected(flat))

    def withColumn(self, colName: str, col: Any) -> Any:
        if not isinstance(col, Column) or _binds([col]):
            return self._holdfast_frame().withColumn(colName, col)
        with as_delta_spark():
            return self._holdfast_after(self._holdfast_memory.with_columns({colName: col}))

    def withColumns(self, *colsMap: Any) -> Any:
        if (
            len(colsMap) != 1
            or not all(isinstance(c, Column) for c in colsMap[0].values())
            or _binds(colsMap[0].values())
        ):
            return self._holdfast_frame().withColumns(*colsMap)
        with as_delta_spark():
            return self._holdfast_after(self._holdfast_memory.with_columns(colsMap[0]))

    def alias(self, alias: str) -> Any:
        return _made(self._holdfast_memory.pinned.spark, self._holdfast_memory.aliased(Calling(alias)))

    repartition, repartitionByRange, coalesce = map(_keeping, ("repartition", "repartitionByRange", "coalesce"))
    sort, orderBy, sortWithinPartitions = map(_keeping, ("sort", "orderBy", "sortWithinPartitions"))

    def metadataColumn(self, colName: str) -> Column:
        named = self._holdfast_named(colName)
        return self._holdfast_frame().metadataColumn(colName) if named is None else F.col(named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_holdfast"):
            raise AttributeError(name)  # of a frame that is only half made, as copying makes it
        if not name.startswith("_") and name in self.columns:
            return self[name]
        return getattr(self._holdfast_frame(), name)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, int) and not isinstance(item, bool) and -len(self.columns) <= item < len(self.columns):
            item = self.columns[item]
        if isinstance(item, str):
            named = self._holdfast_named(item)
            return self._holdfast_frame()[item] if named is None else F.col(named)
        if isinstance(item, Column):
            return self.filter(item)
        if isinstance(item, list | tuple):
            return self.select(*item)
        return self._holdfast_frame()[item]

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    def _holdfast_named(self, name: str) -> str | None:
        """A column that is given out, by name; None where only a plan has it, which is then not made anew."""
        self._holdfast_memory.calling.taken()
        return self._holdfast_memory.column(name)

    def _holdfast_after(self, memory: Memory) -> Any:
        """The frame after a step; what Spark would refuse at once is refused at once."""
        made = _made(memory.pinned.spark, memory)
        if not memory.sure and ".connect." not in type(self).__module__:
            memory.shape()
        return made


def _made(spark: SparkSession, memory: Memory) -> Any:
    like = spark.range(0)
    kind = _class_of(like, spark)
    made: Any = object.__new__(kind)
    kept = {name: value for name, value in vars(like).items() if not isinstance(vars(kind).get(name), property)}
    vars(made).update(kept, _holdfast_memory=memory, _holdfast_planned=None, _holdfast_planned_as="")
    return made


def _class_of(like: DataFrame, spark: SparkSession) -> type:
    """The class of frames that remember, of the kind that a session makes.

    What two frames of one session do not share is their plan, whatever it is called; here it is made when asked for.
    """
    base = type(like)
    if base not in _classes:
        other = vars(spark.range(0))
        plans = {name: _plan(name) for name, value in vars(like).items() if value is not other[name]}
        _classes[base] = type(base.__name__, (_Remembering, base), {"__module__": base.__module__, **plans})
    return _classes[base]


def _plan(name: str) -> property:
    return property(lambda self: getattr(self._holdfast_frame(), name))


def _binds(given: Any) -> bool:
    return any(is_bound(c) for c in given if isinstance(c, Column))
