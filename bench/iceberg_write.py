"""Change Iceberg tables without Spark, side by side with pyiceberg.

A table of `--rows` rows in files of 500,000, and an upsert of a tenth as many rows, half of them new; and a delete of
0.1 % of the rows, scattered over all files. Ours changes a table of version 3 by deletion vectors, pyiceberg one of
version 2 by writing files again, which is all it does; its `overwrite` is told the keys and so need not look for
them. Every change is made to a fresh copy, in a process of its own; a peer that needs longer than the limit is stopped
and counts with that time. Afterwards the tables hold the same rows.
"""

from __future__ import annotations

import multiprocessing
import shutil
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from harness import OURS, Case, Goal, Report, Took, arguments, emit, machine
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import In

from holdfast import IcebergTable

ROWS = {"quick": 200_000, "default": 2_000_000, "full": 10_000_000}
ROUNDS = {"quick": 1, "default": 3, "full": 1}
FILE_ROWS = 500_000
LIMIT_S = 240  # a peer that needs longer is stopped
PYICEBERG, OVERWRITE = "pyiceberg", "pyiceberg's overwrite"
FASTER = 20.0
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])


def main() -> None:
    asked = arguments(__doc__.splitlines()[0], unit="rows the table has").parse_args()
    size = "quick" if asked.quick else "full" if asked.full else "default"
    rows = asked.rows or ROWS[size]
    cases = [Case(f"upsert {rows // 10:,} rows into {rows:,}"), Case(f"delete 0.1 % of {rows:,} rows")]
    with TemporaryDirectory() as home:
        made = {engine: _made(Path(home) / f"made-{engine}", engine, rows) for engine in (OURS, PYICEBERG)}
        made[OVERWRITE] = made[PYICEBERG]
        for _ in range(ROUNDS[size]):
            for case, verb in zip(cases, ("upsert", "delete"), strict=True):
                contents = {}
                for engine in made if verb == "upsert" else (OURS, PYICEBERG):
                    took, contents[engine] = _measured(made[engine], engine, verb, rows)
                    case.add(engine, took)
                known = [found for found in contents.values() if found is not None]
                assert len(set(known)) == 1, f"{case.name}: the tables differ, {contents}"
    ratio = cases[0].ratio(PYICEBERG)
    stopped = f"pyiceberg was stopped after {LIMIT_S} s, so it is at least that" if cases[0].at_least(PYICEBERG) else ""
    goals = [Goal(f"at least {FASTER:.0f}x faster than pyiceberg's upsert", (ratio or 0) >= FASTER, ratio, stopped)]
    emit(Report("iceberg_write", cases, goals, (machine(),)), as_json=asked.json)


def _made(place: Path, engine: str, rows: int) -> Path:
    """A table of the version an engine changes, where its paths will be found again."""
    place.mkdir()
    version = 3 if engine == OURS else 2
    modes = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
    table = IcebergTable.create(
        None, place / "catalog.db", "db.t", SCHEMA, formatVersion=version, properties=modes if version == 3 else {}
    )
    for start in range(0, rows, FILE_ROWS):
        table.append(_rows(start, min(start + FILE_ROWS, rows)))
    return place


def _measured(made: Path, engine: str, verb: str, rows: int) -> tuple[Took, tuple[int, int] | None]:
    """How long an engine takes, and a fingerprint of the rows afterwards; None where it was stopped."""
    kept = made.with_name(f"{made.name}-kept")
    shutil.copytree(made, kept)
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    worker = context.Process(target=_run, args=(made, engine, verb, rows, answers))
    try:
        worker.start()
        worker.join(LIMIT_S)
        if worker.is_alive():
            worker.kill()
            worker.join()
            return Took(LIMIT_S, at_least=True), None
        assert worker.exitcode == 0, f"{engine} failed at {verb}"
        return Took(answers.get()), _fingerprint(made)
    finally:
        # Metadata names absolute paths, so a table is put back where it was.
        shutil.rmtree(made)
        kept.rename(made)


def _run(place: Path, engine: str, verb: str, rows: int, answers: multiprocessing.Queue[float]) -> None:
    """One change in this process; opening the table is not part of it."""
    half = rows // 20
    known = _rows(0, rows).take(pa.array(np.arange(0, rows, rows // half)[:half]))
    again = known.set_column(2, "amount", pc.add(known["amount"], 1.0))
    source = pa.concat_tables([again, _rows(rows, rows + half)])
    gone = np.arange(7, rows, 1000)
    if engine == OURS:
        table = IcebergTable.load(None, place / "catalog.db", "db.t")
        start = time.perf_counter()
        if verb == "upsert":
            merge = table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
            merge.execute()
        else:
            table.delete("id % 1000 = 7")
    else:
        theirs = load_catalog("holdfast", type="sql", uri=f"sqlite:///{place}/catalog.db").load_table("db.t")
        start = time.perf_counter()
        if engine == OVERWRITE:
            theirs.overwrite(source, In("id", source["id"].to_pylist()))
        elif verb == "upsert":
            theirs.upsert(source, join_cols=["id"])
        else:
            theirs.delete(In("id", gone.tolist()))
    answers.put(time.perf_counter() - start)


def _fingerprint(place: Path) -> tuple[int, int]:
    found = IcebergTable.load(None, place / "catalog.db", "db.t").toArrow(columns=["id", "amount"])
    return found.num_rows, round(pc.sum(pc.multiply(found["amount"], pc.add(found["id"], 1))).as_py())


def _rows(start: int, end: int) -> pa.Table:
    ids = np.arange(start, end)
    names = pc.binary_join_element_wise("name ", pa.array(ids).cast(pa.string()), "")
    return pa.Table.from_arrays([pa.array(ids), names, pa.array((ids * 7 % 1000).astype(float))], schema=SCHEMA)


if __name__ == "__main__":
    main()
