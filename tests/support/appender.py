"""A process that appends to a table and says what was acknowledged: `python -m tests.support.appender PATH FIRST ...`.

It says `ready`, waits for a line, and then runs its threads. Each commit holds ROWS rows, `value * ROWS` and up, and
`version value` is said once it is acknowledged: a line that was said is a promise the table has to keep.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa

from holdfast import DeltaTable

ROWS = 3
ROOT = Path(__file__).parents[2]


def start(path: Path, *, first: int, threads: int, commits: int) -> subprocess.Popen[str]:
    """An appender that waits for its line; thread n counts its values up from `first + n * commits`."""
    arguments = [str(path), str(first), str(threads), str(commits)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.appender", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())  # one call, no buffer: a line is said whole or not at all


def append(path: str, first: int, commits: int) -> None:
    table = DeltaTable.forPath(None, path)
    for value in range(first, first + commits):
        ids = pa.array(range(value * ROWS, (value + 1) * ROWS), pa.int64())
        say(f"{table.append(pa.table({'id': ids})).version} {value}")


def main(path: str, first: int, threads: int, commits: int) -> None:
    say("ready")
    sys.stdin.readline()
    workers = [threading.Thread(target=append, args=(path, first + n * commits, commits)) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
