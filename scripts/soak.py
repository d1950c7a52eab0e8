"""The deep tests in parts of at most an hour each on two cores: `make soak` lists them, `make soak PART=name` runs one.

All parts together run each test a hundred times as deep as `make test` does. A group of tests that would take longer
than an hour is run in several parts, each with its share of that depth and with draws of its own. A part runs in two
processes, which take modules in turn; what the second one says is printed when both are done. Each ends with what it
ran: seed, tests, examples and seconds, by module.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

SIMULATION, PROCESSES = "tests/verbs/commit/test_simulation.py", "tests/verbs/commit/test_processes.py"
WHOLE = 100  # times as deep as `make test`


class Group(NamedTuple):
    """Tests that belong together, and in how many parts they are run."""

    parts: int
    about: str
    chosen: str  # what pytest is told


GROUPS = {
    "values": Group(
        2,
        "types, conditions, bitmaps, ids, plans, texts of SQL and of a terminal: functions without a table",
        "--part=plain tests/rows tests/schema tests/predicate tests/plan tests/storage tests/model tests/sql tests/cli "
        "tests/report tests/support tests/dropin tests/golden tests/project tests/docs",
    ),
    "parquet": Group(
        2, "files: footers, pages, statistics, variants, reading and writing", "--part=plain tests/parquet"
    ),
    "delta": Group(1, "logs: checkpoints, checksums, vectors, statistics, replay", "--part=plain tests/formats/delta"),
    "iceberg": Group(2, "metadata, manifests, deletes, writing and publishing", "--part=plain tests/formats/iceberg"),
    "index": Group(4, "stories of tables with scalar and vector indexes", "--part=plain tests/index"),
    "changes": Group(
        4,
        "verbs without Spark against models, and the expressions they are made of",
        "--part=plain tests/engines/local tests/verbs/dml tests/verbs/changefeed tests/verbs/stream tests/verbs/index",
    ),
    "tables": Group(
        4,
        "tables: cloning, erasing, vacuum, restore, transactions, races",
        f"--part=plain tests/verbs/define tests/verbs/maintain tests/verbs/open tests/verbs/read tests/verbs/commit "
        f"--ignore={SIMULATION} --ignore={PROCESSES}",
    ),
    "faults": Group(
        2,
        "simulated writers whose requests fail, and processes that are killed",
        f"--part=plain {SIMULATION} {PROCESSES} tests/concurrency tests/interop",
    ),
    "hostile": Group(2, "changed files of every kind, read rightly or refused", "--part=plain tests/hostile"),
    "histories": Group(
        1, "histories judged by code that is none of the library's, some on Spark", "--part=all tests/histories"
    ),
    "spark": Group(
        5,
        "everything deep that shares a Spark session",
        "--part=spark tests --ignore=tests/histories",
    ),
}
PARTS = {
    f"{name}-{number}" if group.parts > 1 else name: group
    for name, group in GROUPS.items()
    for number in range(1, group.parts + 1)
}


def main(name: str) -> int:
    """Run a part, all of them, or say which there are."""
    if name == "all":
        return max(run(each) for each in PARTS)
    if name in PARTS:
        return run(name)
    if name:
        print(f"there is no part {name!r}", file=sys.stderr)
    print("make soak PART=... runs one of these on two cores, PART=all one after another:\n")
    for part, group in PARTS.items():
        print(f"  {part:<14} {group.about} (depth {WHOLE // group.parts})")
    return 2 if name else 0


def run(name: str) -> int:
    """One part: two processes side by side, and then what each of them ran."""
    group = PARTS[name]
    began = time.monotonic()
    depth = str(WHOLE // group.parts)
    environment = {**os.environ, "HOLDFAST_DEPTH": os.environ.get("HOLDFAST_DEPTH", depth)}
    print(f"part {name}, depth {environment['HOLDFAST_DEPTH']}: {group.about}", flush=True)
    with tempfile.TemporaryFile("w+") as beside:
        running = [
            subprocess.Popen(
                [sys.executable, "-m", "pytest", "-q", "--deep", f"--share={share}/2", *group.chosen.split()],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            for share, output in ((1, None), (2, beside))
        ]
        codes = [process.wait() for process in running]
        beside.seek(0)
        print(beside.read(), flush=True)
    codes = [0 if code == 5 else code for code in codes]  # 5: this half had no test
    print(f"part {name}: {'failed' if any(codes) else 'passed'} after {(time.monotonic() - began) / 60:.1f} min")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
