"""Writers in processes of their own, crowding one table: an update of one row beside appenders, and updaters of rows
of their own. Who gets to commit, and how soon, is what counts here; the work of each is as small as it can be.

The first argument of a process says what it does, the others what with; what it did is its last line.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time, sleep
from typing import Any

import pyarrow as pa

from holdfast import DeltaTable
from holdfast.table.iceberg import IcebergTable

ROWS = 10_000
FORMATS = ("Delta", "Iceberg")
STEP = 1_000_000  # between the keys of appenders


@dataclass(frozen=True, slots=True)
class Beside:
    """Updates of one row, one after another, beside appenders: seconds and attempts of each."""

    format: str
    appenders: int
    appends: float  # a second
    seconds: tuple[float, ...]
    attempts: tuple[int, ...]
    cpu_s: float  # of the updater, in all

    @property
    def slow(self) -> float:
        """What 99 of 100 updates stayed within."""
        ordered = sorted(self.seconds)
        return ordered[max(0, -(-99 * len(ordered) // 100) - 1)]

    def note(self) -> str:
        ordered, tries = sorted(self.seconds), sum(self.attempts)
        return (
            f"{self.format}: an update of one row beside {self.appenders} appenders ({self.appends:.0f} commits/s): "
            f"median {ordered[len(ordered) // 2]:.3f} s, 99 of 100 within {self.slow:.3f} s, slowest {ordered[-1]:.3f} "
            f"s; {tries / len(ordered):.1f} attempts, at most {max(self.attempts)}; "
            f"{1000 * self.cpu_s / tries:.1f} ms of processor time an attempt"
        )


@dataclass(frozen=True, slots=True)
class Updaters:
    """Updaters of rows of their own, all at once: how often each landed, and how long it ever waited."""

    format: str
    landed: tuple[int, ...]
    slowest: tuple[float, ...]
    attempts: tuple[int, ...]
    refused: int
    cpu_s: float  # of all updaters

    def note(self) -> str:
        return (
            f"{self.format}: {len(self.landed)} updaters of rows of their own landed {sorted(self.landed)} commits, "
            f"{self.refused} refused; {sum(self.attempts) / max(sum(self.landed), 1):.1f} attempts a commit, the "
            f"slowest commit took {max(self.slowest):.2f} s; "
            f"{1000 * self.cpu_s / max(sum(self.attempts), 1):.1f} ms of processor time an attempt"
        )


def beside(format_: str, place: Path, *, appenders: int, tries: int) -> Beside:
    """Update row after row while others append as fast as they can."""
    with _table(format_, place) as stop:
        others = [_start("append", format_, place, str(n)) for n in range(appenders)]
        for other in others:
            _line(other)  # it has appended
        updater = _start("update", format_, place, "0", "1", str(tries))
        _line(updater)
        told = json.loads(_line(updater))
        stop.touch()
        appends = sum(json.loads(_line(other))["landed"] / told["took"] for other in others)
        _check(format_, place, len(told["seconds"]))
    return Beside(format_, appenders, appends, tuple(told["seconds"]), tuple(told["attempts"]), told["cpu_s"])


def updaters(format_: str, place: Path, *, writers: int, seconds: float) -> Updaters:
    """Let writers update rows of their own for a while."""
    with _table(format_, place) as stop:
        all_ = [_start("update", format_, place, str(n), str(writers), "0") for n in range(writers)]
        for one in all_:
            _line(one)
        sleep(seconds)
        stop.touch()
        told = [json.loads(_line(one)) for one in all_]
        _check(format_, place, sum(len(one["seconds"]) for one in told))
    return Updaters(
        format_,
        tuple(len(one["seconds"]) for one in told),
        tuple(max(one["seconds"], default=seconds) for one in told),
        tuple(sum(one["attempts"]) for one in told),
        sum(one["refused"] for one in told),
        sum(one["cpu_s"] for one in told),
    )


@contextmanager
def _table(format_: str, place: Path) -> Iterator[Path]:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    rows = pa.table({"k": pa.array(range(ROWS), pa.int64()), "v": pa.array([0] * ROWS, pa.int64())})
    if format_ == "Delta":
        builder = DeltaTable.create().location(place / "t")
        builder.addColumn("k", "bigint").addColumn("v", "bigint").execute().append(rows)
    else:
        IcebergTable.create(None, place / "catalog.db", "db.t", rows.schema, formatVersion=3).append(rows)
    try:
        yield place / "stop"
    finally:
        (place / "stop").touch()
        shutil.rmtree(place, ignore_errors=True)


def _open(format_: str, place: Path) -> Any:
    if format_ == "Delta":
        return DeltaTable.forPath(None, place / "t")
    return IcebergTable.load(None, place / "catalog.db", "db.t")


def _check(format_: str, place: Path, landed: int) -> None:
    """No update is lost, none is there twice."""
    updates = sum(_open(format_, place).toArrow(columns=["v"], where=f"k < {ROWS}")["v"].to_pylist())
    assert updates == landed, f"{updates} updates are in the table, not {landed}"


def _start(what: str, format_: str, place: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, what, format_, str(place), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"{process.args} ended with {process.wait()} and said nothing"
    return line


def _append(format_: str, place: Path, number: int) -> dict[str, Any]:
    table, landed = _open(format_, place), 0
    while not (place / "stop").exists():
        keys = pa.array([STEP * (number + 1) + landed], pa.int64())
        table.append(pa.table({"k": keys, "v": pa.array([0], pa.int64())}))
        landed += 1
        if landed == 1:
            print("ready", flush=True)
    return {"landed": landed}


def _update(format_: str, place: Path, number: int, writers: int, tries: int) -> dict[str, Any]:
    from holdfast.errors import ConcurrentWrite

    table, seconds, attempts, refused = _open(format_, place), list[float](), list[int](), 0
    table.delete("k = -1")  # nothing, and all that is loaded when it is first needed
    print("ready", flush=True)
    begun, cpu = perf_counter(), process_time()
    while not (place / "stop").exists() and (not tries or len(seconds) < tries):
        started = perf_counter()
        try:
            done = table.update(f"k = {(len(seconds) * writers + number) % ROWS}", {"v": "v + 1"})
        except ConcurrentWrite:
            refused += 1
            continue
        seconds.append(perf_counter() - started)
        attempts.append(done.attempts)
    took, cpu_s = perf_counter() - begun, process_time() - cpu
    return {"seconds": seconds, "attempts": attempts, "refused": refused, "took": took, "cpu_s": cpu_s}


def main() -> None:
    match sys.argv[1:]:
        case ["append", format_, place, number]:
            told = _append(format_, Path(place), int(number))
        case ["update", format_, place, number, writers, tries]:
            told = _update(format_, Path(place), int(number), int(writers), int(tries))
        case other:
            raise SystemExit(f"nothing to do: {other}")
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
