"""What Python prints beside answers (tracebacks, warnings, log records), without power over the terminal.

1. Texts of a table are in errors, warnings and notes of the log as well: all of them pass `visible` on their way.
2. What a command changes of the process is as it was when it is over, except that a traceback which leaves the command
   is printed by us.
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
    """Have what Python prints shown as the screen would, for as long as a command runs."""
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
    """Log records as they are without any setting, on the screen's terms."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(visible("".join(traceback.format_exception(kind, error, trace))))
