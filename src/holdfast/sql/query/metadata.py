"""The struct `_metadata` of delta-spark, with row ids, row commit versions, files and positions, in queries and in DML.

In a query, a scan adds the struct. In DML, fields become the metadata columns that Holdfast's verbs take:

    DELETE FROM t WHERE t._metadata.row_id = 5        delete("t._row_id = 5")

1. A scan has the struct only where the query names it, with only the fields that are named.
2. A star does not include it, as in delta-spark.
3. In DML only fields of the table that is changed are replaced. Fields with another qualifier, and those in a subquery,
   stay.
4. A column of the table that is called `_metadata` keeps its meaning. In DML, a column with the name of a metadata
   column hides it, and the field is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.engines.spark.column_text import UNREADABLE, sql_of
from holdfast.errors import Invalid, Unsupported
from holdfast.rows import columns
from holdfast.schema.types import Struct
from holdfast.sql.query.conjuncts import METADATA
from holdfast.sql.query.references import ParsedQuery, QueryBlock, Relation
from holdfast.sql.query.walk import expression_of
from holdfast.sql.text import Edit, Span, Statement, applied, statement_of

FIELDS = {  # in the order in which delta-spark has them
    "file_path": columns.FILE,
    "file_name": columns.FILE,
    "file_size": columns.FILE_SIZE,
    "file_block_start": columns.FILE_BLOCK_START,
    "file_block_length": columns.FILE_BLOCK_LENGTH,
    "file_modification_time": columns.FILE_TIME,
    "row_index": columns.ROW_INDEX,
    "row_id": columns.ROW_ID,
    "base_row_id": columns.BASE_ROW_ID,
    "default_row_commit_version": columns.DEFAULT_ROW_COMMIT_VERSION,
    "row_commit_version": columns.ROW_COMMIT_VERSION,
}
OF_TRACKED = tuple(FIELDS)
OF_ANY_TABLE = tuple(name for name, column in FIELDS.items() if column not in columns.NEEDS_TRACKING)
_PREFIX = "__holdfast"


def fields_of(
    statement: Statement, query: ParsedQuery, block: QueryBlock, relation: Relation, *, tracked: bool
) -> tuple[str, ...]:
    """The fields of `_metadata` that a block names of one of its relations."""
    fields: set[str] = set()
    for qualifier, field in _uses(statement, query, block):
        if qualifier is not None and qualifier != (relation.qualifier or "").lower():
            continue
        fields.update((OF_TRACKED if tracked else OF_ANY_TABLE) if field is None else (field,))
    if unknown := sorted(fields - FIELDS.keys()):
        raise Unsupported(f"{METADATA} has no field {unknown[0]}: there are {', '.join(FIELDS)}")
    return tuple(name for name in FIELDS if name in fields)


def columns_for(fields: Sequence[str]) -> Mapping[str, str]:
    """The metadata columns that a scan reads for some fields, and the names they get."""
    return {FIELDS[name]: _PREFIX + FIELDS[name] for name in fields}


def in_conditions(fields: Sequence[str]) -> Mapping[str, str]:
    """The fields that a condition may use, and the columns of the scan that they are."""
    return {name: _PREFIX + FIELDS[name] for name in fields if name != "file_name"}


def with_struct(frame: DataFrame, fields: Sequence[str]) -> DataFrame:
    """Put the metadata columns of a scan into the struct."""
    values = [_field(name) for name in fields]
    return frame.withColumn(METADATA, F.struct(*values)).drop(*columns_for(fields).values())


def star_edits(statement: Statement, block: QueryBlock, qualifiers: Sequence[str]) -> Iterator[Edit]:
    """Edits that leave the struct of some relations out of a block's stars."""
    for at in block.stars:
        if statement.upper(at - 1) == "." and statement.words[at - 2].name.lower() not in qualifiers:
            continue
        if statement.upper(at + 1) == "EXCEPT" and statement.upper(at + 2) == "(":
            place = statement.words[at + 2].end
            yield Edit(place, place, f"{METADATA}, ")
        else:
            place = statement.words[at].end
            yield Edit(place, place, f" EXCEPT ({METADATA})")


def _field(name: str) -> Column:
    column = F.col(_PREFIX + FIELDS[name])
    return (F.element_at(F.split(column, "/"), -1) if name == "file_name" else column).alias(name)


def _uses(statement: Statement, query: ParsedQuery, block: QueryBlock) -> Iterator[tuple[str | None, str | None]]:
    """The qualifier and field of each use of `_metadata` in a block, outside of the queries within it."""
    for at, end in metadata_names(statement, block.span, (b.span for b in query.blocks if b is not block)):
        path = [part.lower() for part in statement.names(at, end)]
        here = path.index(METADATA)
        if statement.upper(end) != "(":
            yield (path[here - 1] if here else None), (path[here + 1] if here + 1 < len(path) else None)


def metadata_names(statement: Statement, span: Span, queries: Iterable[Span]) -> Iterator[Span]:
    """The dotted names with `_metadata` in a part of a statement, outside of the queries within it."""
    at, last = span
    inner = {first: end for first, end in queries if at <= first and end <= last}
    while at < last:
        if at in inner:
            at = inner[at]
            continue
        end = statement.name_end(at)
        if METADATA in (part.lower() for part in statement.names(at, end)):
            yield at, end
        at = max(end, at + 1)


def with_metadata_columns(
    value: str | Column, schema: Callable[[], Struct], qualifier: str | None = None
) -> str | Column:
    """An expression with metadata columns in the place of fields of `_metadata`, about a table with this schema."""
    if METADATA not in str(value).lower():
        return value
    text = sql_of(value) if isinstance(value, Column) else value
    statement = statement_of(text)
    if statement is None:
        return value
    span = (0, len(statement.words))
    edits = list(field_edits(statement, span, expression_of(statement, span), schema(), qualifier))
    if edits and UNREADABLE in text:
        raise Unsupported(f"a condition on {METADATA} cannot be read from this Column: write it as text")
    return applied(text, edits) if edits else value


def field_edits(
    statement: Statement, span: Span, query: ParsedQuery, schema: Struct, qualifier: str | None
) -> Iterator[Edit]:
    """The edits of an expression about a table; `query` holds the subqueries of the expression."""
    if schema.find(METADATA) is not None:
        return
    for at, end in metadata_names(statement, span, (block.span for block in query.blocks)):
        path = [part.lower() for part in statement.names(at, end)]
        here = path.index(METADATA)
        if not here or path[here - 1] == (qualifier or "").lower():
            yield from _edits(statement, at, here, path[here + 1 :], schema)


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
        yield Edit(start, end, f"{columns.FILE}, '/'), -1)")
    else:
        yield Edit(start, end, column)
