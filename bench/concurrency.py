"""Many writers at once on rows of the same files while the table is compacted, beside delta-spark and deltalake.

On Spark, Holdfast and delta-spark change copies of the same table, with deletion vectors and row tracking; without
Spark, Holdfast and deltalake, which has neither, change tables with the same rows. A line is the time per update that
landed; what was refused, and the bytes of data files that no version ever had, stand in the notes. Afterwards each
table must hold exactly the updates that landed.

Then processes crowd a table, of either format and without Spark: one updates row after row beside others that append
as fast as they can, and many update rows of their own. The goals: the one gets through, and each of the many does.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import peers
import pyarrow as pa
from concurrency_crowd import FORMATS, Beside, Updaters, beside, updaters
from harness import DATA, LIMIT_S, OURS, Case, Engine, Goal, Report, Took, arguments, emit, machine

from holdfast import DeltaTable

LOCAL, DELTA, DELTALAKE = "ours, no Spark", "delta-spark", "deltalake"
FILES = 4
APPENDERS, UPDATERS, WITHIN_S = 8, 16, 2.0

_SMALL = 4_000  # rows of the table that engines warm up on


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: rows of a table, writers, seconds of each engine in a round, rounds; updates beside
    appenders, and seconds of many updaters."""

    rows: int
    writers: int
    seconds: float
    rounds: int
    updates: int
    crowd_s: float


SIZES = {
    "quick": Size(40_000, 4, 8, 1, 20, 8),
    "default": Size(400_000, 8, 20, 3, 100, 20),
    "full": Size(4_000_000, 16, 60, 3, 300, 60),
}


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a run of an engine."""

    took: float
    updates: int
    refused: int
    compactions: int
    wasted: int


@dataclass
class Line:
    """Engines that are compared, and who is ours among them."""

    name: str
    overlaps: bool
    engines: tuple[str, ...]
    told: dict[str, list[Told]] = field(default_factory=dict)

    def case(self) -> Case:
        case = Case(self.name)
        for engine, runs in self.told.items():
            for run in runs:
                case.add(OURS if engine == self.engines[0] else engine, _per_update(run))
        return case

    def total(self, engine: str) -> Told | None:
        runs = self.told.get(engine)
        if not runs:
            return None
        return Told(
            *(
                sum(getattr(run, name) for run in runs)
                for name in ("took", "updates", "refused", "compactions", "wasted")
            )
        )


def main() -> None:
    found = peers.enter()
    asked = arguments(__doc__.splitlines()[0], unit="rows").parse_args()
    size = SIZES["quick" if asked.quick else "full" if asked.full else "default"]
    rows = asked.rows or size.rows
    notes = list(found.notes)
    scripts: dict[str, list[str | Path]] = {OURS: [OURS], LOCAL: [LOCAL]}
    if found.delta is not None:
        scripts[DELTA] = [DELTA, ",".join(map(str, found.jars))]
    try:
        notes.append(f"deltalake {version(DELTALAKE)}, delta-spark {found.delta or 'is missing'}")
        scripts[DELTALAKE] = [DELTALAKE]
    except PackageNotFoundError:
        notes.append("deltalake is missing")
    lines = [
        Line("an update, each writer its own rows, on Spark", False, (OURS, DELTA)),
        Line("an update, each writer its own rows, without Spark", False, (LOCAL, DELTALAKE)),
        Line("an update, all writers the same 8 rows, without Spark", True, (LOCAL, DELTALAKE)),
    ]
    place = DATA / "concurrency-run"
    try:
        for turn in range(size.rounds):
            _round(lines if turn % 2 == 0 else lines[::-1], scripts, place, rows, size)
        alone = [beside(format_, place, appenders=APPENDERS, tries=size.updates) for format_ in FORMATS]
        crowds = [updaters(format_, place, writers=UPDATERS, seconds=size.crowd_s) for format_ in FORMATS]
    finally:
        for each in (place, place.with_name(f"{place.name}-warm-up")):
            shutil.rmtree(each, ignore_errors=True)
    notes += [
        f"{size.writers} writers and a compaction at once, {size.seconds:g} s in each of {size.rounds} rounds, tables "
        f"of {rows:,} rows in {FILES} files; nobody asks for a retry",
        *_told(lines),
        *(one.note() for one in (*alone, *crowds)),
        machine(),
    ]
    goals = [*_goals(lines), *_crowd_goals(alone, crowds)]
    emit(Report("concurrency", [line.case() for line in lines], goals, notes), as_json=asked.json)


def _round(lines: list[Line], scripts: dict[str, list[str | Path]], place: Path, rows: int, size: Size) -> None:
    """Each engine of each line, in a process that lives as long."""
    for line in lines:
        for name in line.engines:
            if name not in scripts:
                continue
            shutil.rmtree(place, ignore_errors=True)
            _create(place, rows, plain=name == DELTALAKE)
            engine = Engine([sys.executable, Path(__file__).with_name("concurrency_engines.py"), *scripts[name]])
            try:
                given: dict[str, Any] = {"writers": size.writers, "overlaps": line.overlaps}
                small = _warm_up(place, plain=name == DELTALAKE)
                engine.call("run", path=str(small), rows=_SMALL, seconds=1.0, **given)
                limit = LIMIT_S + size.seconds
                answer = engine.call("run", limit_s=limit, path=str(place), rows=rows, seconds=size.seconds, **given)
            finally:
                engine.close()
            line.told.setdefault(name, []).append(_audited(place, rows, answer))


def _warm_up(place: Path, *, plain: bool) -> Path:
    beside = place.with_name(f"{place.name}-warm-up")
    shutil.rmtree(beside, ignore_errors=True)
    _create(beside, _SMALL, plain=plain)
    return beside


def _create(path: Path, rows: int, *, plain: bool) -> None:
    builder = DeltaTable.create().location(path).addColumn("k", "bigint").addColumn("v", "bigint")
    table = (builder.property("holdfast.plain", "true") if plain else builder).execute()
    for n in range(FILES):
        keys = pa.array(range(n * rows // FILES, (n + 1) * rows // FILES), pa.int64())
        table.append(pa.table({"k": keys, "v": pa.array([0] * len(keys), pa.int64())}))


def _audited(path: Path, rows: int, answer: dict[str, Any]) -> Told:
    """What an engine told, held against the table: no update is lost, none is there twice."""
    values = DeltaTable.forPath(None, path).toArrow(columns=["v"])["v"].to_pylist()
    landed = int(answer.get("updates", 0))
    assert (len(values), sum(values)) == (rows, landed), f"{len(values)} rows and {sum(values)} updates, not {landed}"
    return Told(
        float(answer["took"]),
        landed,
        int(answer.get("updates refused", 0)),
        int(answer.get("compactions", 0)),
        _wasted(path),
    )


def _wasted(path: Path) -> int:
    """Bytes of data files that no version has."""
    known = set()
    for commit in (path / "_delta_log").glob("*.json"):
        for line in commit.read_text().splitlines():
            if (add := json.loads(line).get("add")) is not None:
                known.add(unquote(add["path"]))
    return sum(file.stat().st_size for file in path.glob("*.parquet") if file.name not in known)


def _per_update(run: Told) -> Took:
    return Took(run.took / max(run.updates, 1), at_least=not run.updates)


def _told(lines: list[Line]) -> Iterator[str]:
    for line in lines:
        for name in line.engines:
            if (told := line.total(name)) is not None:
                yield (
                    f"{line.name}, {name}: {told.updates / told.took:.1f} updates/s, {told.updates} landed, "
                    f"{told.refused} refused, {told.compactions} compactions, {told.wasted:,} bytes wasted"
                )


def _goals(lines: list[Line]) -> Iterator[Goal]:
    for line in lines:
        if not line.overlaps:
            told = line.total(line.engines[0])
            goal = f"no update is refused: {line.name}"
            yield Goal(goal, told is not None and not told.refused, None if told is None else float(told.refused))
        yield Goal(
            f"more updates land than with {line.engines[1]}: {line.name}",
            (figure := line.case().ratio(line.engines[1])) is not None and figure > 1,
            figure,
        )


def _crowd_goals(alone: list[Beside], crowds: list[Updaters]) -> Iterator[Goal]:
    for one in alone:
        goal = f"an update of one row beside {one.appenders} appenders lands within {WITHIN_S:g} s in 99 of 100 tries"
        yield Goal(f"{goal}, {one.format}", one.slow <= WITHIN_S, one.slow)
    for many in crowds:
        goal = f"of {len(many.landed)} updaters of rows of their own each lands commits, and none is refused"
        yield Goal(f"{goal}, {many.format}", min(many.landed) > 0 and not many.refused, float(min(many.landed)))


if __name__ == "__main__":
    main()
