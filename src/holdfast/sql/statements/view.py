"""CREATE VIEW over our tables: temporary views are read anew each time they are named. Permanent ones Spark keeps, see
`sql.stored`.

Spark keeps the text of a view and reads it each time. A view over our tables is kept both ways: as a frame under its
name, for whoever asks Spark for it, and as text here, so that statements see the newest rows and leave out files.

1. A view that is all of a table is that table: with `_metadata`.
2. Conditions on any other count for its query as if they stood around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from holdfast.engines.spark.types import spark_to_struct
from holdfast.errors import TableError
from holdfast.schema.types import Struct
from holdfast.sql import answers
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor
from holdfast.sql.query.conjuncts import conditions_in
from holdfast.sql.query.references import Reference, Span
from holdfast.sql.query.run import replaced, source_of, view_frame
from holdfast.sql.query.stored_views import refuse_unstorable
from holdfast.sql.query.walk import query_of
from holdfast.sql.resolver import ScanSource
from holdfast.sql.text import Statement


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
class _Viewed:
    """The rows of a view that is more than a table by another name."""

    asking: StatementContext
    statement: Statement
    asked: CreateView
    shape: Struct

    def columns(self, metadata: Mapping[str, str]) -> Struct:
        return self.shape

    def is_tracked(self) -> bool:
        return False

    def read(self, where: str | None, metadata: Mapping[str, str]) -> DataFrame:
        said = conditions_in(where)
        return view_frame(self.asking.anew(), self.statement, self.asked.query, self.asked.columns, said)


def parse_view(cursor: Cursor) -> CreateView:
    cursor.expect("CREATE")
    replaces = cursor.take("OR", "REPLACE")
    is_global = cursor.take("GLOBAL")
    temporary = cursor.one_of("TEMP", "TEMPORARY") is not None
    cursor.expect("VIEW")
    cursor.take("IF", "NOT", "EXISTS")
    name, columns = cursor.name(), []
    if cursor.sees("("):
        for each in cursor.listed(cursor.group()):
            columns.append(each.identifier())
            if each.take("COMMENT"):
                each.text()
            each.end()
    while not cursor.take("AS"):  # COMMENT and TBLPROPERTIES
        if cursor.is_over:
            raise cursor.wrong("AS is expected")
        cursor.at = cursor.statement.after(cursor.at)
    return CreateView(name, cursor.rest(), tuple(columns), temporary, is_global, replaces)


def run_view(asking: StatementContext, statement: Statement, asked: CreateView) -> DataFrame | None:
    """Make a view; None where its query names none of our tables."""
    if asked.temporary and not asked.is_global:
        asking.known.forget(asked.name[-1])
    query = query_of(statement, asked.query)
    if not replaced(asking, statement, query).frames:
        return None
    name = ".".join(asked.name)
    if not asked.temporary:
        refuse_unstorable(asking, query, statement, name)
        return asking.sql(statement.text, asking.given.args, **asking.given.fields)
    frame = view_frame(asking, statement, asked.query, asked.columns)
    rows = _Viewed(asking, statement, asked, _shape(frame))
    if asked.is_global:
        (frame.createOrReplaceGlobalTempView if asked.replaces else frame.createGlobalTempView)(asked.name[-1])
        return answers.nothing(asking.spark)
    (frame.createOrReplaceTempView if asked.replaces else frame.createTempView)(asked.name[-1])
    whole = _whole(statement, asked)

    def renewed() -> ScanSource:
        found = None if whole is None else source_of(asking.anew(), statement, whole)
        return rows if found is None else found

    asking.known.remember(asked.name[-1], renewed)
    return answers.nothing(asking.spark)


def _shape(frame: DataFrame) -> Struct:
    """The columns of a view, as far as conditions on them may count."""
    try:
        return spark_to_struct(frame.schema)
    except TableError:
        return Struct(())  # of a type that no table has


def _whole(statement: Statement, asked: CreateView) -> Reference | None:
    """The table that a view is all of: SELECT * FROM t, and nothing else."""
    blocks = query_of(statement, asked.query).blocks
    if asked.columns or len(blocks) != 1 or len(blocks[0].relations) != 1:
        return None
    reference, (first, last) = blocks[0].relations[0].reference, asked.query
    if reference is None:
        return None
    before = [statement.upper(at) for at in range(first, reference.span[0])]
    after = [word.name for word in statement.words[reference.span[1] : last] if word.upper != "AS"]
    is_whole = before == ["SELECT", "*", "FROM"] and after == ([reference.alias] if reference.alias else [])
    return replace(reference, alias=None) if is_whole else None
