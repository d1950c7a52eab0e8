"""Permanent views over our tables: Spark's catalog keeps their text, and each statement that names one runs it anew.

1. A view has the columns that its query had when it was created, under the names of that time; columns that its tables
   got since are not among them.
2. Names in its text are resolved in the database in which it was created, not in the current one.
3. A view over none of our tables is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.engines.spark.session.catalog import View, columns_of
from holdfast.engines.spark.types import spark_to_struct
from holdfast.errors import Invalid, TableError, Unsupported
from holdfast.schema.constraints import quoted
from holdfast.schema.types import Struct
from holdfast.sql.context import StatementContext
from holdfast.sql.query.conjuncts import METADATA, Conjunct, conditions_in
from holdfast.sql.query.references import ParsedQuery, Reference
from holdfast.sql.query.walk import query_of
from holdfast.sql.resolver import ScanSource, path_of
from holdfast.sql.text import Edit, Span, Statement, applied, statement_of

# How the rows of a view's query are read: `query.run.view_frame`.
_ReadQuery: TypeAlias = Callable[[StatementContext, Span, tuple[str, ...], Sequence[Conjunct]], DataFrame]


@dataclass(frozen=True)
class StoredRows:
    """The rows of a permanent view."""

    context: StatementContext  # of the view's query
    view: View
    read_query: _ReadQuery

    @cached_property
    def _names(self) -> list[str]:
        return columns_of(self.context.spark, self.view.name)

    @cached_property
    def _columns(self) -> Struct:
        return frame_columns(self.read(None, {}))

    def columns(self, metadata: Mapping[str, str]) -> Struct:
        return self._columns

    def is_tracked(self) -> bool:
        return False

    def read(self, where: str | None, metadata: Mapping[str, str]) -> DataFrame:
        names, outputs = self._names, list(self.view.outputs)
        conditions = conditions_in(where) if names == outputs else []  # a condition uses the names of the query
        frame = self.read_query(self.context.fresh(), (0, len(self.context.statement.words)), (), conditions)
        if frame.columns != outputs:
            frame = frame.select(*(F.col(quoted(name)) for name in outputs))
        return frame.toDF(*names)


def frame_columns(frame: DataFrame) -> Struct:
    """The columns of a view that conditions may use; none where a column has a type that no table has."""
    try:
        return spark_to_struct(frame.schema)
    except TableError:
        return Struct(())


def stored_rows(context: StatementContext, parts: tuple[str, ...], read_query: _ReadQuery) -> ScanSource | None:
    """The rows of a permanent view; None where the name means no view, or one over none of our tables."""
    view = context.resolver.stored(parts)
    statement = None if view is None else _qualified(view)
    if view is None or statement is None:
        return None
    inside = StatementContext(context.spark, context.resolver, statement)
    if not any(_is_ours(inside, reference, read_query) for reference in query_of(statement).references):
        return None
    return StoredRows(inside, view, read_query)


def refuse_unstorable(context: StatementContext, query: ParsedQuery, name: str) -> None:
    """Refuse a permanent view whose text means something that only this session knows."""
    for reference in query.references:
        if path_of(reference.parts) is not None or reference.when is not None or reference.suffix is not None:
            raise _unstorable(
                name,
                "a path or a version of a table",
                "name the table as the catalog does, or make it a TEMPORARY VIEW",
            )
        if reference.arguments is not None:
            raise _unstorable(name, "the changes of a table", "make it a TEMPORARY VIEW")
        resolved = context.table(reference.parts)
        if resolved is None:
            continue
        if resolved.entry is None:
            raise _unstorable(name, f"{resolved.name}, which is registered here alone", "make it a TEMPORARY VIEW")
        in_catalog = columns_of(context.spark, resolved.parts)
        in_table = resolved.table.handle.newest().snapshot.schema.names
        if [column.lower() for column in in_catalog] != [column.lower() for column in in_table]:
            raise _unstorable(
                name,
                f"{resolved.name}, which has other columns than its entry in the catalog",
                "make it a TEMPORARY VIEW",
            )
    if any(word.upper == METADATA.upper() for word in context.statement.words):
        raise _unstorable(name, f"{METADATA} of a table", "make it a TEMPORARY VIEW")


def _unstorable(name: str, what: str, instead: str) -> Unsupported:
    return Unsupported(f"the view {name} names {what}, of which Spark's catalog keeps nothing: {instead}")


def _is_ours(context: StatementContext, reference: Reference, read_query: _ReadQuery) -> bool:
    if reference.arguments is not None:
        return False
    try:
        return (
            context.table(reference.parts) is not None or stored_rows(context, reference.parts, read_query) is not None
        )
    except Invalid:
        return False


def _qualified(view: View) -> Statement | None:
    """The text of a view, with names of one part qualified by the database in which it was created."""
    statement = statement_of(view.text)
    if statement is None:
        return None
    edits = [
        Edit(start, start, f"{quoted(view.database)}.")
        for reference in query_of(statement).references
        if len(reference.parts) == 1 and reference.arguments is None
        for start in [statement.words[reference.span[0]].start]
    ]
    return statement_of(applied(view.text, edits))
