"""Shows the progress of Spark Connect jobs on a terminal.

Tasks of a classic session are shown by Spark itself, if its user wants that (`spark.ui.showConsoleProgress`). A Connect
client only hears of them, through a handler, so here they become a bar. What this process does by itself (a commit, a
checkpoint) is a line while it lasts: see `terminal`.

1. Where stderr is no terminal, no handler is registered.
2. Handlers of the user's own stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from holdfast.engines.spark.session.failing import jobs
from holdfast.terminal import on_terminal, shown_late


@contextmanager
def tasks(spark: SparkSession, what: str) -> Iterator[None]:
    """Wait for a job, and have its failure as an error of the tree.

    How many of its tasks are done is shown where Spark does not show it; of a job without a name, nothing.
    """
    with jobs(), _shown(spark, what):
        yield


@contextmanager
def _shown(spark: SparkSession, what: str) -> Iterator[None]:
    if not (what and on_terminal() and is_remote(spark)):
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    number = bar.add_task(what, total=None)

    def show(stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        known = list(stages or ())
        total = sum(stage.num_tasks for stage in known)
        bar.update(number, total=total or None, completed=sum(stage.num_completed_tasks for stage in known))

    handler: Any = show  # PySpark declares a class and calls a function
    spark.registerProgressHandler(handler)
    try:
        with shown_late(bar):
            yield
    finally:
        spark.removeProgressHandler(handler)


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is a Connect client."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
