"""Scan a table with Spark, some of its rows deleted, side by side with plain Parquet and with delta-spark.

Three engines run in three processes on the same Spark and the same settings, and every scan ends in a noop sink.
`parquet` reads a copy that holds exactly the live rows, so that the same rows come out: that is the ratio the goals
use. `data files` reads the table's own files with nothing hidden and no ids, so more rows come out: it shows what the
deleted rows cost all engines that read them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import peers
import tables
from harness import (
    DATA,
    LIMIT_S,
    NOT_SLOWER,
    OURS,
    Case,
    Engine,
    Goal,
    Report,
    Stopped,
    Took,
    arguments,
    emit,
    machine,
)

PARQUET, DATA_FILES, DELTA = "parquet", "data files", "delta-spark"
NAMED_ROWS = 20_000_000
WITHIN = 1.15  # of plain Parquet


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: rows, per cent deleted, rounds of warm-up, least and most rounds, time to begin one in."""

    rows: int
    deleted: tuple[int, ...]
    warm_up: int
    least: int
    most: int
    budget_s: float


SIZES = {
    "quick": Size(400_000, (0, 10), 0, 2, 5, 70),
    "default": Size(2_000_000, tables.DELETED, 1, 3, 9, 600),
    "full": Size(NAMED_ROWS, tables.DELETED, 1, 7, 7, 0),
}


@dataclass(frozen=True, slots=True)
class Scan:
    """One line of the report: a projection, with or without ids, of a table with deletions."""

    wide: bool
    deleted: int
    ids: bool

    @property
    def name(self) -> str:
        return f"{'wide' if self.wide else 'narrow'}, {self.deleted} % deleted{', row ids' if self.ids else ''}"

    @property
    def columns(self) -> tuple[str, ...]:
        return tables.WIDE if self.wide else tables.NARROW


def main() -> None:
    found = peers.enter()
    asked = arguments(__doc__.splitlines()[0], unit="rows the tables have").parse_args()
    size = SIZES["quick" if asked.quick else "full" if asked.full else "default"]
    rows = asked.rows or size.rows
    begun = perf_counter()
    for deleted in size.deleted:
        tables.table(DATA, rows=rows, deleted=deleted)
        tables.parquet_copy(DATA, rows=rows, deleted=deleted)
    made_s = perf_counter() - begun
    scans = [Scan(wide, deleted, ids) for wide in (False, True) for deleted in size.deleted for ids in (False, True)]
    cases = {scan: Case(scan.name) for scan in scans}
    with_peers = _Engines(found, rows)
    try:
        with_peers.check(scans)
        rounds = _rounds(with_peers, cases, size, begun + made_s)
    finally:
        with_peers.close()
    notes = [
        f"{rows} rows in {tables.FILES} files" + ("" if rows == NAMED_ROWS else f"; {NAMED_ROWS} are --full"),
        f"{rounds} interleaved rounds; warm-up before them: every case once for a check that all engines give the same "
        f"rows and ids, and {size.warm_up} rounds that do not count",
        "parquet: a copy of exactly the live rows, with the row id stored as a column where ids are asked for",
        "data files: the table's own files as plain Parquet, deleted rows and no ids",
        "delta-spark: its rows are counted by Spark, because it cannot write a table with deletion vectors to noop",
        "peak memory: process and JVM while the case ran; a JVM keeps what earlier cases made it take",
        *with_peers.notes,
        f"making tables took {made_s:.0f} s",
        machine(),
    ]
    emit(Report("scan", list(cases.values()), list(_goals(cases)), notes), as_json=asked.json)


class _Engines:
    """The three engines, and what is asked of each for a line of the report."""

    def __init__(self, found: peers.Peers, rows: int) -> None:
        self._rows = rows
        self._script = Path(__file__).with_name("scan_engines.py")
        self._arguments = {OURS: [OURS], PARQUET: [PARQUET]}
        if found.delta is not None:
            self._arguments[DELTA] = [DELTA, ",".join(map(str, found.jars))]
        self._running: dict[str, Engine] = {}
        for name in self._arguments:
            self._engine(name)  # they start side by side
        spark = self._engine(OURS).call("start")["spark"]
        versions = f"PySpark {spark} for all engines" + (f", delta-spark {found.delta}" if found.delta else "")
        self.notes = [versions, *found.notes]

    def asked(self, scan: Scan) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Name in the report, engine and arguments of every measurement of a line."""
        table = tables.table(DATA, rows=self._rows, deleted=scan.deleted)
        copy = tables.parquet_copy(DATA, rows=self._rows, deleted=scan.deleted)
        columns = list(scan.columns)
        yield OURS, OURS, {"path": str(table), "columns": columns, "ids": scan.ids}
        yield PARQUET, PARQUET, {"path": str(copy), "columns": columns, "ids": scan.ids}
        if scan.deleted or scan.ids:
            files = tables.data_files(DATA, rows=self._rows)
            yield DATA_FILES, PARQUET, {"path": str(files), "columns": columns, "ids": False}
        if DELTA in self._arguments:
            yield DELTA, DELTA, {"path": str(table), "columns": columns, "ids": scan.ids}

    def check(self, scans: Sequence[Scan]) -> None:
        """All engines must give the same rows; what one gives, it has also been warmed up for."""
        for scan in scans:
            answers = {
                name: self._engine(engine).call("check", limit_s=LIMIT_S * 2, **wanted)
                for name, engine, wanted in self.asked(scan)
                if name != DATA_FILES
            }
            wrong = [name for name, answer in answers.items() if answer != answers[OURS]]
            assert not wrong, f"{scan.name}: {answers}"

    def run(self, engine: str, wanted: dict[str, Any]) -> Took:
        process = self._engine(engine)
        process.forget_peak()
        try:
            seconds = process.call("run", **wanted)["seconds"]
        except Stopped:
            del self._running[engine]
            return Took(LIMIT_S, at_least=True)
        return Took(seconds, process.peak_mb())

    def close(self) -> None:
        for engine in self._running.values():
            engine.close()

    def _engine(self, name: str) -> Engine:
        if name not in self._running:
            self._running[name] = Engine(
                [sys.executable, self._script, *self._arguments[name]], env={"PYSPARK_PYTHON": sys.executable}
            )
        return self._running[name]


def _rounds(engines: _Engines, cases: dict[Scan, Case], size: Size, begun: float) -> int:
    """Measure until the budget is spent, which engines began to use before; gives how many rounds that were."""
    number = 1 - size.warm_up
    while True:
        started = perf_counter()
        for scan in cases if number % 2 else reversed(cases):
            wanted = list(engines.asked(scan))
            for name, engine, arguments_ in wanted if number % 2 else wanted[::-1]:
                took = engines.run(engine, arguments_)
                if number > 0:
                    cases[scan].add(name, took)
        now = perf_counter()
        fits = now - begun + (now - started) < size.budget_s
        if number >= size.most or (number >= size.least and not fits):
            return number
        number += 1


def _goals(cases: dict[Scan, Case]) -> Iterator[Goal]:
    wide = [scan for scan in cases if scan.wide]
    asked = {scan.deleted for scan in cases}
    left_out = "" if asked == set(tables.DELETED) else f"only {' and '.join(f'{d} %' for d in sorted(asked))} measured"
    goal = "wide within 1.15x of plain Parquet up to 30 % deleted"
    yield _worst(cases, wide, PARQUET, 1 / WITHIN, goal, left_out)
    yield _worst(cases, [s for s in wide if not s.ids], PARQUET, 1 / WITHIN, f"{goal}, without row ids", left_out)
    yield _worst(cases, [s for s in wide if s.ids], PARQUET, 1 / WITHIN, f"{goal}, with row ids", left_out)
    yield _worst(cases, list(cases), DELTA, NOT_SLOWER, "never slower than delta-spark", left_out)


def _worst(cases: dict[Scan, Case], scans: Sequence[Scan], peer: str, at_least: float, goal: str, note: str) -> Goal:
    """A goal that must hold on every line; the figure is the worst ratio."""
    ratios = [(ratio, scan.name) for scan in scans if (ratio := cases[scan].ratio(peer)) is not None]
    if len(ratios) < len(scans):
        return Goal(goal, False, None, f"{peer} is missing")
    figure, name = min(ratios)
    said = f"the worst line is: {name}; at least {at_least:.2f} is asked{note and f'; {note}'}"
    return Goal(goal, figure >= at_least, figure, said)


if __name__ == "__main__":
    main()
