"""The near end of delta-spark: starts its process, asks, and reads what it left."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather

from bench import harness, peers
from tests.interop.answers import Refused
from tests.interop.changes import APPEND, DELETE, MERGE, OPTIMIZE, UPDATE, Change
from tests.interop.features import Recipe, ordered

ROOT = Path(__file__).parents[2]
_PATIENCE_S = 1800  # a busy machine takes minutes for what takes seconds on a quiet one
_numbers = count()


@dataclass(frozen=True)
class Peer:
    """A running delta-spark."""

    process: harness.Engine
    scratch: Path
    version: str
    name: str = "delta-spark"
    offers: tuple[Change, ...] = (APPEND, UPDATE, MERGE, DELETE, OPTIMIZE)

    def rows(
        self, recipe: Recipe, path: Path, where: Sequence[str] = ("true",), *, ids: bool = False
    ) -> list[pa.Table]:
        out = self.scratch / f"rows-{next(_numbers)}"
        tracked = ids and "row_tracking" in recipe
        self._call("read", recipe, path, where=list(where), out=str(out), ids=tracked)
        return [pyarrow.feather.read_table(f"{out}.{i}", memory_map=False) for i in range(len(where))]

    def change(self, recipe: Recipe, path: Path, wanted: Change) -> None:
        self._call("change", recipe, path, wanted=wanted.name)

    def versions(self, path: Path, at: Sequence[int]) -> dict[int, pa.Table]:
        """The rows of versions of a table of ours, with the columns `_row_id` and `_row_version`."""
        out = self.scratch / f"rows-{next(_numbers)}"
        self._call("versions", frozenset(), path, at=list(at), out=str(out))
        found = pyarrow.feather.read_table(str(out), memory_map=False)
        return {version: found.filter(pc.equal(found["_at"], version)) for version in at}

    def feed(self, path: Path, start: int, end: int) -> pa.Table:
        """The change data feed of versions, both included."""
        out = self.scratch / f"rows-{next(_numbers)}"
        self._call("feed", frozenset(), path, start=start, end=end, out=str(out))
        return pyarrow.feather.read_table(str(out), memory_map=False)

    def statement(self, path: Path, text: str) -> None:
        """Run a statement of SQL, which may name the table by its path."""
        self._call("statement", frozenset(), path, text=text)

    def close(self) -> None:
        self.process.close()

    def _call(self, request: str, recipe: Recipe, path: Path, **more: object) -> None:
        answer = self.process.call(request, limit_s=_PATIENCE_S, path=str(path), made_of=list(ordered(recipe)), **more)
        if answer["refused"] is not None:
            raise Refused(sentence(answer["refused"]))


def start(scratch: Path) -> Peer | str:
    """delta-spark, started; or why it cannot be had."""
    if (trouble := peers.make()) is not None:
        return trouble
    jars = sorted(peers.JARS.glob("*.jar"))
    delta = next(m[1] for jar in jars if (m := re.fullmatch(r"delta-spark_.*-([\d.]+)\.jar", jar.name)))
    python = peers.HOME / "bin/python"
    command = [python, "-m", "tests.interop.spark_peer", ",".join(map(str, jars))]
    process = harness.Engine(command, {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)})
    return Peer(process, scratch, f"{delta} on Spark {process.call('start')['spark']}")


def sentence(text: str) -> str:
    """What an error says, without the trace below it."""
    for line in text.splitlines():
        if found := re.search(r"\[[A-Z][A-Z_.]+\].*|(?<=Exception: ).+|(?<=Error: ).+", line):
            return found[0]
    return text.strip().splitlines()[0]
