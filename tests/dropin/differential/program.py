"""A program: a text of steps, with the differences that are meant to be.

    == deleting twice
    CREATE TABLE t (id INT) USING delta

    ~ condition: we name the column
    DELETE FROM t WHERE nope = 1

    >>> spark.table("t").where("id > 1")

    ~ @history t rows:operationMetrics: we count more

Steps are paragraphs: statements, or Python after `>>>`, whose last expression is the answer. `{at}` stands for a
directory of the program's own, and every program has a database of its own. A step that begins with `@` asks for the
state of a table when the program is over; these are made by the engines, and only named here to say how they differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True)
class Program:
    """What to run, and what is known to differ: by step, by what differs, why."""

    name: str
    steps: tuple[str, ...]
    meant: dict[str, dict[str, str]] = field(default_factory=dict)


def programs(*words: str) -> list[Program]:
    """All programs, or those whose names have one of the words."""
    found = [each for file in sorted(HERE.glob("*.txt")) for each in parse(file.read_text(), file.stem)]
    return [each for each in found if not words or any(word in each.name for word in words)]


def parse(text: str, page: str) -> list[Program]:
    made = []
    for part in text.split("\n== ")[1:]:
        title, _, body = part.partition("\n")
        steps: list[str] = []
        meant: dict[str, dict[str, str]] = {}
        for paragraph in body.split("\n\n"):
            lines = [line for line in paragraph.strip("\n").splitlines() if not line.startswith("# ")]
            marks = [line[2:] for line in lines if line.startswith("~ ")]
            step = "\n".join(line for line in lines if not line.startswith("~ "))
            if step:
                steps.append(step)
            for mark in marks:
                what, _, why = mark.partition(": ")
                key = str(len(steps) - 1)
                if mark.startswith("@"):
                    key, _, what = what.rpartition(" ")
                meant.setdefault(key, {})[what] = why
        made.append(Program(f"{page}: {title.strip()}", tuple(steps), meant))
    return made
