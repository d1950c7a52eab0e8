"""CREATE VIEW over our tables; `query.stored_views` reads permanent ones.

A temporary view over our tables is kept twice: in Spark's catalog as a frame, for whoever reads it through Spark, and
in the resolver as text, so that statements read the newest rows and prune files.

1. A view that is a whole table, `SELECT * FROM t`, reads as that table, with `_metadata`.
2. Conditions on any other view are pushed down into its query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from holdfast.schema.types import Struct
from holdfast.sql import answers
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor
from holdfast.sql.query.conjuncts import conditions_in
from holdfast.sql.query.references import ParsedQuery, Reference
from holdfast.sql.query.run import scan_tables, source_of, view_frame
from holdfast.sql.query.stored_views import frame_columns, refuse_unstorable
from holdfast.sql.query.walk import query_of
from holdfast.sql.resolver import ScanSource
from holdfast.sql.text import Span


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] [[GLOBAL] TEMPORARY] VIEW name [(columns)] AS query."""

    name: tuple[str, ...]
    query: Span
    columns: tuple[str, ...] = ()
    temporary: bool = True
    is_global: bool = False
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class _ViewQuery:
    """The rows of a temporary view that is more than a whole table."""

    context: StatementContext
    command: CreateView
    schema: Struct

    def columns(self, metadata: Mapping[str, str]) -> Struct:
        return self.schema

    def is_tracked(self) -> bool:
        return False

    def read(self, where: str | None, metadata: Mapping[str, str]) -> DataFrame:
        return view_frame(self.context.fresh(), self.command.query, self.command.columns, conditions_in(where))


def parse_view(cursor: Cursor) -> CreateView:
    cursor.expect("CREATE")
    replaces = cursor.take("OR", "REPLACE")
    is_global = cursor.take("GLOBAL")
    temporary = cursor.one_of("TEMP", "TEMPORARY") is not None
    cursor.expect("VIEW")
    cursor.take("IF", "NOT", "EXISTS")
    name, columns = cursor.name(), []
    if cursor.sees("("):
        for item in cursor.listed(cursor.group()):
            columns.append(item.identifier())
            if item.take("COMMENT"):
                item.text()
            item.end()
    while not cursor.take("AS"):  # COMMENT and TBLPROPERTIES
        if cursor.is_over:
            raise cursor.wrong("AS is expected")
        cursor.at = cursor.statement.after(cursor.at)
    return CreateView(name, cursor.rest(), tuple(columns), temporary, is_global, replaces)


def run_view(context: StatementContext, command: CreateView) -> DataFrame | None:
    """Create a view; None where its query names none of our tables."""
    name = command.name[-1]
    if command.temporary and not command.is_global:
        context.resolver.forget(name)
    query = query_of(context.statement, command.query)
    if not scan_tables(context, query).frames:
        return None
    if not command.temporary:
        refuse_unstorable(context, query, ".".join(command.name))
        return context.spark_answer()
    frame = view_frame(context, command.query, command.columns)
    if command.is_global:
        (frame.createOrReplaceGlobalTempView if command.replaces else frame.createGlobalTempView)(name)
        return answers.nothing(context.spark)
    (frame.createOrReplaceTempView if command.replaces else frame.createTempView)(name)
    rows = _ViewQuery(context, command, frame_columns(frame))
    table = _whole_table(context, command, query)

    def source() -> ScanSource:
        return rows if table is None else source_of(context.fresh(), table) or rows

    context.resolver.remember(name, source)
    return answers.nothing(context.spark)


def _whole_table(context: StatementContext, command: CreateView, query: ParsedQuery) -> Reference | None:
    """The table of a view that is SELECT * FROM t and nothing else."""
    statement, blocks = context.statement, query.blocks
    if command.columns or len(blocks) != 1 or len(blocks[0].relations) != 1:
        return None
    reference, (first, last) = blocks[0].relations[0].reference, command.query
    if reference is None:
        return None
    before = [statement.upper(at) for at in range(first, reference.span[0])]
    after = [word.name for word in statement.words[reference.span[1] : last] if word.upper != "AS"]
    is_whole = before == ["SELECT", "*", "FROM"] and after == ([reference.alias] if reference.alias else [])
    return replace(reference, alias=None) if is_whole else None
