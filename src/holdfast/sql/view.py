"""CREATE VIEW over our tables: temporary views, which are read anew each time they are named.

Spark keeps the text of a view and reads it each time. A view over our tables is kept both ways: as a frame under its
name, for whoever asks Spark for it, and as text here, so that statements see the newest rows and leave out files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from holdfast.errors import Unsupported
from holdfast.schema.types import Struct
from holdfast.sql import answers
from holdfast.sql.asking import Asking
from holdfast.sql.cursor import Cursor
from holdfast.sql.known import Rows
from holdfast.sql.query import frame_of, replaced, source_of
from holdfast.sql.references import Reference, Span
from holdfast.sql.text import Statement
from holdfast.sql.walk import query_of


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
    """The rows of a view that is more than a table by another name; conditions on it leave out nothing."""

    asking: Asking
    statement: Statement
    asked: CreateView

    def columns(self, metadata: Mapping[str, str]) -> Struct:
        return Struct(())

    def is_tracked(self) -> bool:
        return False

    def read(self, where: str | None, metadata: Mapping[str, str]) -> DataFrame:
        frame = frame_of(self.asking.anew(), self.statement, self.asked.query)
        return frame.toDF(*self.asked.columns) if self.asked.columns else frame


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


def run_view(asking: Asking, statement: Statement, asked: CreateView) -> DataFrame | None:
    """Make a view; None where its query names none of our tables."""
    if asked.temporary and not asked.is_global:
        asking.known.forget(asked.name[-1])
    query = query_of(statement, asked.query)
    if not replaced(asking, statement, query).frames:
        return None
    name = ".".join(asked.name)
    if not asked.temporary:
        raise Unsupported(
            f"the view {name} would be read by Spark alone, which cannot read Delta tables without a JAR: make it a "
            "TEMPORARY VIEW"
        )
    rows = _Viewed(asking, statement, asked)
    frame = rows.read(None, {})
    if asked.is_global:
        (frame.createOrReplaceGlobalTempView if asked.replaces else frame.createGlobalTempView)(asked.name[-1])
        return answers.nothing(asking.spark)
    (frame.createOrReplaceTempView if asked.replaces else frame.createTempView)(asked.name[-1])
    whole = _whole(statement, asked)

    def renewed() -> Rows:
        found = None if whole is None else source_of(asking.anew(), statement, whole)
        return rows if found is None else found

    asking.known.remember(asked.name[-1], renewed)
    return answers.nothing(asking.spark)


def _whole(statement: Statement, asked: CreateView) -> Reference | None:
    """The table that a view is all of: SELECT * FROM t, and nothing else."""
    blocks = query_of(statement, asked.query).blocks
    if asked.columns or len(blocks) != 1 or len(blocks[0].relations) != 1:
        return None
    reference, first = blocks[0].relations[0].reference, asked.query[0]
    if reference is None or (statement.upper(first), statement.upper(first + 1), statement.upper(first + 2)) != (
        "SELECT",
        "*",
        "FROM",
    ):
        return None
    rest = asked.query[1] - reference.span[1] - (reference.alias is not None)
    as_ = reference.alias is not None and statement.upper(reference.span[1]) == "AS"
    return replace(reference, alias=None) if rest - as_ == 0 and reference.span[0] == first + 3 else None
