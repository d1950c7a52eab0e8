"""Real processes on one directory: many that append at once, and one that is killed at any moment."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import deltalake
import pyarrow as pa

from holdfast import DeltaTable
from tests.support.appender import ROWS, start
from tests.support.depth import DEPTH

PROCESSES, THREADS, COMMITS = 8, 4, 2
KILLS = 5 if DEPTH == 1 else 100


def create(path: Path) -> DeltaTable:
    return DeltaTable.create().location(path).addColumn("id", "bigint").execute()


def go(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("go\n")
    child.stdin.flush()


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def said(text: str) -> dict[int, int]:
    """Acknowledged versions and their values."""
    promises = [(int(version), int(value)) for version, value in map(str.split, text.splitlines())]
    assert len({version for version, _ in promises}) == len(promises)
    return dict(promises)


def rows_of(values: list[int]) -> list[int]:
    return sorted(value * ROWS + i for value in values for i in range(ROWS))


def read(path: Path) -> pa.Table:
    return DeltaTable.forPath(None, path).toArrow(metadata=["_row_id", "_row_commit_version"])


def others_read(path: Path) -> list[int]:
    table = deltalake.DeltaTable(str(path))
    found = deltalake.QueryBuilder().register("t", table).execute("select id from t").read_all()
    return sorted(pa.table(found)["id"].to_pylist())


def test_many_appenders_in_many_processes(tmp_path: Path) -> None:
    path = tmp_path / "t"
    create(path)
    with ExitStack() as stack:
        each = THREADS * COMMITS
        children = [
            stack.enter_context(start(path, first=n * each, threads=THREADS, commits=COMMITS)) for n in range(PROCESSES)
        ]
        stack.callback(lambda: [child.kill() for child in children])
        assert [line(child) for child in children] == ["ready"] * PROCESSES
        for child in children:
            go(child)
        promises: dict[int, int] = {}
        for child in children:
            out, _ = child.communicate(timeout=120)
            assert child.returncode == 0
            promises |= said(out)
    commits = PROCESSES * each
    assert sorted(promises) == list(range(1, commits + 1))
    table = read(path)
    assert sorted(table["id"].to_pylist()) == rows_of(list(range(commits))) == others_read(path)
    # Without a gap: an attempt that lost its race took no ids with it.
    assert sorted(table["_row_id"].to_pylist()) == list(range(commits * ROWS))
    assert all(
        promises[row["_row_commit_version"]] == row["id"] // ROWS
        for row in table.select(["id", "_row_commit_version"]).to_pylist()
    )


def test_a_killed_process_breaks_no_promise(tmp_path: Path) -> None:
    path = tmp_path / "t"
    create(path)
    rng = random.Random(KILLS)
    promises: dict[int, int] = {}
    for kill in range(KILLS):
        with start(path, first=kill * 100_000, threads=1, commits=100_000) as child:
            try:
                assert line(child) == "ready"
                go(child)
                first = line(child)
                time.sleep(rng.uniform(0, 0.2))
            finally:
                child.send_signal(signal.SIGKILL)
            assert child.stdout is not None
            rest = child.stdout.read()  # what came with the first line is in this object's buffer, not in the pipe
        assert child.returncode == -signal.SIGKILL
        new = said(f"{first}\n{rest}")
        assert not new.keys() & promises.keys()
        promises |= new
        table = read(path)
        ids = table["id"].to_pylist()
        assert len(set(ids)) == len(ids)
        values = {id_ // ROWS for id_ in ids}
        assert rows_of(sorted(values)) == sorted(ids)
        # What was not acknowledged may be there: the last commit of each process, if its answer died with it.
        assert set(promises.values()) <= values
        assert len(values) - len(promises) <= kill + 1
        assert sorted(table["_row_id"].to_pylist()) == list(range(len(ids)))
        of_value = {row["id"] // ROWS: row["_row_commit_version"] for row in table.to_pylist()}
        assert all(of_value[value] == version for version, value in promises.items())
    assert others_read(path) == sorted(ids)
