"""`make interop`: write tables across the feature matrix, ask every engine about each, and write down what came of it.

`python -m tests.interop delta` or `iceberg` asks about one format, and leaves the page's other part as it is.

1. Every engine has to be there: without one of them nothing is written down, and the run fails.
2. Wrong rows, wrong row ids or an engine that breaks over our bytes fail the run, after everything was tried.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pyspark.sql import SparkSession

import holdfast
from tests.interop import iceberg, iceberg_page
from tests.interop.answers import Answer, Works, Wrong
from tests.interop.engines import IN_PROCESS, Engine
from tests.interop.features import NAMES, Recipe, ordered, recipe, title
from tests.interop.indexes import watch
from tests.interop.page import DEFAULTS, PLAIN, accepted, evidence, page
from tests.interop.pairs import covering, met, possible
from tests.interop.peer import ROOT, Peer, start
from tests.interop.stories import tell
from tests.interop.tables import build
from tests.interop.trials import READ, trial

PAGE = ROOT / "docs" / "compatibility.md"


class Matrix:
    """Tables, each written once, and the answers of engines, each asked once."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._paths: dict[Recipe, Path] = {}
        self.found: dict[str, dict[Recipe, Mapping[str, Answer]]] = {}

    def ask(self, engine: Engine, recipes: Iterable[Recipe]) -> None:
        """Have an engine try these tables, unless it has."""
        answers = self.found.setdefault(engine.name, {})
        for wanted in recipes:
            if wanted in answers:
                continue
            path, began = self._path(wanted), time.monotonic()
            answers[wanted] = trial(engine, wanted, path, self._scratch, self._spark if "spark" in wanted else None)
            _say(engine, wanted, answers[wanted], time.monotonic() - began)

    @cached_property
    def _spark(self) -> SparkSession:
        return holdfast.session(
            "interop", master="local[2]", **{"spark.driver.memory": "1g", "spark.sql.session.timeZone": "UTC"}
        )

    def _path(self, wanted: Recipe) -> Path:
        if wanted not in self._paths:
            path = self._scratch / f"table-{len(self._paths)}"
            build(wanted, path, self._spark if "spark" in wanted else None)
            self._paths[wanted] = path
        return self._paths[wanted]


def _say(engine: Engine, made_of: Recipe, answers: Mapping[str, Answer], seconds: float) -> None:
    counts = f"{sum(a == Works() for a in answers.values())} of {len(answers)} work"
    print(f"{engine.name:<12} {seconds:5.1f} s  {counts:<14} {title(made_of)}", flush=True)
    for operation, answer in answers.items():
        if isinstance(answer, Wrong):
            print(f"  WRONG {operation}: {answer.text}", flush=True)


def run(engines: Iterable[Engine], scratch: Path) -> str:
    """Ask all engines about all tables; the page. Raises SystemExit where something was wrong."""
    matrix = Matrix(scratch)
    listed = list(engines)
    for engine in listed:
        matrix.ask(engine, [PLAIN, DEFAULTS, *covering(NAMES)])
        done = matrix.found[engine.name]
        for operation in (READ, *(change.name for change in engine.offers)):
            matrix.ask(engine, [recipe(name) for name in NAMES if evidence(done, name, operation) != Works()])
            matrix.ask(engine, covering(accepted(done, operation)))
        for operation in (READ, *(change.name for change in engine.offers)):
            for pair in sorted(map(ordered, possible(accepted(done, operation)))):
                if frozenset(pair) not in met(made_of for made_of, a in done.items() if a.get(operation) == Works()):
                    matrix.ask(engine, [recipe(*pair)])  # a table of many features may hide what two of them do
    versions = {engine.name: engine.version for engine in listed}
    offers = {
        engine.name: [change.name for change in engine.offers] + ["append by Holdfast on top"] for engine in listed
    }
    written = page(versions, offers, matrix.found)
    wrong = [
        a
        for done in matrix.found.values()
        for answers in done.values()
        for a in answers.values()
        if isinstance(a, Wrong)
    ]
    if wrong:
        print(written)
        raise SystemExit(f"{len(wrong)} answers are wrong: see above; {PAGE.name} is left as it was")
    return written


def main(asked: Sequence[str]) -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    assert set(asked) <= {"delta", "iceberg"}, f"{asked} names a format that there is none of"
    delta, mark, about_iceberg = PAGE.read_text().partition(iceberg_page.TITLE)
    about_iceberg = mark + about_iceberg
    with tempfile.TemporaryDirectory(prefix="interop-") as directory:
        if "iceberg" in asked:
            about_iceberg = iceberg.run(Path(directory))
            PAGE.write_text(delta + about_iceberg)
        if "delta" in asked:
            PAGE.write_text(f"{_delta(Path(directory))}\n{about_iceberg}")
    print(f"{PAGE.relative_to(ROOT)} is written")


def _delta(scratch: Path) -> str:
    peer = start(scratch)
    if not isinstance(peer, Peer):
        raise SystemExit(f"delta-spark is missing: {peer}")
    try:
        print(f"delta-spark read {tell(peer)} of random stories as they were", flush=True)
        print(f"indexes answered right after {watch(peer, scratch)} by delta-spark and us", flush=True)
        return run([peer, *IN_PROCESS], scratch)
    finally:
        peer.close()


if __name__ == "__main__":
    main(sys.argv[1:] or ["delta", "iceberg"])
