"""A query that is killed between its steps, its JVM with it, finds every row once when it is started again."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from tests.concurrency import streamer
from tests.support.depth import DEPTH

KILLS = 1 if DEPTH == 1 else 24
MOST_KILLS = KILLS + 8  # a busy machine kills too late now and then
BATCHES = MOST_KILLS + 2


def _seen(process: subprocess.Popen[str], happened: Callable[[], bool], *, within_s: float = 180) -> None:
    until = time.monotonic() + within_s
    while not happened():
        time.sleep(0.0005)  # the moment between two steps is a short one
        if process.poll() is not None:
            raise AssertionError(f"the query ended by itself: {process.communicate()[1][-2000:]}")
        assert time.monotonic() < until, "the query did nothing"


@pytest.mark.hypothesis
def test_every_row_is_there_once_after_each_kill(spark: SparkSession, tmp_path: Path) -> None:
    source, target, checkpoint = tmp_path / "source", tmp_path / "target", tmp_path / "checkpoint"
    made = DeltaTable.create(None).location(str(source)).addColumn("n", "long").execute()
    for n in range(BATCHES):
        made.append(pa.table({"n": pa.array([2 * n, 2 * n + 1], pa.int64())}))
    states = set[tuple[bool, bool]]()
    for kill in range(MOST_KILLS):
        batch = kill + 1
        offset, committed = checkpoint / "offsets" / str(batch), checkpoint / "commits" / str(batch)
        in_table = target / "_delta_log" / f"{batch + 1:020}.json"  # version 0 makes the table
        process = streamer.start(source, target, checkpoint)
        try:
            # Every second time before the table has the batch, else after it and before Spark knows.
            _seen(process, (offset if kill % 2 else in_table).exists)
        finally:
            streamer.kill(process)
        states.add((in_table.exists(), committed.exists()))
        found = DeltaTable.forPath(None, str(target)).toArrow().column("n").to_pylist()
        assert len(found) == len(set(found)), "a batch is there twice"
        if kill + 1 >= KILLS and any(not known for _, known in states):
            break
    assert any(not known for _, known in states), "every kill came too late"
    streamer.run(spark, str(source), str(target), str(checkpoint))
    rows = DeltaTable.forPath(None, str(target)).toArrow().column("n").to_pylist()
    assert sorted(rows) == list(range(2 * BATCHES))
