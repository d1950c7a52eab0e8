"""COMMENT ON TABLE: what a table is for."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from holdfast.sql import answers
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor
from holdfast.sql.resolver import ResolvedTable
from holdfast.sql.text import Statement


@dataclass(frozen=True, slots=True)
class Comment:
    """COMMENT ON TABLE t IS text."""

    table: tuple[str, ...]
    text: str | None


def parse_comment(cursor: Cursor) -> Comment:
    cursor.expect("COMMENT", "ON", "TABLE")
    table = cursor.table()
    cursor.expect("IS")
    text = None if cursor.take("NULL") else cursor.text()
    cursor.end()
    return Comment(table, text)


def run_comment(asking: StatementContext, statement: Statement, asked: Comment, found: ResolvedTable) -> DataFrame:
    found.delta("COMMENT ON TABLE").setProperties({"comment": asked.text or ""})
    return answers.nothing(asking.spark)
