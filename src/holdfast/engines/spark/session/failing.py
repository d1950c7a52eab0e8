"""Converts the error of a failed Spark job to an error of `holdfast.errors`, where it is about a file or a row.

A task's error comes as text: the traceback of a Python worker, or Spark's condition with a file in it.

1. What Holdfast raised in a task is raised here again, under its own class and with its own sentence.
2. A file that Spark cannot read is Damaged, and one it cannot find is a MissingFile; both are named.
3. What is nobody's but the user's (a function that fails, a cast) stays what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from holdfast.engines.spark.dml.constraints import texts_of, violation_of
from holdfast.errors import (
    Damaged,
    Invalid,
    LimitReached,
    MissingFile,
    OutcomeUnknown,
    TableError,
    Unavailable,
    Unsupported,
)

try:
    from py4j.protocol import Py4JError
except ImportError:  # a Connect-only installation has no gateway
    Py4JError = PySparkException

JOB_ERRORS = (PySparkException, Py4JError)
"""What Spark raises where a job or a plan fails; a classic session has Java's own words for some of it."""

_SAID = re.compile(r"holdfast\.errors\.(\w+): (.+)")
_PLAIN = {kind.__name__: kind for kind in (Invalid, LimitReached, OutcomeUnknown, Unavailable, Unsupported)}
_OF_FILES = {kind.__name__: kind for kind in (Damaged, MissingFile)}
_PATH = re.compile(r"(?:\w+:/|/)\S*[^\s,;:.)]")
_UNREAD = re.compile(r"\[FAILED_READ_FILE\.(\w+)\][^\n]*?((?:\w+:/|/)\S*?)\.?(?:\s|$)")


@contextmanager
def jobs() -> Iterator[None]:
    """While this process waits for a job."""
    try:
        yield
    except JOB_ERRORS as error:
        failure = failure_of(error)
        if failure is None:
            raise
        raise failure from error


def failure_of(error: BaseException) -> TableError | None:
    """What a failed job says of a row or of a file; None where it says neither."""
    if (violation := violation_of(error)) is not None:
        return violation
    for text in texts_of(error):
        if match := _SAID.search(text):
            kind, message = match[1], match[2].strip()
            if kind in _PLAIN:
                return _PLAIN[kind](message)
            if kind in _OF_FILES:
                path = _PATH.search(message)
                return _OF_FILES[kind](message, path=path[0] if path else "")
        if match := _UNREAD.search(text):
            condition, file = match[1], match[2]
            if condition == "FILE_NOT_EXIST":
                return MissingFile(f"{file} is not there, but it is to be read; restore it", path=file)
            return Damaged(f"{file} cannot be read by Spark ({condition}); restore it", path=file)
    return None
