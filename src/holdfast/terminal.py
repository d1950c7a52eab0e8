"""Signs of life on a terminal, and nowhere else. For commands too, so nothing here needs Spark.

1. Where stderr is no terminal, nothing is shown.
2. What ends within a second shows nothing, and what was shown is gone when the work is done.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console

PATIENCE_S = 1.0


class Display(Protocol):
    """What can be shown for a while."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


def on_terminal() -> bool:
    """Whether somebody is looking."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def phase(what: str) -> Iterator[None]:
    """Show that this process is at work, if it takes long."""
    if not on_terminal():
        yield
        return
    with shown_late(Console(stderr=True).status(what)):
        yield


@contextmanager
def shown_late(display: Display) -> Iterator[None]:
    """Show something while work goes on, once it has taken longer than anybody waits without wondering."""
    late = threading.Timer(PATIENCE_S, display.start)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()
        display.stop()
