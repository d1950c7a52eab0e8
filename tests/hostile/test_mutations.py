"""Changed files of every kind: the answer is right, an error of the tree, or a failure of this test."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tests.hostile import child
from tests.hostile.kinds import KINDS, Kind
from tests.support.depth import DEPTH, SEED

CASES = 8  # of each kind, at ordinary depth
LONGEST_S = 60.0  # of one case, on a machine that has other work as well


@pytest.fixture(scope="module")
def server() -> Any:
    """Where processes fork from."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.hostile.child"])
    return context


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Tables, each made once."""
    kept: dict[Any, Path] = {}

    def table(kind: Kind, name: str) -> Path:
        maker = name if not hasattr(kind.make, "__qualname__") or "<locals>" in kind.make.__qualname__ else kind.make
        if maker not in kept:
            kept[maker] = tmp_path_factory.mktemp("hostile")
            kind.make(kept[maker])
        return kept[maker]

    return table


class Workers:
    """One process at a time that works through cases; another where one died or took too long."""

    def __init__(self, context: Any, name: str, table: Path) -> None:
        self._context, self._name, self._table = context, name, table
        self._process: Any = None
        self._pipe: Connection | None = None

    def verdict(self, number: int) -> child.Verdict:
        """What comes of a case."""
        pipe = self._pipe or self._started()
        pipe.send(number)
        if not pipe.poll(LONGEST_S):
            return self._gave_up(f"took more than {LONGEST_S:.0f} s")
        try:
            verdict: child.Verdict = pipe.recv()
        except EOFError:
            self._process.join(LONGEST_S)
            return self._gave_up(f"the process died (exit {self._process.exitcode})")
        return verdict

    def end(self) -> None:
        if self._pipe is not None:
            self._pipe.send(None)
            self._process.join(LONGEST_S)
            self._pipe.close()

    def _started(self) -> Connection:
        self._pipe, theirs = self._context.Pipe()
        arguments = (theirs, self._name, str(self._table), SEED)
        self._process = self._context.Process(target=child.work, args=arguments)
        self._process.start()
        theirs.close()
        assert self._pipe.poll(LONGEST_S), "the process answers"
        assert self._pipe.recv() > 0
        return self._pipe

    def _gave_up(self, why: str) -> child.Verdict:
        self._process.kill()
        self._process.join()
        assert self._pipe is not None
        self._pipe.close()
        self._pipe = None
        return child.Verdict("", "died", why)


@pytest.fixture
def workers(request: pytest.FixtureRequest, server: Any, made: Any) -> Iterator[Workers]:
    name = request.getfixturevalue("name")
    mine = Workers(server, name, made(KINDS[name], name))
    yield mine
    mine.end()


@pytest.mark.parametrize("name", KINDS)
def test_changed_files_are_read_rightly_or_refused(
    name: str, workers: Workers, record_property: Callable[[str, object], None]
) -> None:
    outcomes, failures = Counter[str](), []
    for number in range(CASES * DEPTH):
        verdict = workers.verdict(number)
        outcomes[verdict.outcome] += 1
        if verdict.failure:
            failures.append(f"HOLDFAST_SEED={SEED}, case {number}: {verdict.change}\n{verdict.failure}")
    record_property("examples", CASES * DEPTH)
    print(f"{name}: {CASES * DEPTH} cases, {dict(outcomes)}")
    assert not failures, f"{len(failures)} of {CASES * DEPTH} cases of {name}\n\n" + "\n\n".join(failures[:8])
