"""How far a command is, where it can be counted; what cannot is a phase (`spark.terminal`).

1. Work that shows its own steps (compaction, vacuum) is left to do so: two displays would overwrite each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.cli.visible import screen
from holdfast.terminal import on_terminal


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar; what is handed out takes how much is done and how much there is."""
    if not on_terminal():
        yield lambda done, total: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen(stderr=True), transient=True) as bar:
        number = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(number, completed=done, total=total)
