"""Makes tracebacks, warnings and log records safe for the terminal, like the output of a command.

1. Errors, warnings and log records contain texts of a table, so all of them pass `visible`.
2. A command restores the process settings that it changed, except that Holdfast prints a traceback that leaves it.
"""

from __future__ import annotations

import logging
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from holdfast.cli.visible import visible


@contextmanager
def guarded() -> Iterator[None]:
    """Make everything that Python prints safe for the terminal while a command runs."""
    spelled, last_resort = warnings.formatwarning, logging.lastResort
    formatter = None if last_resort is None else last_resort.formatter

    def warning(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        return visible(spelled(message, category, filename, lineno, line))

    warnings.formatwarning = warning
    if last_resort is not None:
        last_resort.setFormatter(_Visible())
    before, sys.excepthook = sys.excepthook, _show
    try:
        yield
        sys.excepthook = before
    except (SystemExit, KeyboardInterrupt):
        sys.excepthook = before
        raise
    finally:
        warnings.formatwarning = spelled
        if last_resort is not None:
            last_resort.setFormatter(formatter)


class _Visible(logging.Formatter):
    """Formats log records with Python's default format, safe for the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(visible("".join(traceback.format_exception(kind, error, trace))))
