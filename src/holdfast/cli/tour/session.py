"""Starts a Spark session for the tour if there is a Java, without output of its own."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.cli.visible import visible
from holdfast.engines.spark.session.java import ADVICE, find_java
from holdfast.terminal import phase
from holdfast.verbs.stream.source import session


@contextmanager
def prepared() -> Iterator[str]:
    """Start a session, unless one is active; yields why there is none, or an empty text."""
    if SparkSession.getActiveSession() is not None:
        yield ""
        return
    if find_java() is None:
        yield f"Spark needs Java: {ADVICE}"
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-spark-") as logs:
        with phase("starting Spark"):
            spark = _started(Path(logs) / "spark.log")
        try:
            yield ""
        finally:
            spark.stop()


def _started(log: Path) -> SparkSession:
    """A session whose JVM logs to a file; if it does not start, the file is printed."""
    screen = os.dup(2)
    started = False
    with log.open("wb") as quiet:
        os.dup2(quiet.fileno(), 2)
    try:
        spark = session("holdfast-tour", **{"spark.sql.shuffle.partitions": "2"})
        started = True
        return spark
    finally:
        os.dup2(screen, 2)
        os.close(screen)
        if not started:
            sys.stderr.write(visible(log.read_text(errors="replace")))
