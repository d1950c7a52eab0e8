"""Append rows to a table with Spark, side by side with delta-spark and deltalake.

Every engine reads the same plain Parquet files and appends them to an empty table of its own: numbers, strings, nested
values, and rows of a thousand partitions in no order. Each is measured twice: with the same codec for all, which is
what the goal compares, and with the defaults of each. Then the same append runs on ten times the rows in a small heap
and with a limit on Python's memory.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import peers
import rows as made
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

DELTA, DELTALAKE = "delta-spark", "deltalake"
NAMED_ROWS = 20_000_000
LARGER = 10
HEAP, WORKER_MEMORY = "1g", "1g"

_PLACE = DATA / "write-run"
_USUAL = {"spark.driver.memory": "3g"}
_SMALL = {"spark.driver.memory": HEAP, "spark.executor.pyspark.memory": WORKER_MEMORY}
_MEMORY_KIND = "strings"
_FLAT = ("numbers", "strings", "nested")


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: which lines, rows, the larger rows of the memory case, rounds of warm-up, least and most
    rounds, and time for them.
    """

    kinds: tuple[str, ...]
    defaults: bool
    rows: int
    larger_rows: int
    warm_up: int
    least: int
    most: int
    budget_s: float


SIZES = {
    "quick": Size((*_FLAT, "100 partitions"), False, 200_000, 1_000_000, 0, 1, 5, 50),
    "default": Size((*_FLAT, "1,000 partitions"), True, 2_000_000, 20_000_000, 0, 2, 7, 480),
    "full": Size((*_FLAT, "1,000 partitions"), True, NAMED_ROWS, 40_000_000, 1, 3, 3, 0),
}


@dataclass(frozen=True, slots=True)
class Append:
    """One line of the report."""

    kind: str
    zstd: bool

    @property
    def name(self) -> str:
        return f"{self.kind}, {'zstd' if self.zstd else 'defaults'}"

    @property
    def partitions(self) -> list[str]:
        return [made.PARTITION] if self.kind not in _FLAT else []


def main() -> None:
    found = peers.enter()
    asked = arguments(__doc__.splitlines()[0], unit="rows that are appended").parse_args()
    size = SIZES["quick" if asked.quick else "full" if asked.full else "default"]
    rows = asked.rows or size.rows
    larger = max(LARGER, rows * LARGER if asked.rows else size.larger_rows)
    begun = perf_counter()
    for kind in size.kinds:
        made.source(DATA, kind, rows=rows)
    for count in (larger // LARGER, larger):
        made.source(DATA, _MEMORY_KIND, rows=count)
    made_s = perf_counter() - begun
    appends = [Append(kind, zstd) for kind in size.kinds for zstd in ((True, False) if size.defaults else (True,))]
    cases = {append: Case(append.name) for append in appends}
    engines = _Engines(found, rows)
    try:
        engines.check(cases)
        rounds = _rounds(engines, cases, size, begun + made_s)
    finally:
        engines.close()
    bounded, memory_goal = _bounded(larger)
    notes = [
        f"{rows} rows in {made.FILES} files" + ("" if rows == NAMED_ROWS else f"; {NAMED_ROWS} are --full"),
        f"{rounds} interleaved rounds; warm-up before them: every kind once, for a check that all engines wrote the "
        f"same rows, and {size.warm_up} rounds that do not count",
        "timed: read the Parquet files and append them to an empty table; ours has row tracking and deletion vectors "
        "on, as it has by default, and forces files to disk",
        f"zstd: the same codec and level for all; defaults: ours {_codec(True)}, the others {_codec(False)}",
        "peak memory: process, JVM and Python workers while the case ran; a JVM keeps what earlier cases made it take",
        *engines.notes,
        f"making rows took {made_s:.0f} s",
        machine(),
    ]
    report = Report("write", [*cases.values(), *bounded], [*_goals(cases, rows), memory_goal], notes)
    emit(report, as_json=asked.json)


class _Engines:
    """The engines, and what is asked of each for a line of the report."""

    def __init__(self, found: peers.Peers, rows: int) -> None:
        self._rows = rows
        self._arguments = {OURS: [OURS, json.dumps(_USUAL)], DELTALAKE: [DELTALAKE]}
        if found.delta is not None:
            jars = {"spark.jars": ",".join(map(str, found.jars))}
            self._arguments[DELTA] = [DELTA, json.dumps(_USUAL | jars)]
        self._running: dict[str, Engine] = {}
        self._wrote: dict[tuple[str, str], dict[str, float]] = {}
        for name in self._arguments:
            self._engine(name)  # they start side by side
        versions = f"PySpark {peers.PYSPARK} for all engines, delta-spark {found.delta}" if found.delta else "no peers"
        self.notes = [versions, *found.notes]

    @property
    def names(self) -> list[str]:
        return list(self._arguments)

    def check(self, appends: dict[Append, Case]) -> None:
        """All engines must write the same rows; what one writes, it has also been warmed up for."""
        for append in (a for a in appends if a.zstd):
            answers = {}
            for name in self.names:
                wanted = self._asked(name, append)
                wrote = self._engine(name).call("run", limit_s=LIMIT_S * 2, **wanted)
                self.notes.append(f"{append.name}: {name} wrote {wrote['files']} files, {wrote['mb']:.0f} MB")
                told = {key: wanted[key] for key in ("source", "path")}
                answers[name] = self._engine(OURS).call("check", limit_s=LIMIT_S * 2, **told)
            wrong = [name for name, answer in answers.items() if answer != answers[OURS]]
            assert not wrong, f"{append.name}: {answers}"

    def run(self, name: str, append: Append) -> Took:
        process = self._engine(name)
        process.forget_peak()
        try:
            seconds = process.call("run", **self._asked(name, append))["seconds"]
        except Stopped:
            del self._running[name]
            return Took(LIMIT_S, at_least=True)
        return Took(seconds, process.peak_mb())

    def close(self) -> None:
        for engine in self._running.values():
            engine.close()
        shutil.rmtree(_PLACE, ignore_errors=True)

    def _asked(self, name: str, append: Append) -> dict[str, Any]:
        return {
            "source": str(made.source(DATA, append.kind, rows=self._rows)),
            "path": str(_PLACE / name),
            "partitions": append.partitions,
            "zstd": append.zstd,
        }

    def _engine(self, name: str) -> Engine:
        if name not in self._running:
            self._running[name] = _start(self._arguments[name])
        return self._running[name]


def _start(arguments_: list[str]) -> Engine:
    script = Path(__file__).with_name("write_engines.py")
    return Engine([sys.executable, script, *arguments_], env={"PYSPARK_PYTHON": sys.executable})


def _rounds(engines: _Engines, cases: dict[Append, Case], size: Size, begun: float) -> int:
    """Measure until the budget is spent, which engines began to use before; gives how many rounds that were."""
    number = 1 - size.warm_up
    while True:
        started = perf_counter()
        for append in cases if number % 2 else reversed(cases):
            for name in engines.names if number % 2 else engines.names[::-1]:
                took = engines.run(name, append)
                if number > 0:
                    cases[append].add(name, took)
        now = perf_counter()
        fits = now - begun + (now - started) < size.budget_s
        if number >= size.most or (number >= size.least and not fits):
            return number
        number += 1


def _bounded(larger: int) -> tuple[list[Case], Goal]:
    """Append so many rows, and a tenth of them before, in a small heap and with limited workers."""
    limits = f"{HEAP} of heap and {WORKER_MEMORY} for Python"
    goal = f"the append succeeds on {LARGER} times the rows in the same {limits}"
    cases = []
    engine = _start([OURS, json.dumps(_SMALL)])
    try:
        for rows in (larger // LARGER, larger):
            case = Case(f"{_MEMORY_KIND}, {rows:,} rows in {limits}")
            engine.forget_peak()
            source = made.source(DATA, _MEMORY_KIND, rows=rows)
            took = engine.call("run", source=str(source), path=str(_PLACE / "small"), partitions=[], zstd=True)
            case.add(OURS, Took(took["seconds"], engine.peak_mb()))
            cases.append(case)
    except (RuntimeError, Stopped) as error:
        return cases, Goal(goal, False, None, f"{type(error).__name__}: {error}")
    finally:
        engine.close()
        shutil.rmtree(_PLACE, ignore_errors=True)
    peaks = [case.peak_mb(OURS) or 0.0 for case in cases]
    said = f"peak memory of all processes {peaks[0]:.0f} MB, then {peaks[1]:.0f} MB; the figure is their ratio"
    return cases, Goal(goal, True, peaks[1] / peaks[0] if peaks[0] else None, said)


def _goals(cases: dict[Append, Case], rows: int) -> Iterator[Goal]:
    ratios = [(ratio, a.name) for a, case in cases.items() if a.zstd and (ratio := case.ratio(DELTA)) is not None]
    goal = "append not slower than delta-spark at the same codec"
    if not ratios:
        yield Goal(goal, False, None, "delta-spark is missing")
        return
    figure, name = min(ratios)
    kinds = ", ".join(dict.fromkeys(append.kind for append in cases))
    less = "" if rows == NAMED_ROWS else f"; measured with {rows:,} rows: {kinds}"
    said = f"the worst line is: {name}; at least {NOT_SLOWER:.2f} is asked{less}"
    yield Goal(goal, figure >= NOT_SLOWER, figure, said)


def _codec(ours: bool) -> str:
    return "zstd" if ours else "snappy"


if __name__ == "__main__":
    main()
