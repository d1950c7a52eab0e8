"""Open and refresh tables with many files and with many commits, side by side with deltalake.

Every measurement is made in a fresh process, so that what a library loads or prepares on first use counts, and peak
memory is that of opening one table. Tables have a log and no data files: `logs.py` says what is in it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter

import logs
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
    not_more_memory,
    not_slower,
)

PEER = "deltalake"
FILES, COMMITS = 1_000_000, 1_000
ROUNDS = {"quick": 3, "default": 7, "full": 15}
FASTER = 20  # how much a refresh must be faster than opening

_STEPS = ("open", "start and open", "open and list paths and sizes", "open and read bounds of a column", "refresh")


@dataclass(frozen=True, slots=True)
class Subject:
    """A table to open: what it is called in the report, where it is, the version after its newest, its files."""

    name: str
    path: Path
    next_version: int
    files: int


def main() -> None:
    asked = arguments(__doc__.splitlines()[0], unit="files the large table has").parse_args()
    size = "quick" if asked.quick else "full" if asked.full else "default"
    files = asked.rows or FILES
    subjects = [
        Subject(_named(files, FILES, "1M", "files"), logs.with_checkpoint(DATA, files=files), 11, files),
        Subject("1,000 commits", logs.with_commits(DATA, commits=COMMITS), COMMITS, COMMITS * logs.ADDS_PER_COMMIT),
    ]
    for subject in subjects:  # what a run that was interrupted left
        logs.commit_path(subject.path, subject.next_version).unlink(missing_ok=True)
    engines = [OURS, *_peers()]
    found = {s.name: {step: Case(_title(step, s)) for step in _STEPS} for s in subjects}
    for number in range(ROUNDS[size] + 1):
        for subject in subjects:
            for engine in engines if number % 2 else engines[::-1]:
                for step, took in _measure(engine, subject):
                    if number:  # the first round warms up
                        found[subject.name][step].add(engine, took)
    cases = [case for steps in found.values() for case in steps.values()]
    notes = _notes(ROUNDS[size], files, engines)
    emit(Report("open", cases, list(_goals(found, subjects)), notes), as_json=asked.json)


def _measure(engine: str, subject: Subject) -> Iterator[tuple[str, Took]]:
    """What each step takes in one new process."""
    started = perf_counter()
    process = Engine([sys.executable, Path(__file__).with_name("open_engines.py"), engine])
    more = None
    step = "open"
    try:
        opened = process.call("open", path=str(subject.path))["seconds"]
        whole, peak = perf_counter() - started, process.peak_mb()
        yield "open", Took(opened, peak)
        yield "start and open", Took(whole, peak)
        more = logs.commit_one_more(subject.path, subject.next_version)
        step = "refresh"
        yield step, _alone(process, step)
        for call, step in (("list", "open and list paths and sizes"), ("stats", "open and read bounds of a column")):
            then = _alone(process, call, files=subject.files + 1)
            yield step, Took(opened + then.seconds, max(peak or 0, then.peak_mb or 0) or None)
    except Stopped:
        yield step, Took(LIMIT_S, at_least=True)
    finally:
        if more is not None:
            more.unlink()
        process.close()


def _alone(process: Engine, call: str, *, files: int | None = None) -> Took:
    """What one more step takes, and the peak while it runs."""
    process.forget_peak()
    answer = process.call(call)
    assert files is None or answer["files"] == files, f"{call} shows {answer['files']} of {files} files"
    return Took(answer["seconds"], process.peak_mb())


def _goals(found: Mapping[str, Mapping[str, Case]], subjects: list[Subject]) -> Iterator[Goal]:
    for subject in subjects:
        steps = found[subject.name]
        what = "1M files" if subject is subjects[0] else subject.name
        note = "" if what == subject.name else f"measured with {subject.name}"
        yield not_slower(steps["open"], PEER, f"open {what} not slower than deltalake", note)
        yield not_more_memory(steps["open"], PEER, f"open {what} not more memory than deltalake", note)
        yield not_slower(steps["refresh"], PEER, f"refresh {what} not slower than deltalake", note)
        yield not_more_memory(steps["refresh"], PEER, f"refresh {what} not more memory than deltalake", note)
        opened, refreshed = (steps[step].seconds(OURS) for step in ("open", "refresh"))
        figure = opened / refreshed if opened and refreshed else None
        goal = f"refresh {what} after one new commit at least {FASTER}x faster than opening"
        yield Goal(goal, figure is not None and figure >= FASTER, figure, note)


def _peers() -> list[str]:
    try:
        version(PEER)
    except PackageNotFoundError:
        return []
    return [PEER]


def _notes(rounds: int, files: int, engines: list[str]) -> list[str]:
    notes = [
        f"{rounds} interleaved rounds after one round of warm-up, every measurement in a fresh process; the log is "
        "in the page cache",
        "open: the log is loaded and, for ours, the files are counted; `start and open` also starts Python and imports",
        "refresh: one new commit with one file is read, and the files are counted (ours only)",
        f"{files} files in one checkpoint; {COMMITS} commits of {logs.ADDS_PER_COMMIT} files each, no checkpoint",
        f"deltalake {version(PEER)}" if PEER in engines else "deltalake is missing: its goals are not met",
        machine(),
    ]
    return notes


def _title(step: str, subject: Subject) -> str:
    return f"refresh {subject.name} after one commit" if step == "refresh" else f"{step}: {subject.name}"


def _named(count: int, usual: int, name: str, unit: str) -> str:
    return f"{name} {unit}" if count == usual else f"{count:,} {unit}"


if __name__ == "__main__":
    main()
