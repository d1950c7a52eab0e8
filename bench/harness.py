"""What every benchmark shares: engines in processes of their own, interleaved repetitions, medians, goals, one report.

1. Every engine runs in its own process, so that its peak memory is its own: the resident pages of the process and of
   its children (a JVM), added up.
2. Repetitions are interleaved: one round measures every case on every engine, and every second round goes backwards.
   So a machine that slows down for a while slows down all of them.
3. A ratio is the peer's median over ours: above 1 we win. Its 90 % interval is a bootstrap over rounds.
4. A peer that was stopped after LIMIT_S counts with that time, as "at least".
5. A goal without a measurement is not met.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

OURS = "ours"
LIMIT_S = 300  # a peer that needs longer is stopped
NOT_SLOWER = 0.95
DATA = Path(__file__).resolve().parent / ".data"

_RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Took:
    """One measurement."""

    seconds: float
    peak_mb: float | None = None
    at_least: bool = False


@dataclass
class Case:
    """A case, and what its engines took in each round."""

    name: str
    took: dict[str, list[Took]] = field(default_factory=dict)

    def add(self, engine: str, took: Took) -> None:
        self.took.setdefault(engine, []).append(took)

    def seconds(self, engine: str) -> float | None:
        found = self.took.get(engine)
        return median(t.seconds for t in found) if found else None

    def peak_mb(self, engine: str) -> float | None:
        found = [t.peak_mb for t in self.took.get(engine, ()) if t.peak_mb is not None]
        return max(found) if found else None

    def ratio(self, peer: str) -> float | None:
        ours, theirs = self.seconds(OURS), self.seconds(peer)
        return None if not ours or theirs is None else theirs / ours

    def interval(self, peer: str) -> tuple[float, float]:
        """Where the ratio lies with 90 % confidence; rounds are drawn anew as pairs, because they share their noise."""
        rounds = min(len(self.took[OURS]), len(self.took[peer]))
        drawn = np.random.default_rng(0).integers(0, rounds, (_RESAMPLES, rounds))
        ours, theirs = (np.array([t.seconds for t in self.took[e][:rounds]])[drawn] for e in (OURS, peer))
        low, high = np.quantile(np.median(theirs, axis=1) / np.median(ours, axis=1), [0.05, 0.95])
        return float(low), float(high)

    def at_least(self, engine: str) -> bool:
        return any(t.at_least for t in self.took.get(engine, ()))


@dataclass(frozen=True, slots=True)
class Goal:
    """Something an issue asks for, met or not, and the figure that says so."""

    goal: str
    met: bool
    figure: float | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What a run found."""

    bench: str
    cases: Sequence[Case]
    goals: Sequence[Goal]
    notes: Sequence[str]

    def as_json(self) -> str:
        return json.dumps(
            {
                "bench": self.bench,
                "lines": [_line(case) for case in self.cases if OURS in case.took],
                "goals": [
                    {"goal": g.goal, "met": g.met, "figure": None if g.figure is None else round(g.figure, 3)}
                    | ({"note": g.note} if g.note else {})
                    for g in self.goals
                ],
                "notes": list(self.notes),
            }
        )

    def show(self) -> None:
        """The report for people."""
        console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
        peers = list(dict.fromkeys(e for case in self.cases for e in case.took if e != OURS))
        table = Table(title=f"{self.bench}: medians; peer time / ours, above 1 we win [90 % interval]", box=box.SIMPLE)
        table.add_column("case")
        for name in (OURS, *peers):
            table.add_column(name, justify="right")
        for case in self.cases:
            if OURS in case.took:
                table.add_row(case.name, _cell(case, OURS), *(_cell(case, peer) for peer in peers))
        console.print(table)
        for goal in self.goals:
            mark = "[green]met    [/]" if goal.met else "[red]not met[/]"
            figure = "not measured" if goal.figure is None else f"{goal.figure:.2f}"
            console.print(f"{mark}  {goal.goal}: {figure}{f' ({goal.note})' if goal.note else ''}", soft_wrap=True)
        for note in self.notes:
            console.print(f"note     {note}", soft_wrap=True, style="dim")


def _line(case: Case) -> dict[str, Any]:
    peers = [e for e in case.took if e != OURS]
    shown = {e: round(s, 4) for e in peers if (s := case.seconds(e)) is not None}
    peaks = {e: round(p) for e in (OURS, *peers) if (p := case.peak_mb(e)) is not None}
    line = {
        "case": case.name,
        "ours_s": round(case.seconds(OURS) or 0, 4),
        "peers": shown,
        "ratio": {e: round(r, 3) for e in peers if (r := case.ratio(e)) is not None},
        "interval_90": {e: [round(x, 3) for x in case.interval(e)] for e in peers},
        "peak_mb": peaks,
        "rounds": len(case.took[OURS]),
    }
    stopped = [e for e in peers if case.at_least(e)]
    return line | ({"at_least": stopped} if stopped else {})


def _cell(case: Case, engine: str) -> Text:
    seconds = case.seconds(engine)
    if seconds is None:
        return Text("-")
    said = Text(f"{'at least ' if case.at_least(engine) else ''}{seconds:.3f} s")
    if (peak := case.peak_mb(engine)) is not None:
        said.append(f"  {peak:.0f} MB")
    if engine != OURS:
        low, high = case.interval(engine)
        said.append(f"\n{case.ratio(engine):.2f}", style="bold")
        said.append(f" [{low:.2f} to {high:.2f}]")
    return said


def not_slower(case: Case | None, peer: str, goal: str, note: str = "") -> Goal:
    """A goal that the median ratio is at least NOT_SLOWER."""
    figure = None if case is None else case.ratio(peer)
    return Goal(goal, figure is not None and figure >= NOT_SLOWER, figure, note)


def not_more_memory(case: Case | None, peer: str, goal: str, note: str = "") -> Goal:
    """A goal that the peer's peak is at least ours; the figure is theirs over ours."""
    ours, theirs = (None if case is None else case.peak_mb(e) for e in (OURS, peer))
    figure = None if not ours or theirs is None else theirs / ours
    return Goal(goal, figure is not None and figure >= 1.0, figure, note)


class Stopped(Exception):
    """An engine did not answer in time."""


class Engine:
    """A process that runs what it is told, one request at a time."""

    def __init__(self, command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )

    def call(self, name: str, *, limit_s: float = LIMIT_S, **arguments: Any) -> Any:
        """The answer to a request; Stopped, and the process is gone, when it takes longer than the limit."""
        assert self._process.stdin is not None, "opened with a pipe"
        assert self._process.stdout is not None, "opened with a pipe"
        self._process.stdin.write(json.dumps({"call": name, **arguments}) + "\n")
        self._process.stdin.flush()
        late = threading.Timer(limit_s, self._process.kill)
        late.start()
        answer = self._process.stdout.readline()
        in_time = late.is_alive()
        late.cancel()
        if not answer:
            self._process.wait()
            if in_time:
                raise RuntimeError(f"{name} ended its process with {self._process.returncode}: see above")
            raise Stopped(name)
        return json.loads(answer)

    def forget_peak(self) -> None:
        """Count peak memory from now on, where the system can; elsewhere from the start of the process."""
        for pid in _tree(self._process.pid):
            with suppress(OSError):
                Path(f"/proc/{pid}/clear_refs").write_text("5")

    def peak_mb(self) -> float | None:
        """The highest resident size of the process and its children; None where the system does not tell."""
        found = [_status_kb(pid, "VmHWM") for pid in _tree(self._process.pid)]
        return sum(found) / 1024 if any(found) else None

    def worker_peak_mb(self) -> float | None:
        """The highest resident size of one of the Python processes that Spark has now; None where there are none."""
        java = next((pid for pid in _tree(self._process.pid) if _status(pid, "Name") == "java"), None)
        found = [] if java is None else [_status_kb(pid, "VmHWM") for pid in _tree(java) if pid != java]
        return max(found) / 1024 if any(found) else None

    def close(self) -> None:
        assert self._process.stdin is not None, "opened with a pipe"
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _tree(pid: int) -> Iterator[int]:
    yield pid
    tasks: list[Path] = []
    with suppress(OSError):
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    for task in tasks:
        with suppress(OSError):  # threads of a JVM come and go
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))


def _status_kb(pid: int, key: str) -> int:
    return int(_status(pid, key).removesuffix(" kB") or 0)


def _status(pid: int, key: str) -> str:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(f"{key}:"):
                return line.partition(":")[2].strip()
    return ""


def arguments(what: str, *, unit: str) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(description=what)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a short look, under 2 minutes")
    size.add_argument("--full", action="store_true", help="the sizes the issue names, however long they take")
    parser.add_argument(
        "--rows", type=_count, metavar="N", help=f"how many {unit}, instead of the size's own number; 20M is 20000000"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    return parser


def _count(text: str) -> int:
    found = re.fullmatch(r"(\d+)([kKmM]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text} is not a number such as 500000, 500k or 20M")
    return int(found[1]) * {"": 1, "k": 1_000, "m": 1_000_000}[found[2].lower()]


def emit(report: Report, *, as_json: bool) -> None:
    """Print a report: for people, and as one line of JSON when asked for."""
    report.show()
    if as_json:
        print(report.as_json())


def machine() -> str:
    """What the figures were made on, and how busy it was."""
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    python = platform.python_version()
    return f"{os.cpu_count()} cores of {platform.machine()}, Python {python}, load {load} (1, 5, 15 minutes) at the end"
