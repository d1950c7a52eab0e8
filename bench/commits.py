"""Commit small changes ten thousand times, side by side with deltalake, and see whether the cost of a commit grows.

Every commit adds one staged file: no Spark job, no data file is written. What a commit makes due belongs to it, so a
commit with a checkpoint takes longer. The goals compare windows of 100 commits around number 100 and before the last:
their medians, which are commits without a checkpoint, and their means, in which checkpoints and clean-up count.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean, median

from harness import DATA, LIMIT_S, OURS, Case, Engine, Goal, Report, Stopped, Took, arguments, emit, machine

PEER = "deltalake"
NAMED = 10_000
COMMITS = {"quick": 2_000, "default": NAMED, "full": NAMED}
WITHIN = 1.5
INTERVAL = 10  # commits between checkpoints

_EARLY = 100
_WINDOW = 100
_CHUNK = 50  # commits of one engine before it is the other's turn


def main() -> None:
    asked = arguments(__doc__.splitlines()[0], unit="commits").parse_args()
    commits = asked.rows or COMMITS["quick" if asked.quick else "full" if asked.full else "default"]
    taken, peaks, notes = _run(commits)
    windows = {f"commits {first + 1} to {first + _WINDOW}": first for first in _windows(commits)}
    cases = []
    for name, first in windows.items():
        case = Case(name)
        for engine, seconds in taken.items():
            for one in seconds[first : first + _WINDOW]:
                case.add(engine, Took(one, peaks[engine]))
        cases.append(case)
    goals = list(_goals(taken[OURS], commits))
    emit(Report("commits", cases, goals, [*notes, *_totals(taken), machine()]), as_json=asked.json)


def _run(commits: int) -> tuple[dict[str, list[float]], dict[str, float | None], list[str]]:
    """Seconds of every commit of every engine, in turns; peak memory; what is to be said."""
    notes = [
        f"{commits} commits of one staged file each, {_CHUNK} of one engine and then of the other; a checkpoint every "
        f"{INTERVAL} on both; no warm-up: the first window begins after 50 commits",
        "a line shows the median of its 100 commits, which is that of commits without a checkpoint; peak memory is "
        "that of the whole run",
        "ours forces every commit and checksum to disk before it answers, and writes a checksum; deltalake does not",
    ]
    place = DATA / "commits-run"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    names = [OURS, *_peers(notes)]
    script = Path(__file__).with_name("commits_engines.py")
    engines = {name: Engine([sys.executable, script, name]) for name in names}
    taken: dict[str, list[float]] = {name: [] for name in names}
    peaks: dict[str, float | None] = {}
    try:
        for name, engine in engines.items():
            engine.call("create", path=str(place / name), interval=INTERVAL)
        left = dict.fromkeys(engines, float(LIMIT_S))
        for turn, first in enumerate(range(0, commits, _CHUNK)):
            for name in list(engines) if turn % 2 else list(engines)[::-1]:
                try:
                    limit = LIMIT_S if name == OURS else left[name]
                    chunk = engines[name].call("commit", limit_s=limit, first=first, count=min(_CHUNK, commits - first))
                except Stopped:
                    notes.append(f"{name} was stopped after {LIMIT_S} s and {len(taken[name])} commits")
                    del engines[name]
                    continue
                taken[name] += chunk
                left[name] -= sum(chunk)
        for name, engine in engines.items():
            found = engine.call("check")
            assert found == [commits, commits], f"{name} shows version and files {found} after {commits} commits"
            peaks[name] = engine.peak_mb()
    finally:
        for engine in engines.values():
            engine.close()
        shutil.rmtree(place, ignore_errors=True)
    return {n: s for n, s in taken.items() if len(s) == commits}, peaks, notes


def _windows(commits: int) -> Sequence[int]:
    """How many commits come before each window: around number 100, in the middle, the last."""
    return sorted({_EARLY - _WINDOW // 2, commits // 2 - _WINDOW // 2, commits - _WINDOW})


def _goals(ours: Sequence[float], commits: int) -> Iterator[Goal]:
    first, *_, last = ([*ours[start : start + _WINDOW]] for start in _windows(commits))
    note = "" if commits == NAMED else f"measured with {commits:,} commits"
    for what, middle in (("", median), (", checkpoints and clean-up included", fmean)):
        figure = middle(last) / middle(first)
        kind = "medians" if middle is median else "means"
        goal = f"the cost of commit number {NAMED:,} is within {WITHIN}x of number {_EARLY}{what}"
        said = f"{kind} of {_WINDOW} commits, {middle(last) * 1000:.1f} and {middle(first) * 1000:.1f} ms"
        yield Goal(goal, figure <= WITHIN, figure, f"{said}{note and f'; {note}'}")


def _totals(taken: dict[str, list[float]]) -> Iterator[str]:
    for name, seconds in taken.items():
        slowest = sorted(seconds)[-1]
        yield f"{name}: {sum(seconds):.1f} s for all commits, checkpoints included; the slowest took {slowest:.3f} s"


def _peers(notes: list[str]) -> list[str]:
    try:
        notes.append(f"deltalake {version(PEER)}")
    except PackageNotFoundError:
        notes.append("deltalake is missing")
        return []
    return [PEER]


if __name__ == "__main__":
    main()
