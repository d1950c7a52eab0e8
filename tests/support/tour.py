"""A small tour without Spark, taken once in a process and only looked at."""

from __future__ import annotations

import io
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from weakref import finalize

from rich.console import Console

from holdfast.cli.tour.guide import WIDEST
from holdfast.cli.tour.story import Scene, take
from holdfast.env import fixed
from holdfast.report.facts import Facts

ROWS = 2_000  # a day
NO_SPARK = "there is no <Java>"


@dataclass(frozen=True)
class Toured:
    """What a tour found, what it showed, and where its tables are."""

    facts: Facts
    screen: str
    home: Path


@cache
def toured() -> Toured:
    """The one tour of this process; its tables are gone when the process ends."""
    place = tempfile.TemporaryDirectory(prefix="holdfast-toured-")
    finalize(toured, place.cleanup)
    screen = io.StringIO()
    facts = take(Scene(Path(place.name), ROWS, NO_SPARK), Console(file=screen, width=WIDEST, highlight=False), fixed())
    return Toured(facts, screen.getvalue(), Path(place.name))
