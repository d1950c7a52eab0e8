"""Fields of `_metadata` in conditions and values of DML, as the metadata columns that Holdfast's verbs take.

    DELETE FROM t WHERE t._metadata.row_id = 5        delete("t._row_id = 5")

1. Only fields of the table that is changed are replaced. Fields with another qualifier, and those in a subquery, stay.
2. A column of the table that is called `_metadata` keeps its meaning. A column with the name of a metadata column hides
   it, and the field is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyspark.sql import Column

from holdfast.engines.spark.column_text import UNREADABLE, sql_of
from holdfast.errors import Invalid, Unsupported
from holdfast.rows.columns import FILE
from holdfast.schema.types import Struct
from holdfast.sql.query.conjuncts import METADATA
from holdfast.sql.query.metadata import FIELDS
from holdfast.sql.query.references import ParsedQuery
from holdfast.sql.query.walk import expression_of
from holdfast.sql.text import Edit, Span, Statement, applied, statement_of


def with_metadata_columns(
    value: str | Column, columns: Callable[[], Struct], qualifier: str | None = None
) -> str | Column:
    """An expression with metadata columns in the place of fields of `_metadata`, about a table with these columns."""
    if METADATA not in str(value).lower():
        return value
    text = sql_of(value) if isinstance(value, Column) else value
    statement = statement_of(text)
    if statement is None:
        return value
    span = (0, len(statement.words))
    edits = list(field_edits(statement, span, expression_of(statement, span), columns(), qualifier))
    if edits and UNREADABLE in text:
        raise Unsupported(f"a condition on {METADATA} cannot be read from this Column: write it as text")
    return applied(text, edits) if edits else value


def field_edits(
    statement: Statement, span: Span, query: ParsedQuery, schema: Struct, qualifier: str | None
) -> Iterator[Edit]:
    """The edits of an expression about a table; `query` holds the subqueries of the expression."""
    if schema.find(METADATA) is not None:
        return
    for at, end in _paths(statement, span, query):
        path = [part.lower() for part in statement.names(at, end)]
        here = path.index(METADATA)
        if not here or path[here - 1] == (qualifier or "").lower():
            yield from _edits(statement, at, here, path[here + 1 :], schema)


def _paths(statement: Statement, span: Span, query: ParsedQuery) -> Iterator[Span]:
    """The dotted names with `_metadata` in them, outside of subqueries."""
    ends = dict(block.span for block in query.blocks)
    at, last = span
    while at < last:
        if at in ends:
            at = ends[at]
            continue
        end = statement.name_end(at)
        if end > at and METADATA in (part.lower() for part in statement.names(at, end)):
            yield at, end
        at = max(end, at + 1)


def _edits(statement: Statement, at: int, here: int, fields: list[str], schema: Struct) -> Iterator[Edit]:
    if len(fields) != 1 or fields[0] not in FIELDS:
        problem = f"has no field {'.'.join(fields)}" if fields else "as a whole is not given to what changes rows"
        raise Invalid(f"{METADATA} {problem}: name one of {', '.join(FIELDS)}")
    column = FIELDS[fields[0]]
    if schema.find(column) is not None:
        raise Unsupported(
            f"{METADATA}.{fields[0]} cannot be told from {column}, a column of the table's own: rename the column"
        )
    words = statement.words
    first, start, end = words[at].start, words[at + 2 * here].start, words[at + 2 * here + 2].end
    if fields[0] == "file_name":
        yield Edit(first, first, "element_at(split(")
        yield Edit(start, end, f"{FILE}, '/'), -1)")
    else:
        yield Edit(start, end, column)
