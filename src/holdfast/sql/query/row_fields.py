"""`_metadata` in what changes rows: its fields are the metadata columns that Holdfast's own verbs take.

    DELETE FROM t WHERE t._metadata.row_id = 5        delete("t._row_id = 5")

1. Only a field of the table that is changed becomes a column; one that another qualifier names, or a query within the
   text, is left to whoever that is.
2. A column of the table's own that is called `_metadata` stays what it is. One that is called like a metadata column
   hides it, and the field is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from pyspark.sql import Column

from holdfast.engines.spark.column_text import UNREADABLE, sql_of
from holdfast.errors import Invalid, Unsupported
from holdfast.rows.columns import FILE
from holdfast.schema.types import Struct
from holdfast.sql.query.conjuncts import METADATA
from holdfast.sql.query.metadata import FIELDS
from holdfast.sql.query.references import Span, name_end, names
from holdfast.sql.query.walk import expression_of
from holdfast.sql.text import Edit, Statement, applied, statement_of

Columns: TypeAlias = Callable[[], Struct]  # of the table; asked for where `_metadata` is named


def natively(value: str | Column, columns: Columns, called: str | None = None) -> str | Column:
    """An expression of a change in the names that verbs take; the same where it does not name `_metadata`."""
    if METADATA not in str(value).lower():
        return value
    text = sql_of(value) if isinstance(value, Column) else value
    statement = statement_of(text)
    if statement is None:
        return value
    edits = list(field_edits(statement, (0, len(statement.words)), columns, called))
    if edits and UNREADABLE in text:
        raise Unsupported(f"a condition on {METADATA} cannot be read from this Column: write it as text")
    return applied(text, edits) if edits else value


def field_edits(statement: Statement, span: Span, columns: Columns, called: str | None) -> Iterator[Edit]:
    """What to change in an expression about a table that is called by a name."""
    schema: Struct | None = None
    for at, end in _paths(statement, span):
        path = [part.lower() for part in names(statement, at, end)]
        here = path.index(METADATA)
        if here and path[here - 1] != (called or "").lower():
            continue
        schema = schema or columns()
        if schema.find(METADATA) is not None:
            return
        yield from _edits(statement, at, here, path[here + 1 :], schema)


def _paths(statement: Statement, span: Span) -> Iterator[Span]:
    """The dotted names with `_metadata` in them, those within queries left out."""
    queries = dict(_spans(statement, span))
    at, last = span
    while at < last:
        if at in queries:
            at = queries[at]
            continue
        end = name_end(statement, at)
        if end > at and METADATA in (part.lower() for part in names(statement, at, end)):
            yield at, end
        at = max(end, at + 1)


def _spans(statement: Statement, span: Span) -> Iterable[Span]:
    return (block.span for block in expression_of(statement, span).blocks)


def _edits(statement: Statement, at: int, here: int, fields: list[str], schema: Struct) -> Iterator[Edit]:
    if len(fields) != 1 or fields[0] not in FIELDS:
        told = f"has no field {'.'.join(fields)}" if fields else "as a whole is not given to what changes rows"
        raise Invalid(f"{METADATA} {told}: name one of {', '.join(FIELDS)}")
    column = FIELDS[fields[0]]
    if schema.find(column) is not None:
        raise Unsupported(
            f"{METADATA}.{fields[0]} cannot be told from {column}, a column of the table's own: rename the column"
        )
    first, start, end = (
        statement.words[at].start,
        statement.words[at + 2 * here].start,
        statement.words[at + 2 * here + 2].end,
    )
    if fields[0] == "file_name":
        yield Edit(first, first, "element_at(split(")
        yield Edit(start, end, f"{FILE}, '/'), -1)")
    else:
        yield Edit(start, end, column)
