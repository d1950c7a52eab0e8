"""Writers interleaved at every storage operation, with faults: what they leave is what some serial order leaves.

A seed that fails is run alone with
`HOLDFAST_SEED=<seed> .venv/bin/pytest tests/verbs/commit/test_simulation.py -k interleaved`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.sql import SparkSession

from holdfast.env import fixed
from holdfast.errors import ConcurrentWrite, OutcomeUnknown, Unavailable
from holdfast.formats.delta.state import load
from holdfast.plan.dml.rebase import Clash
from holdfast.storage.base import ObjectStore
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.table.delta import DeltaTable
from holdfast.verbs.commit.rebase import _Rebase
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.dml.write import make
from holdfast.verbs.open.delta_handle import DeltaHandle
from tests.support.depth import DEPTH
from tests.support.faulty import _Wrapped
from tests.support.simulation import Kind, simulate, simulate_on
from tests.support.simulation_verbs import Append, Change, Row, arrow_of

T = TypeVar("T")
RUNS = 75  # of each group
GROUPS = 4


def _simulated(seed: int) -> Any:
    try:
        return simulate(seed)
    except BaseException as error:
        error.add_note(f"HOLDFAST_SEED={seed} .venv/bin/pytest tests/verbs/commit/test_simulation.py -k interleaved")
        raise


@pytest.mark.hypothesis
@pytest.mark.parametrize("group", range(GROUPS))
def test_interleaved_writers_leave_what_a_serial_order_leaves(group: int) -> None:
    asked = os.environ.get("HOLDFAST_SEED")
    if asked is not None:
        _simulated(int(asked)) if not group else pytest.skip("a seed was asked for")
        return
    each = RUNS * DEPTH
    seen: Counter[str] = Counter()
    for seed in range(group * each, (group + 1) * each):
        ran = _simulated(seed)
        seen["runs"] += 1
        seen["steps"] += ran.steps
        seen["refused"] += sum(isinstance(told.error, ConcurrentWrite) for told in ran.told)
        seen["broken"] += sum(told.error is not None for told in ran.told)
        done = [told.done for told in ran.told if isinstance(told.verb, Append | Change) and told.error is None]
        seen["rebased"] += sum(done_.version is not None and done_.attempts > 1 for done_ in done)
    # A simulation in which nothing happens proves nothing.
    assert seen["steps"] > 40 * seen["runs"]
    assert min(seen["refused"], seen["broken"], seen["rebased"]) > 0, seen


def test_a_seed_replays() -> None:
    for seed in range(5):
        one, two = simulate(seed), simulate(seed)
        assert (one.digest, one.steps) == (two.digest, two.steps)
        assert [told.tag for told in one.told] == [told.tag for told in two.told]


def _notices(seeds: Sequence[int]) -> str:
    for seed in seeds:
        try:
            simulate(seed)
        except AssertionError as error:
            return str(error)
    return ""


def test_the_audit_notices_rows_that_came_and_were_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Rebase, "_against_unread", lambda *given: None)
    assert "MERGE" in (noticed := _notices(range(400))) or "UPDATE" in noticed or "DELETE" in noticed


def test_the_audit_notices_rows_that_were_changed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Rebase, "_against_rows", lambda *given: None)
    assert "version" in _notices(range(400))


def test_the_audit_notices_an_abort_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(self: _Rebase) -> Clash:
        return Clash("delete-delete", self.winners[-1], "it was there")

    monkeypatch.setattr(_Rebase, "result", refuses)
    assert "FALSE ABORT" in _notices(range(400))


class _Mute(_Wrapped):
    """A store that takes a commit and then answers nobody."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.is_mute = False

    def _call(self, verb: str, key: str, run: Callable[[], T], *, writes: bool = False) -> T:
        if self.is_mute:
            raise Unavailable(f"injected before {verb} {key}")
        answer = run()
        if verb == "put_if_absent" and key.endswith("1.json"):
            self.is_mute = True
            raise OutcomeUnknown(f"injected: answer of {verb} {key} lost")
        return answer


def test_a_lost_answer_that_cannot_be_looked_up_is_unknown() -> None:
    store = _Mute(MemoryStore())
    location = Location(store, "t")
    make(location, Kind().shape, fixed(), mode=CreateMode.CREATE, plain=False)
    table = DeltaTable(DeltaHandle(None, load(location)))
    with pytest.raises(OutcomeUnknown, match="cannot be read now"):  # Unavailable would say that nothing was written
        table.append(arrow_of([Row(1, 1)]))


@pytest.mark.parametrize("seed", [0, 13, 39])
def test_the_same_writers_on_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    ran = simulate_on(spark, tmp_path / "t", seed)
    assert ran.steps > 1
