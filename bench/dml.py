"""Delete, update and merge, side by side with delta-spark and deltalake.

Every change is made to a fresh copy of the same table, and after it all tables must hold the same rows. Holdfast and
delta-spark with deletion vectors change a table with deletion vectors and row tracking; delta-spark without them and
deltalake, which knows neither, change a plain one with the same data files.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any

import delta_files
import dml_tables
import peers
from engine import HEAP
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

VECTORS, NO_VECTORS, DELTALAKE = "delta-spark, DVs", "delta-spark, no DVs", "deltalake"
NAMED_ROWS, MEMORY_ROWS = 20_000_000, 100_000_000
LARGE_SOURCE = 1_000_000
FASTER = 2.0
GROWS_LESS_THAN = 2.0
WORKER_MB = 512

COPIES = DATA / "dml"

_OURS_LIMIT_S = 3_600  # long enough to say what a line takes, whatever it takes
_LOOK_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: rows, rows of the tables that grow, whether with delta-spark without vectors and a
    comparison of all values, rounds of warm-up, least and most rounds, time to begin one in.
    """

    rows: int
    growing: tuple[int, ...]
    thorough: bool
    warm_up: int
    least: int
    most: int
    budget_s: float


SIZES = {
    "quick": Size(500_000, (1_000_000, 10_000_000), False, 0, 1, 3, 60),
    "default": Size(2_000_000, (1_000_000, 10_000_000), True, 1, 3, 7, 600),
    "full": Size(NAMED_ROWS, (1_000_000, 10_000_000, 100_000_000), True, 1, 3, 3, 0),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the report: what is done to a table of so many rows, and by whom."""

    name: str
    rows: int
    call: str
    arguments: Mapping[str, Any] = field(hash=False)
    engines: tuple[str, ...] = (OURS, VECTORS, NO_VECTORS, DELTALAKE)


def main() -> None:
    found = peers.enter()
    asked = arguments(__doc__.splitlines()[0], unit="rows the table has").parse_args()
    size = SIZES["quick" if asked.quick else "full" if asked.full else "default"]
    rows = dml_tables.whole_files(asked.rows or size.rows)
    if rows > NAMED_ROWS:
        size = replace(size, warm_up=0, least=1, most=1)
    delta_files.remove_copies(COPIES)
    begun = perf_counter()
    lines, growing = list(_lines(rows)), list(_growing(size.growing))
    for change in (*lines, *growing):
        for engine in change.engines:
            _table(engine, change)
    made_s = perf_counter() - begun
    engines = _Engines(found, thorough=size.thorough)
    cases = {change: Case(change.name) for change in (*lines, *growing)}
    try:
        rounds = _rounds(engines, cases, size, perf_counter())
    finally:
        engines.close()
    goals = _goals([cases[line] for line in lines], [cases[change] for change in growing], rows, size, engines)
    notes = [*_notes(rows, size, rounds), *engines.notes, f"making tables took {made_s:.0f} s", machine()]
    emit(Report("dml", list(cases.values()), list(goals), notes), as_json=asked.json)


def _lines(rows: int) -> Iterator[Change]:
    clerks = dml_tables.CLERKS
    yield Change("delete 1 row", rows, "delete", {"where": f"id = {rows}"})
    yield Change("delete 0.1 %, scattered", rows, "delete", {"where": "clerk = 7"})
    yield Change("delete 33 %", rows, "delete", {"where": f"clerk < {clerks * 33 // 100}"})
    values = {"quantity": "quantity + 1", "status": "'changed'"}
    yield Change("update 8 %", rows, "update", {"where": f"clerk >= {clerks * 92 // 100}", "values": values})
    large = min(LARGE_SOURCE, rows // 20)
    merges = (
        ("merge 1 %", rows // 100, "t.id = s.id"),
        ("merge 5 %", rows // 20, "t.id = s.id"),
        (f"merge {large:,} rows, composite key", large, "t.store = s.store AND t.receipt = s.receipt"),
    )
    for seed, (name, count, on) in enumerate(merges):
        source = dml_tables.scattered(DATA, rows=rows, count=count, seed=seed)
        yield Change(name, rows, "merge", {"source": str(source), "on": on})


def _growing(sizes: Sequence[int]) -> Iterator[Change]:
    source = dml_tables.clustered(DATA)
    for rows in sizes:
        name = f"merge {dml_tables.CLUSTERED_ROWS:,} rows, clustered keys, into {rows // 1_000_000}M"
        yield Change(name, rows, "merge", {"source": str(source), "on": "t.id = s.id"}, (OURS, VECTORS))


def _table(engine: str, change: Change) -> Path:
    return dml_tables.table(DATA, rows=change.rows, tracked=engine in (OURS, VECTORS))


class _Watch:
    """Peak memory of an engine and of its largest Python worker, until it is closed. Workers come and go, so it looks
    now and then and not only at the end.
    """

    def __init__(self, process: Engine) -> None:
        self.total_mb = self.worker_mb = 0.0
        self._process = process
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._look)
        process.forget_peak()
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _look(self) -> None:
        last = False
        while not last:
            last = self._closed.wait(_LOOK_EVERY_S)
            self.total_mb = max(self.total_mb, self._process.peak_mb() or 0)
            self.worker_mb = max(self.worker_mb, self._process.worker_peak_mb() or 0)


class _Engines:
    """Those that can be had, what they have not finished, and the largest Python worker of ours."""

    def __init__(self, found: peers.Peers, *, thorough: bool) -> None:
        self._script = Path(__file__).with_name("dml_engines.py")
        self._arguments = {OURS: [OURS]}
        self._running: dict[str, Engine] = {}
        self._stopped: dict[tuple[str, str], Took] = {}  # a peer that was, is not asked again
        self.unfinished: set[tuple[str, str]] = set()
        self.worker_mb = 0.0
        self._said = list(found.notes)
        if found.delta is not None:
            delta = ["delta-spark", ",".join(map(str, found.jars))]
            self._arguments |= {VECTORS: delta, NO_VECTORS: delta} if thorough else {VECTORS: delta}
            self._said.append(f"delta-spark {found.delta}")
        try:
            self._said.append(f"deltalake {version(DELTALAKE)}")
            self._arguments[DELTALAKE] = [DELTALAKE]
        except PackageNotFoundError:
            self._said.append("deltalake is missing")
        self._reader = self._start(VECTORS if VECTORS in self._arguments else OURS) if thorough else None
        for name in self._arguments:
            self._engine(name)  # they start side by side
        self._said.append(f"PySpark {self._engine(OURS).call('version')} for all engines on Spark")

    @property
    def notes(self) -> list[str]:
        return [*self._said, *(f"{engine} did not finish: {name}" for engine, name in sorted(self.unfinished))]

    def run(self, change: Change, *, backwards: bool) -> Iterator[tuple[str, Took]]:
        """What a change took on each engine that can do it. All tables must hold the same rows afterwards: their number
        is compared each time, and all their values while there is a reader.
        """
        answers: dict[str, list[str]] = {}
        able = [e for e in change.engines if e in self._arguments and (e, change.name) not in self.unfinished]
        for engine in reversed(able) if backwards else able:
            if stopped := self._stopped.get((engine, change.name)):
                yield engine, stopped
                continue
            with delta_files.fresh_copy(COPIES, _table(engine, change)) as place:
                took = self._change(engine, change, place)
                if took is not None:
                    yield engine, took
                if took is not None and not took.at_least:
                    answers[engine] = [str(delta_files.live_rows(delta_files.live_files(place)))]
                    if self._reader is not None:
                        answers[engine] += self._reader.call("check", limit_s=_OURS_LIMIT_S, path=str(place))
        assert len({tuple(answer) for answer in answers.values()}) <= 1, f"after {change.name}: {answers}"

    def close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def close(self) -> None:
        self.close_reader()
        for engine in self._running.values():
            engine.close()

    def _change(self, engine: str, change: Change, place: Path) -> Took | None:
        """None when the engine gave up: what it said stands above the report."""
        process = self._engine(engine)
        watch = _Watch(process)
        limit_s = _OURS_LIMIT_S if engine == OURS else LIMIT_S
        try:
            answer = process.call(change.call, limit_s=limit_s, path=str(place), **change.arguments)
        except (Stopped, RuntimeError) as error:
            del self._running[engine]
            if isinstance(error, Stopped) and engine != OURS:
                stopped = Took(LIMIT_S, watch.total_mb or None, at_least=True)
                self._stopped[engine, change.name] = stopped
                return stopped
            self.unfinished.add((engine, change.name))
            return None
        finally:
            watch.close()
        if engine == OURS:
            self.worker_mb = max(self.worker_mb, watch.worker_mb)
        return Took(answer["seconds"], watch.total_mb or None)

    def _engine(self, name: str) -> Engine:
        if name not in self._running:
            self._running[name] = self._start(name)
        return self._running[name]

    def _start(self, name: str) -> Engine:
        command: list[str | Path] = [sys.executable, self._script, *self._arguments[name]]
        return Engine(command, env={"PYSPARK_PYTHON": sys.executable})


def _rounds(engines: _Engines, cases: dict[Change, Case], size: Size, begun: float) -> int:
    """Measure until the budget is spent; gives how many rounds that were. Only the first one compares values."""
    number = 1 - size.warm_up
    while True:
        started = perf_counter()
        backwards = number % 2 == 0
        for change in reversed(cases) if backwards else cases:
            for engine, took in engines.run(change, backwards=backwards):
                print(f"round {number}, {change.name}, {engine}: {took.seconds:.2f} s", file=sys.stderr, flush=True)
                if number > 0:
                    cases[change].add(engine, took)
        engines.close_reader()
        now = perf_counter()
        fits = now - begun + (now - started) < size.budget_s
        if number >= size.most or (number >= size.least and not fits):
            return number
        number += 1


def _goals(lines: Sequence[Case], growing: Sequence[Case], rows: int, size: Size, engines: _Engines) -> Iterator[Goal]:
    note = "" if rows == NAMED_ROWS else f"measured with {rows:,} rows"
    ratios = {case.name: ratio for case in lines if (ratio := case.ratio(VECTORS)) is not None}
    mean_goal = "at least 2x faster than delta-spark with deletion vectors on the geometric mean"
    line_goal = "on no line slower than delta-spark with deletion vectors"
    if len(ratios) == len(lines):
        mean = prod(ratios.values()) ** (1 / len(ratios))
        worst = min(ratios, key=lambda name: ratios[name])
        yield Goal(mean_goal, mean >= FASTER, mean, note)
        said = "; ".join(part for part in (f"the worst line is: {worst}", note) if part)
        yield Goal(line_goal, ratios[worst] >= NOT_SLOWER, ratios[worst], said)
    else:
        missing = ", ".join(case.name for case in lines if case.name not in ratios)
        yield Goal(mean_goal, False, None, f"not measured: {missing}")
        yield Goal(line_goal, False, None, f"not measured: {missing}")
    yield _within_memory(lines, rows, engines)
    smallest, largest = (case.seconds(OURS) for case in (growing[0], growing[-1]))
    grows = largest / smallest if smallest and largest else None
    largest_size = size.growing[-1]
    yield Goal(
        "the same 1,000-row merge with clustered keys grows by less than 2x with the table",
        grows is not None and grows < GROWS_LESS_THAN,
        grows,
        f"from 1M rows to {largest_size // 1_000_000}M" + ("" if largest_size == MEMORY_ROWS else "; 100M are --full"),
    )


def _within_memory(lines: Sequence[Case], rows: int, engines: _Engines) -> Goal:
    """The figure is what the largest Python worker took. Only the size that the goal names can meet it."""
    finished = all(OURS in case.took for case in lines)
    met = finished and engines.worker_mb <= WORKER_MB and rows >= MEMORY_ROWS
    note = f"MB of the largest Python worker; {'every line finished' if finished else 'not every line finished'}"
    if rows < MEMORY_ROWS:
        note += f" with {rows:,} rows, and --rows 100M is asked"
    return Goal("every line finishes with a 2 GB heap and 512 MB per Python worker", met, engines.worker_mb, note)


def _notes(rows: int, size: Size, rounds: int) -> list[str]:
    large = min(LARGE_SOURCE, rows // 20)
    scaled = "" if large == LARGE_SOURCE else f"; the source of 1,000,000 rows is {large:,} here"
    warm_up = f"after {size.warm_up} of warm-up" if size.warm_up else "without warm-up, so the first lines bear it"
    return [
        f"{rows:,} rows in files of {dml_tables.FILE_ROWS:,}"
        + ("" if rows == NAMED_ROWS else f"; {NAMED_ROWS:,} are --full{scaled}"),
        f"{rounds} interleaved rounds {warm_up}; the number of rows was compared after every change, "
        + ("and in the first round all values" if size.thorough else "values only without --quick"),
        "merge: half of the source's rows update, half are inserted; keys from all over the table unless clustered",
        f"engines on Spark have a heap of {HEAP}, and deltalake spills a merge above as much",
        *([] if size.thorough else [f"{NO_VECTORS}: left out by --quick"]),
        "peak memory: driver, JVM and Python workers, each at its own peak, added up; a JVM keeps what earlier changes "
        "made it take",
    ]


if __name__ == "__main__":
    main()
