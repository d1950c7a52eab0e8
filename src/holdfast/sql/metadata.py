"""The struct `_metadata` that queries of delta-spark's users name: row ids, row versions, files and positions.

1. A scan carries the struct only where the query names it, with only the fields that are named.
2. A star does not show it, as it does not in delta-spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from holdfast.errors import Unsupported
from holdfast.rows.columns import BASE_ROW_ID, DEFAULT_ROW_COMMIT_VERSION, FILE, ROW_COMMIT_VERSION, ROW_ID, ROW_INDEX
from holdfast.sql.conjuncts import METADATA
from holdfast.sql.references import Block, Query, Relation, name_end, names
from holdfast.sql.text import Edit, Statement

FIELDS = {
    "file_path": FILE,
    "file_name": FILE,
    "row_index": ROW_INDEX,
    "row_id": ROW_ID,
    "row_commit_version": ROW_COMMIT_VERSION,
    "base_row_id": BASE_ROW_ID,
    "default_row_commit_version": DEFAULT_ROW_COMMIT_VERSION,
}
OF_ANY_TABLE = ("file_path", "file_name", "row_index")
OF_TRACKED = (*OF_ANY_TABLE, "row_id", "row_commit_version", "base_row_id", "default_row_commit_version")
_PREFIX = "__holdfast"


def fields_of(
    statement: Statement, query: Query, block: Block, relation: Relation, *, tracked: bool
) -> tuple[str, ...]:
    """The fields of `_metadata` that a block names of one of its relations."""
    found: set[str] = set()
    for qualifier, field in _uses(statement, query, block):
        if qualifier is not None and qualifier != (relation.called or "").lower():
            continue
        found.update((OF_TRACKED if tracked else OF_ANY_TABLE) if field is None else (field,))
    if unknown := sorted(found - FIELDS.keys()):
        raise Unsupported(
            f"{METADATA}.{unknown[0]} cannot be given without Spark's own Delta source: there are {', '.join(FIELDS)}"
        )
    return tuple(name for name in FIELDS if name in found)


def columns_for(fields: Sequence[str]) -> Mapping[str, str]:
    """The metadata columns a scan has to give for fields, and the names they have there."""
    return {FIELDS[name]: _PREFIX + FIELDS[name] for name in fields}


def in_conditions(fields: Sequence[str]) -> Mapping[str, str]:
    """The fields as a condition of a scan may name them."""
    return {name: _PREFIX + FIELDS[name] for name in fields if name != "file_name"}


def with_struct(frame: DataFrame, fields: Sequence[str]) -> DataFrame:
    """Put what a scan gave into the struct."""
    columns = [_field(name) for name in fields]
    return frame.withColumn(METADATA, F.struct(*columns)).drop(*columns_for(fields).values())


def star_edits(statement: Statement, block: Block, called: Sequence[str]) -> Iterator[Edit]:
    """Leave the struct of some relations out of a block's stars."""
    for at in block.stars:
        if statement.upper(at - 1) == "." and statement.words[at - 2].name.lower() not in called:
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


def _uses(statement: Statement, query: Query, block: Block) -> Iterator[tuple[str | None, str | None]]:
    """What of `_metadata` the words of a block name, those of queries within left out: qualifier and field."""
    first, last = block.span
    inner = [b.span for b in query.blocks if b is not block and first <= b.span[0] and b.span[1] <= last]
    at = first
    while at < last:
        nested = next((end for begun, end in inner if begun == at), None)
        if nested is not None:
            at = nested
            continue
        end = name_end(statement, at)
        if end == at or statement.upper(end) == "(":
            at = max(end, at + 1)
            continue
        path = [part.lower() for part in names(statement, at, end)]
        if METADATA in path[:-1]:
            here = path.index(METADATA)
            yield (path[here - 1] if here else None), path[here + 1]
        elif path[-1] == METADATA:
            yield (path[-2] if len(path) > 1 else None), None
        at = end
