"""Signs of life while long work goes on: on a terminal, and nowhere else.

Tasks of a classic session are shown by Spark itself, if its user wants that (`spark.ui.showConsoleProgress`). A Connect
client only hears of them, through a handler, so here they become a bar. What this process does by itself (a commit, a
checkpoint) is a line while it lasts.

1. Where stderr is no terminal, nothing is shown and no handler is registered.
2. What ends within a second shows nothing, and what was shown is gone when the work is done.
3. Handlers of the user's own stay.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PATIENCE_S = 1.0


def on_terminal() -> bool:
    """Whether somebody is looking."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def phase(what: str) -> Iterator[None]:
    """Show that this process is at work, if it takes long."""
    if not on_terminal():
        yield
        return
    with _shown_late(Console(stderr=True).status(what)):
        yield


@contextmanager
def tasks(spark: SparkSession, what: str) -> Iterator[None]:
    """Show how many tasks of a job are done, where Spark does not show it; of a job without a name, nothing."""
    if not (what and on_terminal() and is_remote(spark)):
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    number = bar.add_task(what, total=None)

    def told(stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        known = list(stages or ())
        total = sum(stage.num_tasks for stage in known)
        bar.update(number, total=total or None, completed=sum(stage.num_completed_tasks for stage in known))

    handler: Any = told  # PySpark declares a class and calls a function
    spark.registerProgressHandler(handler)
    try:
        with _shown_late(bar):
            yield
    finally:
        spark.removeProgressHandler(handler)


@contextmanager
def step(spark: SparkSession | None, what: str) -> Iterator[None]:
    """Show a step of long work, where no bar of tasks does."""
    if spark is not None and is_remote(spark):
        yield
        return
    with phase(what):
        yield


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is a Connect client."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


class _Display(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


@contextmanager
def _shown_late(display: _Display) -> Iterator[None]:
    late = threading.Timer(PATIENCE_S, display.start)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()
        display.stop()
