"""Wait for what another thread or process does, as long as a busy machine may take."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(happened: Callable[[], bool], what: str, *, within_s: float = 120) -> None:
    """Return as soon as it has happened."""
    end = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < end, f"{what} did not happen within {within_s:g} s"
        time.sleep(0.005)
