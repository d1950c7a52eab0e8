"""Permanent views over our tables: Spark keeps their text, and it is read here each time they are named.

1. A view has the columns its query gave when it was made, under the names that it gave them; what its tables were given
   since is not among them.
2. Names in its text are looked up in the database in which it was made, whichever is the current one.
3. A view over none of our tables is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from holdfast.sql.parameters import Parameters
from holdfast.sql.query.conjuncts import METADATA, Said, conditions_in
from holdfast.sql.query.references import ParsedQuery, Reference, Span
from holdfast.sql.query.walk import query_of
from holdfast.sql.resolver import ScanSource, path_of
from holdfast.sql.text import Edit, Statement, applied, statement_of

# How the rows of a view's query are read: `query.view_frame`.
_Framed: TypeAlias = Callable[[StatementContext, Statement, Span, tuple[str, ...], Sequence[Said]], DataFrame]


@dataclass(frozen=True)
class StoredRows:
    """The rows of a permanent view."""

    asking: StatementContext
    statement: Statement
    view: View
    framed: _Framed

    @cached_property
    def _names(self) -> list[str]:
        return columns_of(self.asking.spark, self.view.name)

    @cached_property
    def _shape(self) -> Struct:
        try:
            return spark_to_struct(self.read(None, {}).schema)
        except TableError:
            return Struct(())  # of a type that no table has

    def columns(self, metadata: Mapping[str, str]) -> Struct:
        return self._shape

    def is_tracked(self) -> bool:
        return False

    def read(self, where: str | None, metadata: Mapping[str, str]) -> DataFrame:
        names, outputs = self._names, list(self.view.outputs)
        said = conditions_in(where) if names == outputs else []  # a condition counts by the names of the query
        frame = self.framed(self.asking.anew(), self.statement, (0, len(self.statement.words)), (), said)
        if frame.columns != outputs:
            frame = frame.select(*(F.col(quoted(name)) for name in outputs))
        return frame.toDF(*names)


def stored_rows(asking: StatementContext, parts: tuple[str, ...], framed: _Framed) -> ScanSource | None:
    """What a permanent view reads; None where the name means none, or one over none of our tables."""
    view = asking.known.stored(parts)
    if view is None:
        return None
    statement = _within(view)
    if statement is None:
        return None
    inside = replace(asking, given=Parameters(), found={}, rows={})
    if not any(_is_ours(inside, reference, framed) for reference in query_of(statement).references):
        return None
    return StoredRows(inside, statement, view, framed)


def refuse_unstorable(asking: StatementContext, query: ParsedQuery, statement: Statement, name: str) -> None:
    """Refuse a permanent view of whose text Spark would not know what it means."""
    words = {statement.upper(at) for at in range(len(statement.words))}
    for reference in query.references:
        if path_of(reference.parts) is not None or reference.when is not None or reference.suffix is not None:
            raise _unstorable(
                name,
                "a path or a version of a table",
                "name the table as the catalog does, or make it a TEMPORARY VIEW",
            )
        if reference.arguments is not None:
            raise _unstorable(name, "the changes of a table", "make it a TEMPORARY VIEW")
        found = asking.table(reference.parts)
        if found is None:
            continue
        if found.entry is None:
            raise _unstorable(name, f"{found.name}, which is registered here alone", "make it a TEMPORARY VIEW")
        told, has = columns_of(asking.spark, found.parts), found.table.handle.newest().snapshot.schema.names
        if [name.lower() for name in told] != [name.lower() for name in has]:
            raise _unstorable(
                name, f"{found.name}, which has other columns than its entry in the catalog", "make it a TEMPORARY VIEW"
            )
    if METADATA.upper() in words:
        raise _unstorable(name, f"{METADATA} of a table", "make it a TEMPORARY VIEW")


def _unstorable(name: str, what: str, instead: str) -> Unsupported:
    return Unsupported(f"the view {name} names {what}, of which Spark's catalog keeps nothing: {instead}")


def _is_ours(asking: StatementContext, reference: Reference, framed: _Framed) -> bool:
    if reference.arguments is not None:
        return False
    try:
        return asking.table(reference.parts) is not None or stored_rows(asking, reference.parts, framed) is not None
    except Invalid:
        return False


def _within(view: View) -> Statement | None:
    """The text of a view with its names completed: those of one part are of the database it was made in."""
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
