"""Find the nearest rows through a vector index: how many of them, how fast, and what the index costs.

Vectors lie around 2,000 centres with noise in 16 dimensions; queries are drawn likewise and are no rows. Recall is the
share of the ten nearest rows, by exact distances over all rows, that `nearest` finds with its defaults. The history is
an update of 1 % of the rows by MERGE, a refresh of the index and a compaction of the table.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from harness import DATA, OURS, Case, Goal, Report, Took, arguments, emit, machine

from holdfast import DeltaTable

SIZES = {
    "quick": ((100_000, 64), (20_000, 256)),
    "default": ((1_000_000, 64), (100_000, 512)),
    "full": ((1_000_000, 64), (100_000, 512)),
}
QUERIES = 100
NEAREST = 10
RECALL = 0.95
SLOWER = 1.3  # after the history
ADDED = 500
ADDED_S = 0.1
FILES = 8

_CENTRES = 2000
_NOISE = 16


@dataclass
class Run:
    """One size."""

    rows: int
    length: int
    cases: dict[str, Case] = field(default_factory=dict)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.rows:,} x {self.length}"

    def took(self, case: str, seconds: float) -> None:
        self.cases.setdefault(case, Case(f"{self.name}: {case}")).add(OURS, Took(seconds))

    def timed(self, case: str, what: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        answer = what()
        self.took(case, time.perf_counter() - start)
        return answer


def main() -> None:
    asked = arguments(__doc__.splitlines()[0], unit="rows of the first size").parse_args()
    sizes = SIZES["quick" if asked.quick else "full" if asked.full else "default"]
    if asked.rows:
        sizes = ((asked.rows, sizes[0][1]), *sizes[1:])
    runs = [measured(Run(rows, length)) for rows, length in sizes]
    cases = [case for run in runs for case in run.cases.values()]
    goals, notes = [g for run in runs for g in run.goals], [n for run in runs for n in run.notes]
    emit(Report("nearest", cases, goals, [*notes, machine()]), as_json=asked.json)


def measured(run: Run) -> Run:
    vectors = made(run.rows + QUERIES, run.length)
    queries, vectors = vectors[run.rows :].astype(np.float64), vectors[: run.rows]
    place = DATA / "nearest-run"
    shutil.rmtree(place, ignore_errors=True)
    schema = table_of(vectors[:1], np.zeros(1)).schema
    builder = DeltaTable.create(None).location(str(place)).addColumns(schema)
    table = builder.property("holdfast.layout", "point").execute()
    for part in range(FILES):
        some = np.arange(part * run.rows // FILES, (part + 1) * run.rows // FILES)
        table.append(table_of(vectors[some], some))
    exact = truth(vectors, queries)

    run.timed("one query, no index", lambda: table.nearest("vec", queries[0], NEAREST, columns=["id"]))
    info = run.timed("build the index", lambda: table.createIndex("vec", kind="vector"))
    found = recall(run, "one query", table, queries, exact)
    plan = table.explainNearest("vec", queries[0])
    run.goals.append(Goal(f"recall@10 of {run.name} is at least {RECALL}", found >= RECALL, found))
    megabytes = written(place) / 1e6
    run.notes.append(
        f"{run.name}: {plan.method}, {plan.probes} lists visited, {info.entries:,} entries, {megabytes:.0f} MB"
    )
    run.timed(f"{QUERIES} queries at once", lambda: table.nearest("vec", queries, NEAREST, columns=["id"]))
    for share, where in (("a third", "g < 33"), ("1 %", "g = 7")):
        for query in queries[:10]:
            case = f"one query, {share} of the rows"
            run.timed(case, lambda q=query, w=where: table.nearest("vec", q, NEAREST, w, columns=["id"]))

    changed = np.random.default_rng(3).permutation(run.rows)[: run.rows // 100]
    vectors[changed] = made(len(changed), run.length, seed=9)
    source = table_of(vectors[changed], changed)
    table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().execute()
    run.timed("refresh after 1 % of updates", lambda: table.refreshIndex("vec"))
    before = written(place)
    run.timed("compact the table", lambda: table.optimize(materializeDeletionsThreshold=0.0).executeCompaction())
    run.goals.append(
        Goal(
            f"a compaction of {run.name} writes no byte of the index", written(place) == before, written(place) - before
        )
    )
    after = recall(run, "one query, after the history", table, queries, truth(vectors, queries))
    run.goals.append(Goal(f"recall@10 of {run.name} after the history is at least {RECALL}", after >= RECALL, after))
    ratio = seconds(run, "one query, after the history") / seconds(run, "one query")
    run.goals.append(Goal(f"a query of {run.name} after the history takes at most {SLOWER}x", ratio <= SLOWER, ratio))
    for step in range(3):
        ids = np.arange(run.rows + step * ADDED, run.rows + (step + 1) * ADDED)
        table.append(table_of(made(ADDED, run.length, seed=20 + step), ids))
        table.refresh()
        run.timed(f"refresh over {ADDED} rows", lambda: table.refreshIndex("vec"))
    added = seconds(run, f"refresh over {ADDED} rows")
    run.goals.append(Goal(f"adding {ADDED} rows to the index of {run.name} takes {ADDED_S} s", added <= ADDED_S, added))
    shutil.rmtree(place)
    return run


def recall(run: Run, case: str, table: DeltaTable, queries: Any, exact: Any) -> float:
    """Ask one query after another; the share of the nearest that was found."""
    table.nearest("vec", queries[0], NEAREST, columns=["id"])
    shares = []
    for query, wanted in zip(queries, exact, strict=True):
        answer = run.timed(case, lambda query=query: table.nearest("vec", query, NEAREST, columns=["id"]))
        shares.append(len(set(answer.column("id").to_pylist()) & set(wanted.tolist())) / NEAREST)
    return float(np.mean(shares))


def seconds(run: Run, case: str) -> float:
    return median(took.seconds for took in run.cases[case].took[OURS])


def truth(vectors: Any, queries: Any) -> Any:
    """The nearest rows of each query, by looking at all."""
    squares = np.einsum("ij,ij->i", vectors, vectors)
    found = []
    for start in range(0, len(queries), 10):
        about = squares[:, None] - 2 * (vectors @ queries[start : start + 10].T.astype(np.float32))
        near = np.argpartition(about, 4 * NEAREST, axis=0)[: 4 * NEAREST]
        for at, query in enumerate(queries[start : start + 10]):
            distance = np.square(vectors[near[:, at]].astype(np.float64) - query).sum(axis=1)
            found.append(near[np.argsort(distance)[:NEAREST], at])
    return found


def made(count: int, length: int, seed: int = 0) -> Any:
    shape = np.random.default_rng(1)  # the same centres and noise whatever is drawn
    centres = shape.normal(size=(_CENTRES, length)).astype(np.float32)
    basis = (shape.normal(size=(_NOISE, length)) / np.sqrt(_NOISE)).astype(np.float32)
    chance = np.random.default_rng(seed)
    vectors = centres[chance.integers(0, _CENTRES, count)]
    for start in range(0, count, 100_000):
        some = vectors[start : start + 100_000]
        some += chance.normal(size=(len(some), _NOISE)).astype(np.float32) @ basis
    return vectors


def table_of(vectors: Any, ids: Any) -> pa.Table:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    ids = ids.astype(np.int64)
    return pa.table({"id": pa.array(ids), "g": pa.array(ids % 100), "vec": lists.cast(pa.list_(pa.float32()))})


def written(place: Path) -> int:
    """Bytes of indexes."""
    found = (Path(directory, name) for directory, _, names in os.walk(place / "_holdfast" / "index") for name in names)
    return sum(path.stat().st_size for path in found)


if __name__ == "__main__":
    main()
