"""Real processes update rows of the same files while others compact and cluster them.

In `make test` two small processes without Spark; in `make soak` four, each with its own Spark session and four writers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast import DeltaTable
from tests.concurrency.auditor import audited
from tests.concurrency.writer import PATIENCE, Job, start
from tests.support.depth import DEPTH

FULL = DEPTH > 1
PROCESSES, THREADS = (4, 4) if FULL else (2, 2)
SECONDS, COMMITS = (60.0, 200) if FULL else (5.0, 20)
ROWS, FILES = 1600, 4


def _create(path: Path) -> None:
    table = (
        DeltaTable.create().location(path).addColumn("k", "bigint").addColumn("v", "bigint").clusterBy("k").execute()
    )
    for n in range(FILES):
        keys = range(n * ROWS // FILES, (n + 1) * ROWS // FILES)
        table.append(pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([0] * len(keys), pa.int64())}))


def _run(path: Path, *, overlaps: bool) -> list[dict[str, Any]]:
    """Let writers run; what they said."""
    jobs = [
        Job(str(path), n, PROCESSES, THREADS, ROWS, SECONDS, COMMITS, overlaps, spark=FULL) for n in range(PROCESSES)
    ]
    with ExitStack() as stack:
        children = [stack.enter_context(start(job)) for job in jobs]
        for child in children:
            stack.callback(child.kill)
        for child in children:
            assert child.stdout is not None
            assert "ready" in child.stdout.readline()
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        said: list[dict[str, Any]] = []
        for child in children:
            out, _ = child.communicate(timeout=2 * PATIENCE * SECONDS)
            assert child.returncode == 0
            said += map(json.loads, out.splitlines())
    return said


def _upkeep(said: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (line for line in said if "upkeep" in line)


@pytest.mark.slow
@pytest.mark.hypothesis  # what goes deeper in `make soak`
def test_writers_of_different_rows_of_the_same_files_all_win(tmp_path: Path) -> None:
    path = tmp_path / "t"
    _create(path)
    said = _run(path, overlaps=False)
    found = audited(path, said)
    assert [line for line in said if "refused" in line] == []
    assert found["rows"] == found["others"] == ROWS
    assert found["version"] >= COMMITS
    assert found["rebased"] > 0
    assert sum(line["rewritten"] for line in _upkeep(said)) > 0


@pytest.mark.slow
@pytest.mark.hypothesis
def test_only_writers_of_the_same_rows_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t"
    _create(path)
    said = _run(path, overlaps=True)
    found = audited(path, said)
    assert found["false"] == []
    assert found["refused"] > 0
    assert found["rows"] == found["others"] == ROWS
    assert sum(line["rewritten"] for line in _upkeep(said)) > 0
