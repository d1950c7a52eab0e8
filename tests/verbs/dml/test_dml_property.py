"""Random stories of a table against a model of its rows: after every step rows, ids and versions are the model's."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.plan.dml.change import Side
from tests.support.depth import DEPTH, examples
from tests.support.sayings import Said, When, both, either, equal, less, plus, same
from tests.support.story import Kind, Story

fresh = itertools.count()

WHERE = [
    Said("k = 1", lambda t, _: equal(t["k"], 1)),
    Said("t.k > 2 OR v IS NULL", lambda t, _: either(less(2, t["k"]), t["v"] is None)),
    Said("p = 'a'", lambda t, _: equal(t["p"], "a")),
    Said("p IS NULL", lambda t, _: t["p"] is None),
    Said("d >= 0", lambda t, _: None if t["d"] is None else not less(t["d"], 0.0)),
    Said("k + v > 3", lambda t, _: less(3, plus(t["k"], t["v"]))),
    Said("k = 77", lambda t, _: equal(t["k"], 77)),
    Said("k IN (NULL, 1)", lambda t, _: either(equal(t["k"], 1), None)),
]
SETS = [
    ("v", Said("v + 1", lambda t, _: plus(t["v"], 1))),
    ("p", Said("CASE p WHEN 'a' THEN 'b' WHEN 'b' THEN NULL ELSE 'a b/c' END", lambda t, _: moved(t["p"]))),
    ("d", Said("-d", lambda t, _: None if t["d"] is None else -t["d"])),
    ("k", Said("coalesce(t.k, 5)", lambda t, _: 5 if t["k"] is None else t["k"])),
]
ON = [
    Said("t.k = s.k", lambda t, s: equal(t["k"], s["k"])),
    Said("t.k <=> s.k", lambda t, s: same(t["k"], s["k"])),
    Said("s.d = t.d", lambda t, s: equal(t["d"], s["d"])),
    Said("t.k = s.k AND t.p = 'a'", lambda t, s: both(equal(t["k"], s["k"]), equal(t["p"], "a"))),
    Said("t.k = s.k AND t.v < s.v", lambda t, s: both(equal(t["k"], s["k"]), less(t["v"], s["v"]))),
    Said("t.p = s.p AND t.k = s.k", lambda t, s: both(equal(t["p"], s["p"]), equal(t["k"], s["k"]))),
    Said("t.k > s.k + 2", lambda t, s: less(plus(s["k"], 2), t["k"])),
]
IF_MATCHED = [
    Said("s.v > t.v", lambda t, s: less(t["v"], s["v"])),
    Said("t.p <=> s.p", lambda t, s: same(t["p"], s["p"])),
]
MATCHED_SETS = [
    ("v", Said("s.v", lambda t, s: s["v"])),
    ("p", Said("s.p", lambda t, s: s["p"])),
    ("k", Said("t.k + 1", lambda t, s: plus(t["k"], 1))),
]
IF_NEW = [Said("s.v IS NOT NULL", lambda _, s: s["v"] is not None), Said("k > 1", lambda _, s: less(1, s["k"]))]
NEW_SETS = [
    ("k", Said("s.k", lambda _, s: s["k"])),
    ("v", Said("s.v * 10", lambda _, s: None if s["v"] is None else s["v"] * 10)),
    ("p", Said("p", lambda _, s: s["p"])),
    ("d", Said("d", lambda _, s: s["d"])),
]


def moved(p: str | None) -> str | None:
    return {"a": "b", "b": None}.get(p or "", "a b/c")


VALUES: dict[str, list[Any]] = {
    "k": [None, 0, 1, 2, 3, 4, 5],
    "v": [None, 1, 2, 3],
    "d": [None, 0.0, -0.0, 1.5, float("nan")],
    "p": [None, "a", "b", "a b/c"],
}
rows = st.fixed_dictionaries({name: st.sampled_from(choices) for name, choices in VALUES.items()})


def some(sets: list[tuple[str, Said]]) -> st.SearchStrategy[tuple[tuple[str, Said], ...]]:
    return st.lists(st.sampled_from(sets), min_size=1, max_size=3, unique_by=lambda pair: pair[0]).map(tuple)


def clauses(
    side: Side, conditions: list[Said], made: st.SearchStrategy[Any], most: int = 2
) -> st.SearchStrategy[list[When]]:
    """Clauses of a side: only the last may take every row."""
    open_ = st.builds(When, st.just(side), st.sampled_from(conditions), made)
    last = st.builds(When, st.just(side), st.none() | st.sampled_from(conditions), made)
    return st.tuples(st.lists(open_, max_size=most - 1), st.lists(last, max_size=1)).map(
        lambda pair: [*pair[0], *pair[1]]
    )


all_clauses = st.tuples(
    clauses(Side.MATCHED, IF_MATCHED, st.none() | some(MATCHED_SETS)),
    clauses(Side.ALONE, WHERE, st.none() | some(SETS)),
    clauses(Side.NEW, IF_NEW, some(NEW_SETS)),
).map(lambda sides: [when for side in sides for when in side])


class Stories(RuleBasedStateMachine):
    """Steps on one table; subclasses say which engine carries them out."""

    story: Story

    @staticmethod
    def open(path: str) -> DeltaTable:
        return DeltaTable.forPath(None, path)

    @initialize(
        kind=st.builds(Kind, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([2, 100])),
        first=st.lists(rows, min_size=1, max_size=8),
    )
    def begin(self, kind: Kind, first: list[dict[str, Any]]) -> None:
        self.story = Story(f"memory://stories/{next(fresh)}", self.open, kind)
        self.story.append(first)

    @rule(new=st.lists(rows, min_size=1, max_size=6))
    def append(self, new: list[dict[str, Any]]) -> None:
        self.story.append(new)

    @rule(condition=st.none() | st.sampled_from(WHERE), data=st.data())
    def delete(self, condition: Said | None, data: st.DataObject) -> None:
        self.story.delete(condition, data.draw(st.sampled_from(self.story.modes)))

    @rule(condition=st.none() | st.sampled_from(WHERE), sets=some(SETS), data=st.data())
    def update(self, condition: Said | None, sets: tuple[tuple[str, Said], ...], data: st.DataObject) -> None:
        self.story.update(condition, sets, data.draw(st.sampled_from(self.story.modes)))

    @rule(
        source=st.lists(rows, max_size=5),
        on=st.sampled_from(ON),
        whens=all_clauses.filter(bool),
        data=st.data(),
    )
    def merge(self, source: list[dict[str, Any]], on: Said, whens: list[When], data: st.DataObject) -> None:
        self.story.merge(source, on, whens, data.draw(st.sampled_from(self.story.modes)))

    @precondition(lambda self: len(self.story.versions) > 2)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        self.story.restore(data.draw(st.sampled_from(sorted(self.story.versions))))

    @rule()
    def checkpoint(self) -> None:
        self.story.checkpoint()

    @rule()
    def compact_log(self) -> None:
        self.story.compact_log()

    @rule(rows=st.integers(1, 20))
    def compact(self, rows: int) -> None:
        self.story.compact(rows)

    @rule()
    def purge(self) -> None:
        self.story.purge()

    @rule(names=st.lists(st.sampled_from(["k", "v", "d"]), min_size=1, max_size=3, unique=True), rows=st.integers(1, 9))
    def z_order(self, names: list[str], rows: int) -> None:
        self.story.z_order(names, rows)

    @precondition(lambda self: not self.story.kind.partitioned and self.story.kind.tracked)
    @rule(
        names=st.lists(st.sampled_from(["k", "v", "d", "p"]), min_size=1, max_size=4, unique=True),
        rows=st.integers(1, 9),
    )
    def recluster(self, names: list[str], rows: int) -> None:
        self.story.recluster(names, rows)


class SharedStories(Stories):
    """Steps on a table that another engine writes to as well."""

    @initialize(partitioned=st.booleans(), first=st.lists(rows, min_size=1, max_size=8))
    def begin(self, partitioned: bool, first: list[dict[str, Any]]) -> None:
        self.directory = TemporaryDirectory()
        kind = Kind(partitioned, vectors=False, tracked=False)
        self.story = Story(f"{self.directory.name}/table", self.open, kind)
        self.story.append(first)

    @rule(new=st.lists(rows, min_size=1, max_size=6))
    def append_by_peer(self, new: list[dict[str, Any]]) -> None:
        self.story.append_by_peer(new)

    @rule(condition=st.sampled_from(WHERE[:1] + WHERE[2:4]))
    def delete_by_peer(self, condition: Said) -> None:
        self.story.delete_by_peer(condition)

    @rule()
    def compact_by_peer(self) -> None:
        self.story.compact_by_peer()

    def teardown(self) -> None:
        self.directory.cleanup()


def test_stories_shared_with_another_engine() -> None:
    run_state_machine_as_test(SharedStories, settings=settings(examples(3), stateful_step_count=8))


@pytest.mark.parametrize("vectors", [True, False])
def test_a_story_on_spark(spark: SparkSession, tmp_path: Path, vectors: bool) -> None:
    """The same steps and the same model, on the other engine."""
    rng = random.Random(DEPTH)
    kind = Kind(partitioned=vectors, mapped=not vectors, vectors=vectors, feed=not vectors)
    story = Story(str(tmp_path / "table"), lambda path: DeltaTable.forPath(spark, path), kind)
    for _ in range(DEPTH):
        story.append(drawn(rng, 12))
        story.update(rng.choice(WHERE), (rng.choice(SETS),), rng.choice(story.modes))
        matched = When(Side.MATCHED, rng.choice(IF_MATCHED), tuple(MATCHED_SETS[:2]))
        alone = When(Side.ALONE, rng.choice(WHERE), rng.choice([None, (rng.choice(SETS),)]))
        new = When(Side.NEW, rng.choice([None, *IF_NEW]), tuple(NEW_SETS))
        on = rng.choice(ON[:-1])
        story.merge(drawn(rng, 4), on, [matched, alone, new], rng.choice(story.modes))
        story.delete(rng.choice(WHERE), rng.choice(story.modes))
        story.restore(rng.choice(sorted(story.versions)))
        if kind.partitioned:
            story.z_order(["k", "d"], 4)
        else:
            story.recluster(["k", "p"], 4)


def drawn(rng: random.Random, count: int) -> list[dict[str, Any]]:
    return [{name: rng.choice(choices) for name, choices in VALUES.items()} for _ in range(count)]


def test_stories_without_spark() -> None:
    run_state_machine_as_test(Stories, settings=settings(examples(8), stateful_step_count=8))
