"""Rows by `_row_id` in conditions, without Spark: one, 1,000, and the plan of a delete, fresh and after a history.

Peer is the same request over every file of the table, which is what a condition on ids read before it pruned. The
history is twenty updates of 1,000 scattered rows each, so that files overlap in the ids they hold.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from harness import DATA, OURS, Case, Goal, Report, Took, arguments, emit, machine
from tables import once

from holdfast import DeltaTable
from holdfast.engines.local.scan import scan_table
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.plan.scan.request import Condition, Request, known_columns, plan_scan
from holdfast.predicate.parse import parse

ROWS = {"quick": 1_000_000, "default": 10_000_000, "full": 10_000_000}
FILES = 100
UPDATES = 20
MANY = 1000
ROUNDS = 5
EVERY_FILE = "every file"
IDS = ["_row_id"]
Made = TypeVar("Made")


def main() -> None:
    asked = arguments(__doc__.splitlines()[0], unit="rows").parse_args()
    rows = asked.rows or ROWS["quick" if asked.quick else "full" if asked.full else "default"]
    places = {
        "fresh": once(DATA / f"by-row-id-{rows}" / "fresh", partial(_made, rows=rows)),
        "after a history": once(DATA / f"by-row-id-{rows}" / "aged", partial(_aged, rows=rows)),
    }
    cases, notes = [], []
    random = np.random.default_rng(3)
    for said, place in places.items():
        one, many, delete = Case(f"one id, {said}"), Case(f"{MANY:,} ids, {said}"), Case(f"plan of a delete, {said}")
        table = DeltaTable.forPath(None, place)
        for _ in range(ROUNDS + 1):
            for case, count in ((one, 1), (many, MANY)):
                text = f"_row_id IN ({', '.join(map(str, random.integers(0, rows, count)))})"
                ours, found = _timed(partial(table.toArrow, where=text, metadata=IDS))
                theirs, read = _timed(partial(_whole, table, text))
                assert found.sort_by("_row_id").equals(read.sort_by("_row_id")), "both find the same rows"
                case.add(OURS, Took(ours))
                case.add(EVERY_FILE, Took(theirs))
            text = f"_row_id IN ({', '.join(map(str, np.arange(MANY) + random.integers(0, rows - MANY)))})"
            took, plan = _timed(partial(table.plan.delete, text))
            delete.add(OURS, Took(took))
        for case in (one, many, delete):
            for times in case.took.values():
                del times[0]  # the first round warms up
        cases += [one, many, delete]
        last = table.explain(where=f"_row_id = {rows // 2}", metadata=IDS)
        notes.append(
            f"{said}: {last.files_read} of {last.files_total} files are read for one id, {plan.files} searched"
        )
    notes.append(f"{rows:,} rows; the delete is of {MANY:,} ids that follow each other")
    emit(Report("by_row_id", cases, list(_goals(cases)), [*notes, machine()]), as_json=asked.json)


def _goals(cases: list[Case]) -> Iterator[Goal]:
    for case in cases:
        if case.name.startswith("one id"):
            figure = case.ratio(EVERY_FILE)
            yield Goal(f"{case.name}: at least 10x every file", figure is not None and figure >= 10, figure)


def _timed(run: Callable[[], Made]) -> tuple[float, Made]:
    start = time.perf_counter()
    made = run()
    return time.perf_counter() - start, made


def _whole(table: DeltaTable, text: str) -> pa.Table:
    snapshot = table.handle.newest().snapshot
    condition = Condition(text, text, parse(text, known_columns(snapshot, IDS)))
    plan = replace(plan_scan(snapshot, Request(None, condition, IDS)), files=snapshot.files)
    return scan_table(plan, load_hidden(snapshot.location, snapshot.files))


def _made(place: Path, *, rows: int) -> None:
    random = np.random.default_rng(1)
    schema = pa.schema([("k", pa.int64()), ("customer", pa.int64()), ("amount", pa.float64()), ("s", pa.string())])
    builder = DeltaTable.create(None).location(place).addColumns(schema)
    for name in ("enableRowTracking", "enableDeletionVectors"):
        builder = builder.property(f"delta.{name}", "true")
    table = builder.execute()
    each = rows // FILES
    for start in range(0, rows, each):
        keys = np.arange(start, start + each)
        texts = np.char.mod("name-%08d", keys * 7919 % rows)
        columns = [keys, random.integers(0, 10**7, each), np.round(random.gamma(2, 50, each), 2), texts]
        table.append(pa.table(dict(zip(schema.names, map(pa.array, columns), strict=True))))


def _aged(place: Path, *, rows: int) -> None:
    shutil.copytree(DATA / f"by-row-id-{rows}" / "fresh", place, dirs_exist_ok=True)
    table, random = DeltaTable.forPath(None, place), np.random.default_rng(2)
    for number in range(UPDATES):
        some = pa.table({"rid": random.choice(rows, MANY, replace=False)})
        merge = table.alias("t").merge(some, "t._row_id = s.rid")
        merge.whenMatchedUpdate(set={"amount": str(float(number))}).execute()


if __name__ == "__main__":
    main()
