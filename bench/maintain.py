"""Compaction, purge and clustering, side by side with delta-spark and deltalake.

Everything is done to fresh copies of the same tables, and afterwards all must hold the same rows. Holdfast and
delta-spark maintain tables with deletion vectors, row tracking and clustering; deltalake, which knows none of them,
plain ones with the same data files, and it puts rows in order by Z-order.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter

import delta_files
import maintain_tables
import peers
from engine import HEAP
from harness import (
    DATA,
    LIMIT_S,
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
    not_slower,
)
from maintain_tables import CLUSTERED_BY, FILES_AFTER, Kind

DELTA, DELTALAKE = "delta-spark", "deltalake"
NAMED_ROWS = 20_000_000
APPENDED_SHARE = 0.025
HIDDEN = "id % 10 < 3"
AMPLIFICATION = 3.0
AS_GOOD = 1.05  # of the peer's share of rows read: two samples of queries differ by that much

COPIES = DATA / "maintain"

_OURS_LIMIT_S = 3_600  # long enough to say what a line takes, whatever it takes


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: rows, small appends, rows of each, rounds of warm-up, rounds."""

    rows: int
    appends: int
    append_rows: int
    warm_up: int
    rounds: int


SIZES = {
    "quick": Size(500_000, 100, 500, 0, 1),
    "default": Size(2_000_000, 1_000, 1_000, 1, 3),
    "full": Size(NAMED_ROWS, 1_000, 10_000, 1, 3),
}


@dataclass
class Figures:
    """What logs say after the work of an engine."""

    shares: dict[str, tuple[float, float]] = field(default_factory=dict)  # by column: for a value, and for 1 % of them
    later: dict[str, tuple[float, float]] = field(default_factory=dict)  # once more was appended and clustered
    files: int = 0
    rewritten: float | None = None  # bytes, for each byte appended


def main() -> None:
    found = peers.enter()
    asked = arguments(__doc__.splitlines()[0], unit="rows the table has").parse_args()
    size = SIZES["quick" if asked.quick else "full" if asked.full else "default"]
    rows = asked.rows or size.rows
    delta_files.remove_copies(COPIES)
    begun = perf_counter()
    bench = _Bench(rows, size)
    made_s = perf_counter() - begun
    engines = _Engines(found)
    names = [bench.compaction, bench.purging, bench.clustering, bench.reclustering]
    cases = {name: Case(name) for name in names}
    figures: dict[str, Figures] = {}
    try:
        for number in range(1 - size.warm_up, size.rounds + 1):
            for engine in engines.names if number % 2 else reversed(engines.names):
                for name, took in bench.run(engines, engine, figures):
                    print(f"round {number}, {name}, {engine}: {took.seconds:.2f} s", file=sys.stderr, flush=True)
                    if number > 0:
                        cases[name].add(engine, took)
    finally:
        engines.close()
    notes = [
        f"{rows:,} rows in files of {bench.wide.file_rows:,}; {size.appends:,} appends of {size.append_rows:,} rows"
        + ("" if rows == NAMED_ROWS else f"; {NAMED_ROWS:,} are --full"),
        *_shown(figures),
        f"{size.rounds} rounds after {size.warm_up} of warm-up; the number of rows was compared after every line",
        f"engines on Spark have a heap of {HEAP}",
        *engines.notes,
        f"making tables took {made_s:.0f} s",
        machine(),
    ]
    emit(Report("maintain", list(cases.values()), list(_goals(cases, figures, rows)), notes), as_json=asked.json)


class _Bench:
    """The lines, and the tables they need."""

    def __init__(self, rows: int, size: Size) -> None:
        self.compaction = f"compact {size.appends:,} small appends"
        self.purging = "purge after 30 % deletes"
        self.clustering = f"cluster {rows:,} rows by {len(CLUSTERED_BY)} columns"
        self.reclustering = "cluster again after a 2.5 % append"
        file_rows = min(maintain_tables.FILE_ROWS, rows // 8)
        self.small = Kind("small", size.append_rows, size.appends, appended=True)
        self.wide = Kind("wide", file_rows, rows // file_rows)
        self.more = maintain_tables.more_rows(DATA, int(self.wide.rows * APPENDED_SHARE)) / "rows.parquet"
        for tracked in (True, False):
            for kind in (self.small, self.wide):
                self._table(kind, tracked=tracked, clustered=tracked and kind is self.wide)
        self._table(self.wide, tracked=True, clustered=False)

    def run(self, engines: _Engines, engine: str, figures: dict[str, Figures]) -> Iterator[tuple[str, Took]]:
        """All lines on an engine, one after the other."""
        tracked = engine != DELTALAKE
        with delta_files.fresh_copy(
            DATA / "maintain", self._table(self.small, tracked=tracked, clustered=False)
        ) as place:
            if took := engines.call(engine, self.compaction, "compact", path=str(place)):
                self._same(place, self.small.rows)
                yield self.compaction, took
        if tracked:
            with delta_files.fresh_copy(
                DATA / "maintain", self._table(self.wide, tracked=True, clustered=False)
            ) as place:
                engines.call(engine, self.purging, "delete", path=str(place), where=HIDDEN)
                if took := engines.call(engine, self.purging, "purge", path=str(place)):
                    self._same(place, self.wide.rows - 3 * (self.wide.rows // 10))
                    assert not any("deletionVector" in f for f in delta_files.live_files(place)), "all are gone"
                    yield self.purging, took
        original = self._table(self.wide, tracked=tracked, clustered=tracked)
        with delta_files.fresh_copy(COPIES, original) as place:
            yield from self._cluster(engines, engine, place, figures)

    def _cluster(
        self, engines: _Engines, engine: str, place: Path, figures: dict[str, Figures]
    ) -> Iterator[tuple[str, Took]]:
        target = maintain_tables.target_bytes(place)
        if not (took := engines.call(engine, self.clustering, "cluster", path=str(place), target=target)):
            return
        self._same(place, self.wide.rows)
        yield self.clustering, took
        files = delta_files.live_files(place)
        found = figures[engine] = Figures(maintain_tables.shares_read(files), files=len(files))
        before = maintain_tables.newest(place)
        engines.call(engine, self.reclustering, "append", path=str(place), source=str(self.more))
        appended = maintain_tables.newest(place)
        if took := engines.call(engine, self.reclustering, "cluster", path=str(place), target=target):
            self._same(place, self.wide.rows + int(self.wide.rows * APPENDED_SHARE))
            yield self.reclustering, took
            added = maintain_tables.written_bytes(place, before) - maintain_tables.written_bytes(place, appended)
            found.rewritten = maintain_tables.written_bytes(place, appended) / added
            found.later = maintain_tables.shares_read(delta_files.live_files(place))

    def _same(self, place: Path, rows: int) -> None:
        found = delta_files.live_rows(delta_files.live_files(place))
        assert found == rows, f"{place} has {found} rows and not {rows}"

    def _table(self, kind: Kind, *, tracked: bool, clustered: bool) -> Path:
        made = Kind(kind.name, kind.file_rows, kind.files, tracked, clustered, kind.appended)
        return maintain_tables.table(DATA, made)


class _Engines:
    """Those that can be had, and what they have not finished."""

    def __init__(self, found: peers.Peers) -> None:
        self._script = Path(__file__).with_name("maintain_engines.py")
        self._arguments = {OURS: [OURS]}
        self._running: dict[str, Engine] = {}
        self._unfinished: set[tuple[str, str]] = set()
        self._said = list(found.notes)
        if found.delta is not None:
            self._arguments[DELTA] = [DELTA, ",".join(map(str, found.jars))]
            self._said.append(f"delta-spark {found.delta}")
        try:
            self._said.append(f"deltalake {version(DELTALAKE)}")
            self._arguments[DELTALAKE] = [DELTALAKE]
        except PackageNotFoundError:
            self._said.append("deltalake is missing")
        self._said.append(f"PySpark {self._engine(OURS).call('version')} for all engines on Spark")

    @property
    def names(self) -> list[str]:
        return list(self._arguments)

    @property
    def notes(self) -> list[str]:
        return [*self._said, *(f"{engine} did not finish: {line}" for engine, line in sorted(self._unfinished))]

    def call(self, engine: str, line: str, name: str, **arguments: object) -> Took | None:
        """What a call took; None where the engine gave up on the line, now or before."""
        if (engine, line) in self._unfinished:
            return None
        process = self._engine(engine)
        process.forget_peak()
        try:
            answer = process.call(name, limit_s=_OURS_LIMIT_S if engine == OURS else LIMIT_S, **arguments)
        except (Stopped, RuntimeError):
            del self._running[engine]
            self._unfinished.add((engine, line))
            return None
        return Took(answer["seconds"], process.peak_mb())

    def close(self) -> None:
        for engine in self._running.values():
            engine.close()

    def _engine(self, name: str) -> Engine:
        if name not in self._running:
            command: list[str | Path] = [sys.executable, self._script, *self._arguments[name]]
            self._running[name] = Engine(command, env={"PYSPARK_PYTHON": sys.executable})
        return self._running[name]


def _shown(figures: Mapping[str, Figures]) -> Iterator[str]:
    for engine, found in figures.items():
        asked = "rows a query reads for one value, and for 1 % of them"
        yield f"{engine}, {found.files} files; {asked}: {_listed(found.shares)}"
        if found.rewritten is not None:
            yield f"{engine}, after the append: {_listed(found.later)}"
            yield f"{engine}: {found.rewritten:.2f} bytes rewritten for each byte appended"
    yield f"files were asked to be of a size that makes {FILES_AFTER}"


def _listed(shares: Mapping[str, tuple[float, float]]) -> str:
    return ", ".join(f"{column} {point:.1%} and {wide:.1%}" for column, (point, wide) in shares.items())


def _goals(cases: Mapping[str, Case], figures: Mapping[str, Figures], rows: int) -> Iterator[Goal]:
    note = "" if rows == NAMED_ROWS else f"measured with {rows:,} rows"
    for name, case in cases.items():
        yield not_slower(case if OURS in case.took else None, DELTA, f"not slower than delta-spark: {name}", note)
    ours, theirs = figures.get(OURS, Figures()), figures.get(DELTA, Figures())
    goal = "queries on each clustering column read no larger share of the rows than with delta-spark"
    worst = list(_compared(ours.shares, theirs.shares))
    yield Goal(goal, bool(worst) and max(worst) <= AS_GOOD, max(worst, default=None), "ours over theirs, at worst")
    yield Goal(
        "write amplification of clustering again is at most 3",
        ours.rewritten is not None and ours.rewritten <= AMPLIFICATION,
        ours.rewritten,
        note,
    )


def _compared(ours: Mapping[str, Sequence[float]], theirs: Mapping[str, Sequence[float]]) -> Iterator[float]:
    for column in ours.keys() & theirs.keys():
        yield from (a / b for a, b in zip(ours[column], theirs[column], strict=True))


if __name__ == "__main__":
    main()
