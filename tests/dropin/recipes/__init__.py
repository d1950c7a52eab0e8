"""Pipelines as delta-spark's documentation teaches them, in our words, each run by two engines.

`make test` runs them on Holdfast's drop-in, `make interop` on delta-spark itself, which is what makes their assertions
true. A recipe takes a session and an empty directory, and knows no engine: it may use what both have and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from inspect import getmembers, isfunction
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

Recipe = Callable[[SparkSession, str], None]
PAGES = (
    "quick_start",
    "batch",
    "names",
    "streaming",
    "utilities",
    "constraints",
    "columns",
    "change_feed",
    "merges",
    "layout",
    "identity",
    "mistakes",
)


def recipes() -> Iterator[tuple[str, Recipe]]:
    """Every recipe with the name it is known by."""
    for page in PAGES:
        module = import_module(f"{__name__}.{page}")
        for name, function in getmembers(module, isfunction):
            if function.__module__ == module.__name__ and not name.startswith("_"):
                yield f"{page}.{name}", function


def told(frame: DataFrame) -> list[tuple[object, ...]]:
    """The rows of a small frame, as tuples in order."""
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def files(path: str) -> set[str]:
    """The data files that lie in a table's directory."""
    return {str(file.relative_to(path)) for file in Path(path).rglob("*.parquet") if "_delta_log" not in file.parts}


@contextmanager
def refused(kind: type[Exception], saying: str) -> Iterator[None]:
    """Holds that what is done inside raises this, with this text somewhere in its message, whatever its case."""
    try:
        yield
    except kind as error:
        if saying.lower() not in str(error).lower():
            raise
    else:
        raise AssertionError(f"nothing was refused: {saying}")
