"""Look rows up by key, by row id and by vector, on tables that are fresh and on ones with a history.

Every engine holds (id, s, vec float32[64]) in its own format, indexed by number and by vector. The history is 10,000
updates and two compactions, with a refresh of the indexes before each of these. Lance refines its vector search until
its recall is good enough. DuckDB scans the Parquet files of the fresh table.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import logs
import lookup_rows
import numpy as np
from harness import DATA, OURS, Case, Engine, Goal, Report, Took, arguments, emit, machine

ROWS = {"quick": 200_000, "default": 1_000_000, "full": 5_000_000}
ROUNDS = 7
TAKEN = 1000
ASKED = 20  # keys that are asked for one after the other; a single one is too short to be timed
UPDATED = 10_000
QUERIES = 50
RECALL = 0.95
LANCE, DUCKDB = "lance", "duckdb"
MANY_FILES = 100_000

_FRESH, _AFTER = "fresh", "after the history"
_HOME = Path(__file__).resolve().parents[1] / ".venv-lance"
_PYLANCE = "14.0.2"


def main() -> None:
    asked = arguments(__doc__.splitlines()[0], unit="rows").parse_args()
    size = "quick" if asked.quick else "full" if asked.full else "default"
    run = _Run(asked.rows or ROWS[size])
    try:
        run.all()
    finally:
        run.close()
    emit(Report("lookup", list(run.cases.values()), list(run.goals()), [*run.notes, machine()]), as_json=asked.json)


class _Run:
    """One run: engines, what they took, and what is to be said."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.cases: dict[str, Case] = {}
        self.notes = [f"{rows} rows; {TAKEN} keys or ids drawn anew in each of {ROUNDS} rounds; one process per engine"]
        self.notes.append(f"one key is the mean of {ASKED} that are asked for one after the other")
        self.recalls: dict[tuple[str, str], float] = {}
        self.index_bytes: dict[str, int] = {}
        self._place = DATA / "lookup-run"
        self._random = np.random.default_rng(5)
        self._ids = lookup_rows.keys(rows)
        shutil.rmtree(self._place, ignore_errors=True)
        self._place.mkdir(parents=True)
        script = Path(__file__).with_name("lookup_engines.py")
        self._engines = {OURS: Engine([sys.executable, script, "holdfast"])}
        trouble = _lance()
        if trouble is None:
            self._engines[LANCE] = Engine([_HOME / "bin/python", script, LANCE], {"LANCE_LOG": "error"})
        else:
            self.notes.append(f"pylance is missing: {trouble}")
        self._duckdb = Engine([sys.executable, script, DUCKDB])

    def close(self) -> None:
        for engine in (*self._engines.values(), self._duckdb):
            engine.close()
        shutil.rmtree(self._place, ignore_errors=True)

    def all(self) -> None:
        for name, engine in self._engines.items():
            built = engine.call("build", path=self._path(name), rows=self.rows, limit_s=1800)
            self._took("build the indexes", name, built["seconds"])
            self._took("open", name, engine.call("open", path=self._path(name))["seconds"])
            engine.call("ids", limit_s=600)
        self._duckdb.call("open", path=self._path(OURS))
        self._measure(_FRESH, {**self._engines, DUCKDB: self._duckdb})
        self._add()
        self._history()
        self._measure(_AFTER, self._engines)
        self._open_many()

    def goals(self) -> Iterator[Goal]:
        yield self._at_least(f"one key, {_FRESH}", DUCKDB, 80, "one key at least 80x faster than a scan")
        yield self._at_least(f"one key, {_FRESH}", LANCE, 1, "one key faster than Lance")
        for columns in ("all columns", "id and s", "vectors"):
            goal = f"take of {TAKEN} ids, {columns}, at least 1.5x faster than Lance"
            yield self._at_least(f"take {TAKEN}, {columns}, {_FRESH}", LANCE, 1.5, goal)
        for name, most in (("one key", 2.0), (f"take {TAKEN}, all columns", 2.0), ("nearest 10", 1.3)):
            fresh, after = (self.cases[f"{name}, {when}"].seconds(OURS) for when in (_FRESH, _AFTER))
            figure = after / fresh if fresh and after else None
            yield Goal(f"{name} {_AFTER} within {most}x of fresh", figure is not None and figure <= most, figure)
        for when in (_FRESH, _AFTER):
            found = self.recalls.get((OURS, when))
            yield Goal(f"recall@10 {when} at least {RECALL}", found is not None and found >= RECALL, found)
        added = self.cases["add 500 rows to the indexes"].seconds(OURS)
        yield Goal("adding 500 rows to both indexes within 0.1 s", added is not None and added <= 0.1, added)
        written = self.index_bytes.get(OURS)
        yield Goal("bytes of indexes written by compactions: none", written == 0, written)

    def _measure(self, when: str, engines: dict[str, Engine]) -> None:
        for number in range(ROUNDS + 1):
            single = self._random.choice(self._ids, ASKED, replace=False).tolist()
            many = self._random.choice(self._ids, TAKEN, replace=False).tolist()
            turn = list(engines.items())[:: 1 if number % 2 else -1]
            self._round(f"one key, {when}", turn, number, "key", values=single)
            self._round(f"{TAKEN} keys, {when}", turn, number, "keys", values=many)
            for said, columns in (("all columns", "all"), ("id and s", "narrow"), ("vectors", "vectors")):
                without = [(name, engine) for name, engine in turn if name != DUCKDB]
                self._round(f"take {TAKEN}, {said}, {when}", without, number, "take", values=many, columns=columns)
        self._near(when)

    def _round(self, case: str, engines: list[tuple[str, Engine]], number: int, call: str, **arguments: Any) -> None:
        checks = set()
        for name, engine in engines:
            answer = engine.call(call, **arguments)
            checks.add(answer["check"])
            if number:  # the first round warms up
                self._took(case, name, answer["seconds"])
        assert len(checks) == 1, f"{case}: engines found different rows"

    def _near(self, when: str) -> None:
        """The nearest of queries, each engine at a recall that is good enough, if it has one."""
        queries = lookup_rows.vectors(QUERIES, seed=10**6)
        exact = self._nearest(queries)
        for name, engine in self._engines.items():
            while True:
                answers = [engine.call("near", query=query) for query in queries.tolist()]
                shares = [len(set(a["check"]) & near) / 10 for a, near in zip(answers, exact, strict=True)]
                self.recalls[name, when] = float(np.mean(shares))
                if self.recalls[name, when] >= RECALL or name == OURS or not engine.call("deeper"):
                    break
            for answer in answers:
                self._took(f"nearest 10, {when}", name, answer["seconds"])
            self.notes.append(f"recall@10 of {name}, {when}: {self.recalls[name, when]:.3f}")

    def _nearest(self, queries: Any) -> list[set[int]]:
        """The nearest rows by looking at all of ours; updates give the same vectors to every engine."""
        found = self._engines[OURS].call("exact", queries=queries.tolist(), limit_s=900)
        return [set(ids) for ids in found]

    def _add(self) -> None:
        for number in range(3):
            for name, engine in self._engines.items():
                first = self.rows + number * 500
                seconds = engine.call("add", first=first, count=500, seed=2000 + number)["seconds"]
                self._took("add 500 rows to the indexes", name, seconds)

    def _history(self) -> None:
        for step in range(2):
            changed = self._random.choice(self._ids, UPDATED // 2, replace=False).tolist()
            for name, engine in self._engines.items():
                engine.call("update", values=changed, seed=3000 + step, limit_s=600)
                engine.call("refresh", limit_s=600)
                start = perf_counter()
                written = engine.call("compact", limit_s=1800)["index_bytes"]
                self._took("compact", name, perf_counter() - start)
                self.index_bytes[name] = self.index_bytes.get(name, 0) + written
        for name, engine in self._engines.items():
            engine.call("ids", limit_s=600)
            self.notes.append(f"bytes of indexes written by both compactions of {name}: {self.index_bytes[name]}")

    def _open_many(self) -> None:
        """A table of many files, which are only in its log."""
        table = logs.with_checkpoint(DATA / "logs", files=MANY_FILES)
        answer = self._engines[OURS].call("open", path=str(table))
        self._took(f"open a table of {MANY_FILES} files", OURS, answer["seconds"])

    def _took(self, case: str, engine: str, seconds: float) -> None:
        self.cases.setdefault(case, Case(case)).add(engine, Took(seconds))

    def _at_least(self, case: str, peer: str, least: float, goal: str) -> Goal:
        found = self.cases.get(case)
        figure = None if found is None else found.ratio(peer)
        return Goal(goal, figure is not None and figure >= least, figure)

    def _path(self, engine: str) -> str:
        return str(self._place / engine)


def _lance() -> str | None:
    """Make the environment of pylance unless it is there; gives what is wrong when it cannot be."""
    ready = _HOME / ".ready"
    if ready.exists() and ready.read_text() == _PYLANCE:
        return None
    print(f"making {_HOME.name}, once: pylance {_PYLANCE}", file=sys.stderr)
    shutil.rmtree(_HOME, ignore_errors=True)
    pip = [str(_HOME / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        for command in ([sys.executable, "-m", "venv", str(_HOME)], [*pip, f"pylance=={_PYLANCE}"]):
            subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        return lines[-1] if lines else "pip failed"
    ready.write_text(_PYLANCE)
    return None


if __name__ == "__main__":
    main()
