"""What other engines do to a table of ours, and what must be true of it afterwards, on both sides.

1. Rows are those of a plain model, whoever reads them.
2. Where the table tracks rows, both sides report the same ids and versions: a row that was not touched keeps both, an
   updated one keeps its id and takes the version of the commit, a new one has an id that no row had before.
3. Numbers that the engine gives out for an identity column are its own: they must be new, and on the column's grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdfast import DeltaTable
from tests.interop.answers import Answer, Works, Wrong, compared
from tests.interop.features import Recipe
from tests.interop.rows import IDENTITY_START, IDENTITY_STEP, expected, known_columns, row, table_of

IDS = ("_row_id", "_row_commit_version")
SET_BY_UPDATE, SET_BY_MERGE = 77, 88


@dataclass(frozen=True, slots=True)
class Change:
    """An operation: rows it gives a new `v`, rows it adds, rows it takes away."""

    name: str
    updated: tuple[int, ...] = ()
    value: int | None = None
    added: tuple[int, ...] = ()
    deleted: tuple[int, ...] = ()


APPEND = Change("append", added=(30, 31, 32))
UPDATE = Change("update", updated=(1, 14, 25), value=SET_BY_UPDATE)
MERGE = Change("merge", updated=(3, 15, 27), value=SET_BY_MERGE, added=(40, 41))
DELETE = Change("delete", deleted=(5, 26))
OPTIMIZE = Change("optimize")
OURS = Change("append by Holdfast on top", added=(50, 51))
CHANGES = {change.name: change for change in (APPEND, UPDATE, MERGE, DELETE, OPTIMIZE, OURS)}


@dataclass(frozen=True)
class Known:
    """A table as the model has it: rows by key, and where it tracks rows the id and version of each."""

    recipe: Recipe
    rows: Mapping[int, Mapping[str, Any]]
    ids: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    highest: int = -1  # of all ids that any row had

    @property
    def table(self) -> pa.Table:
        return table_of(known_columns(self.recipe), self.rows.values())


def known(recipe: Recipe, path: Path) -> Known:
    """A table as it was written, with the ids that Holdfast reports."""
    rows = {n: row(recipe, n) for n in expected(recipe)["id"].to_pylist()}
    ids = ids_of(ours(recipe, path))
    return Known(recipe, rows, ids, max((i for i, _ in ids.values()), default=-1))


def ours(recipe: Recipe, path: Path) -> pa.Table:
    """Rows as Holdfast reads them, with ids where there are some."""
    return DeltaTable.forPath(None, path).toArrow(metadata=IDS if "row_tracking" in recipe else ())


def ids_of(rows: pa.Table) -> dict[int, tuple[int, int]]:
    if IDS[0] not in rows.column_names:
        return {}
    told = rows.select(["id", *IDS]).to_pylist()
    return {one["id"]: (one[IDS[0]], one[IDS[1]]) for one in told}


def checked(before: Known, change: Change, path: Path, theirs: pa.Table) -> tuple[Known, Answer]:
    """The model after a change, and whether both sides agree with it; `theirs` has ids where the engine tells them."""
    mine, version = ours(before.recipe, path), DeltaTable.forPath(None, path).version
    after = _changed(before, change, mine)
    for whose, found in (("Holdfast", mine), ("the engine", theirs)):
        answer = compared(found.drop_columns([name for name in IDS if name in found.column_names]), after.table)
        if isinstance(answer, Wrong):
            return after, Wrong(f"after {change.name}, {whose} reads: {answer.text}")
    trouble = [*_numbers(before, after, change), *_ids(before, after, change, version)]
    if IDS[0] in theirs.column_names and ids_of(theirs) != after.ids:
        trouble.append(f"the engine reports other ids: {_differences(ids_of(theirs), after.ids)}")
    return after, Wrong(f"after {change.name}: {'; '.join(trouble)}") if trouble else Works()


def _changed(before: Known, change: Change, mine: pa.Table) -> Known:
    recipe = before.recipe
    rows = {n: values for n, values in before.rows.items() if n not in change.deleted}
    rows |= {n: {**rows[n], "v": change.value} for n in change.updated}
    rows |= {n: row(recipe, n) for n in change.added}
    if _numbered(recipe):
        numbers = dict(zip(mine["id"].to_pylist(), mine["number"].to_pylist(), strict=True))
        rows |= {n: {**rows[n], "number": numbers.get(n)} for n in change.added}
    ids = ids_of(mine)
    return replace(before, rows=rows, ids=ids, highest=max([before.highest, *(i for i, _ in ids.values())]))


def _numbered(recipe: Recipe) -> bool:
    return "identity" in recipe and "spark" not in recipe


def _numbers(before: Known, after: Known, change: Change) -> Iterable[str]:
    if not _numbered(before.recipe):
        return
    old = {values["number"] for values in before.rows.values()}
    new = [after.rows[n]["number"] for n in change.added]
    if None in new or len({*new}) < len(new) or old & {*new}:
        yield f"the identity column has the numbers {new} for new rows"
    elif any((number - IDENTITY_START) % IDENTITY_STEP for number in new):
        yield f"the numbers {new} of the identity column are not in steps of {IDENTITY_STEP}"


def _ids(before: Known, after: Known, change: Change, version: int) -> Iterable[str]:
    if "row_tracking" not in before.recipe:
        return
    for n, (row_id, row_version) in after.ids.items():
        if n in change.added:
            if row_id <= before.highest:
                yield f"the new row {n} has the id {row_id}, and {before.highest} was given out before"
        elif row_id != before.ids[n][0]:
            yield f"the row {n} had the id {before.ids[n][0]} and has {row_id}"
        touched = n in change.added or n in change.updated
        if row_version != (version if touched else before.ids[n][1]):
            yield f"the row {n} has the commit version {row_version} at version {version}, {before.ids.get(n)} before"
    if len({i for i, _ in after.ids.values()}) < len(after.ids):
        yield "two rows have one id"


def _differences(theirs: Mapping[int, Any], wanted: Mapping[int, Any]) -> str:
    apart = [n for n in sorted({*theirs, *wanted}) if theirs.get(n) != wanted.get(n)]
    return ", ".join(f"row {n} {theirs.get(n)} for {wanted.get(n)}" for n in apart[:5])
