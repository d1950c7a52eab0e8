"""A process that streams one table into another: `python -m tests.concurrency.streamer SOURCE TARGET CHECKPOINT`.

Each batch is one file of the source, so that there are many moments to be killed at.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import holdfast

ROOT = Path(__file__).parents[2]


def start(source: Path, target: Path, checkpoint: Path) -> subprocess.Popen[str]:
    """A query in a process group of its own, so that its JVM and its workers can be killed with it."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.concurrency.streamer", str(source), str(target), str(checkpoint)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kill(process: subprocess.Popen[str]) -> None:
    """As when a machine loses power: nothing of it gets to say a word."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def run(spark: SparkSession, source: str, target: str, checkpoint: str) -> None:
    holdfast.register(spark)
    rows = spark.readStream.format("holdfast").option("maxFilesPerTrigger", "1").load(source)
    writer = rows.writeStream.format("holdfast").option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start(target).awaitTermination()


if __name__ == "__main__":
    run(holdfast.session("streamer", master="local[2]", **{"spark.driver.memory": "1g"}), *sys.argv[1:])
