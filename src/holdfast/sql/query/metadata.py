"""The struct `_metadata` of delta-spark's queries, with row ids, row commit versions, files and positions.

1. A scan has the struct only where the query names it, with only the fields that are named.
2. A star does not include it, as in delta-spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.errors import Unsupported
from holdfast.rows import columns
from holdfast.sql.query.conjuncts import METADATA
from holdfast.sql.query.references import ParsedQuery, QueryBlock, Relation
from holdfast.sql.text import Edit, Statement

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
    first, last = block.span
    inner = dict(b.span for b in query.blocks if b is not block and first <= b.span[0] and b.span[1] <= last)
    at = first
    while at < last:
        if at in inner:
            at = inner[at]
            continue
        end = statement.name_end(at)
        if end == at or statement.upper(end) == "(":
            at = max(end, at + 1)
            continue
        path = [part.lower() for part in statement.names(at, end)]
        if METADATA in path[:-1]:
            here = path.index(METADATA)
            yield (path[here - 1] if here else None), path[here + 1]
        elif path[-1] == METADATA:
            yield (path[-2] if len(path) > 1 else None), None
        at = end
