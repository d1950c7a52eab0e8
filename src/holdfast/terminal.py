"""Shows on a terminal that work is in progress.

1. Where stderr is no terminal, nothing is shown.
2. Work that ends within a second shows nothing, and the display disappears when the work ends.
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
    """Something of `rich` that can be shown and removed."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


def on_terminal() -> bool:
    """Whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def phase(what: str) -> Iterator[None]:
    """Show a status line while the body runs, if it takes long."""
    if not on_terminal():
        yield
        return
    with shown_late(Console(stderr=True).status(what)):
        yield


@contextmanager
def shown_late(display: Display) -> Iterator[None]:
    """Show a display while the body runs, once it has taken PATIENCE_S."""
    late = threading.Timer(PATIENCE_S, display.start)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()
        display.stop()
