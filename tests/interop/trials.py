"""A table and an engine: everything the engine can be asked to do with it, and what came of each.

1. Reading and filtering happen on the table as it was written; changes on a copy, one on top of the other.
2. After a change that went wrong nothing more is asked of that copy.
3. Last, Holdfast appends to what the engine left, and the engine reads once more.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast import DeltaTable, TableError
from tests.interop.answers import Answer, KnownBug, Refused, Works, Wrong, compared, said
from tests.interop.changes import CHANGES, IDS, OURS, Known, checked, ids_of, known, ours
from tests.interop.conditions import conditions
from tests.interop.engines import Engine
from tests.interop.features import Recipe
from tests.interop.rows import expected, partition_columns, row, written
from tests.interop.tables import frame

READ, FILTER = "read", "filter"

_MAPPING = frozenset(("mapping_name", "mapping_id"))
_NULL_PARTITIONS = (
    "reads null in partition columns of tables with column mapping, whoever wrote them: "
    "[duckdb-delta#343](https://github.com/duckdb/duckdb-delta/issues/343)"
)
_LOGICAL_NAMES = (
    "writes columns of tables with column mapping under their logical names, and fails or leaves nulls: "
    "[duckdb-delta#341](https://github.com/duckdb/duckdb-delta/pull/341)"
)


def trial(engine: Engine, recipe: Recipe, path: Path, scratch: Path, spark: SparkSession | None) -> dict[str, Answer]:
    """What came of each operation; what was not asked is not there."""
    found = {READ: reads(engine, recipe, path)}
    if found[READ] != Works():
        return found
    found[FILTER] = filters(engine, recipe, path)
    copy = scratch / f"{engine.name}-{path.name}"
    shutil.copytree(path, copy)
    state = known(recipe, copy)
    for wanted in engine.offers:
        try:
            engine.change(recipe, copy, wanted)
        except Refused as error:
            found[wanted.name] = _excused(engine, recipe, said(error))
            continue
        state, answer = _looked_at(engine, state, wanted.name, copy)
        found[wanted.name] = _excused(engine, recipe, answer)
        if found[wanted.name] != Works():
            return found
    if any(found.get(wanted.name) == Works() for wanted in engine.offers):
        _append(recipe, copy, spark)
        _, found[OURS.name] = _looked_at(engine, state, OURS.name, copy)
    return found


def reads(engine: Engine, recipe: Recipe, path: Path) -> Answer:
    """Whether an engine reads every row of a table as it was written."""
    try:
        (found,) = engine.rows(recipe, path, ids=True)
    except Refused as error:
        return said(error)
    if IDS[0] in found.column_names:
        if ids_of(found) != ids_of(ours(recipe, path)):
            return Wrong(f"it reports the row ids {ids_of(found)} where Holdfast has {ids_of(ours(recipe, path))}")
        found = found.drop_columns(list(IDS))
    answer = compared(found, expected(recipe))
    if isinstance(answer, Wrong) and _has_null_partitions(engine, recipe, found):
        return KnownBug(_NULL_PARTITIONS)
    return answer


def filters(engine: Engine, recipe: Recipe, path: Path) -> Answer:
    """Whether an engine finds the rows that conditions leave."""
    asked = conditions(recipe)
    rows = [row(recipe, n) for n in expected(recipe)["id"].to_pylist()]
    try:
        found = engine.rows(recipe, path, [condition.sql for condition in asked])
    except Refused as error:
        return said(error)
    for condition, left in zip(asked, found, strict=True):
        answer = compared(left, expected(recipe, [known["id"] for known in rows if condition.holds(known)]))
        if isinstance(answer, Wrong):
            return Wrong(f"where {condition.sql}: {answer.text}")
    return Works()


def _looked_at(engine: Engine, before: Known, change: str, path: Path) -> tuple[Known, Answer]:
    try:
        (theirs,) = engine.rows(before.recipe, path, ids=True)
    except Refused as error:
        return before, Wrong(f"after {change} it does not read the table: {error}")
    try:
        return checked(before, CHANGES[change], path, theirs)
    except TableError as error:
        return before, Wrong(f"after {change} Holdfast does not read the table: {error}")


def _excused(engine: Engine, recipe: Recipe, answer: Answer) -> Answer:
    """An answer, unless it is wrong for a reason that has nothing to do with us."""
    if isinstance(answer, Wrong) and engine.name == "DuckDB" and recipe & _MAPPING:
        return KnownBug(_LOGICAL_NAMES)
    return answer


def _append(recipe: Recipe, path: Path, spark: SparkSession | None) -> None:
    rows = written(recipe, OURS.added)
    if "spark" in recipe:
        assert spark is not None, "a table written by Spark came from a session"
        DeltaTable.forPath(spark, path).append(frame(spark, rows, recipe))
    else:
        DeltaTable.forPath(None, path).append(rows)


def _has_null_partitions(engine: Engine, recipe: Recipe, found: pa.Table) -> bool:
    """Whether the bug of _NULL_PARTITIONS is all that is wrong."""
    names = list(partition_columns(recipe))
    if engine.name != "DuckDB" or not names or not recipe & _MAPPING:
        return False
    null = all(found[name].null_count == len(found) for name in names)
    return null and compared(found.drop_columns(names), expected(recipe).drop_columns(names)) == Works()
