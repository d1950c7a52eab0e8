"""Signs of life while a command is at work: on a terminal, and nowhere else.

1. They are on stderr, show after a second, and are gone when the work is done.
2. Work that shows its own steps (compaction, vacuum) is left to do so: two displays would overwrite each other.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PATIENCE_S = 1.0


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say what takes so long."""
    if not _on_terminal():
        yield
        return
    status = Console(stderr=True).status(what)
    late = threading.Timer(PATIENCE_S, status.start)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()
        status.stop()


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar; what is handed out takes how much is done and how much there is."""
    if not _on_terminal():
        yield lambda done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        number = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(number, completed=done, total=total)


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
