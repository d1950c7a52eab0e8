"""A process of writers: `python -m tests.concurrency.writer JOB`, the job as JSON.

It says `ready`, waits for a line, and runs its threads until the time is over and the table has come far enough. Each
thread updates one row at a time, and process 0 and 1 each have one thread more that compacts or clusters. Every answer
is said in a line of JSON: a line that was said is a promise the table has to keep.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.engines.spark.session.local_session import session
from holdfast.errors import ConcurrentWrite

ROOT = Path(__file__).parents[2]
PATIENCE = 10  # times the seconds asked for, until the commits asked for must be there


class Job(msgspec.Struct, frozen=True):
    """What a process does."""

    path: str
    process: int
    processes: int
    threads: int
    rows: int
    seconds: float
    commits: int  # the table must have, before anybody stops
    overlaps: bool  # all writers take any row; else each has its own
    spark: bool


def start(job: Job) -> subprocess.Popen[str]:
    """A process that waits for its line."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.concurrency.writer", msgspec.json.encode(job).decode()],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def main(job: Job) -> None:
    spark = session(f"writers {job.process}", master="local[2]", **{"spark.driver.memory": "1g"}) if job.spark else None
    DeltaTable.forPath(spark, job.path).toArrow()  # what is loaded late is loaded now
    _say({"ready": job.process})
    sys.stdin.readline()
    lives: list[Callable[[], None]] = [_updates(job, spark, n) for n in range(job.threads)]
    if job.process < 2:
        lives.append(_upkeep(job, spark))
    failed: list[str] = []

    def guarded(life: Callable[[], None]) -> None:
        try:
            life()
        except BaseException:
            failed.append(traceback.format_exc())
            raise

    threads = [threading.Thread(target=guarded, args=(life,)) for life in lives]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if spark is not None:
        spark.stop()
    if failed:
        sys.exit(failed[0])


def _updates(job: Job, spark: SparkSession | None, thread: int) -> Callable[[], None]:
    """Add one to a row at a time; of the rows that are this writer's own, or of any."""
    writer = job.process * job.threads + thread
    writers = job.processes * job.threads
    rng = random.Random(writer)

    def live() -> None:
        table = DeltaTable.forPath(spark, job.path)
        is_over = _end(job, table)
        turn = 0
        while not is_over():
            key = rng.randrange(job.rows // writers) * writers
            key = key % 8 if job.overlaps else key + writer
            said: dict[str, Any] = {"tag": f"{writer}.{turn} {key}", "key": key}
            try:
                done = table.update(f"k = {key}", {"v": "v + 1"}, userMetadata=said["tag"])
                said |= {"version": done.version, "attempts": done.attempts}
            except ConcurrentWrite as conflict:
                read = table.handle.state.version
                said |= {"refused": str(conflict), "ids": conflict.row_ids, "read": read, "ended": table.version}
            _say(said)
            turn += 1

    return live


def _upkeep(job: Job, spark: SparkSession | None) -> Callable[[], None]:
    def live() -> None:
        table = DeltaTable.forPath(spark, job.path)
        is_over = _end(job, table)
        rewritten, lost = 0, []
        while not is_over():
            recluster = table.optimize(full=True, targetRows=job.rows // 2) if job.process else None
            done = table.purge() if recluster is None else recluster.executeCompaction()
            rewritten += len(done.versions)
            lost += done.lost
            time.sleep(0.2)
        _say({"upkeep": job.process, "rewritten": rewritten, "lost": lost})

    return live


def _end(job: Job, table: DeltaTable) -> Callable[[], bool]:
    begun = time.monotonic()

    def is_over() -> bool:
        took = time.monotonic() - begun
        return took > job.seconds and (took > PATIENCE * job.seconds or table.version >= job.commits)

    return is_over


def _say(what: dict[str, Any]) -> None:
    os.write(1, f"{json.dumps(what)}\n".encode())  # one call, no buffer: a line is said whole or not at all


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Job))
