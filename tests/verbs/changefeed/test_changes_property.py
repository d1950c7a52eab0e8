"""Random stories of a table, and every stretch of their versions: changes are the brute-force difference by row id."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.engines.local import changefeed as local_changes
from holdfast.errors import NoRowIdentity
from tests.support.depth import DEPTH, examples
from tests.support.diff import State, applied, composed, events, full, net, state, states, text
from tests.support.story import COLUMNS, Kind, Story
from tests.verbs.dml.test_dml_property import SETS, WHERE, SharedStories, Stories, drawn, fresh, rows


class ChangeStories(Stories):
    """Steps on a table; when they end, every stretch of versions is asked for."""

    @initialize(
        kind=st.builds(Kind, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([2, 100])),
        first=st.lists(rows, min_size=1, max_size=8),
    )
    def begin(self, kind: Kind, first: list[dict[str, Any]]) -> None:
        self.story = Story(f"memory://changes/{next(fresh)}", self.open, kind)
        self.story.append(first)

    @rule(rows=st.sampled_from([3, 1000]))
    def optimize(self, rows: int) -> None:
        self.story.table.optimize(targetRows=rows, materializeDeletionsThreshold=0).executeCompaction()
        self.story.check([])

    @rule()
    def purge(self) -> None:
        self.story.table.purge()
        self.story.check([])

    def teardown(self) -> None:
        if hasattr(self, "story"):
            check_every_stretch(self.story.path)
            check_replay(self.story.path)


def check_every_stretch(path: str) -> None:
    table, known = DeltaTable.forPath(None, path), states(path)
    for start, end in itertools.combinations_with_replacement(range(len(known)), 2):
        check_stretch(table, known, start, end)


def check_stretch(table: DeltaTable, known: list[State], start: int, end: int) -> None:
    before: State = known[start - 1] if start else {}
    wanted, every = net(before, known[end], end), full(known, start, end)
    got = events(table.changes(start, end, kind="min-delta").toArrow())
    assert got == wanted
    assert applied(before, got) == {row_id: row for row_id, (_, row) in known[end].items()}
    inserts = [e for e in wanted if e[0] == "insert"]
    assert events(table.changes(start, end, kind="append-only").toArrow()) == inserts
    upserts = [e for e in wanted if e[0] in ("insert", "update_postimage")]
    assert events(table.changes(start, end, kind="upsert").toArrow()) == upserts
    if start < end:
        told = events(table.changes(start, end, kind="full-delta").toArrow())
        assert told == every
        distinct = table.changes(start, end, kind="min-delta", dropUnchanged=True)
        assert events(distinct.toArrow()) == composed(told, end)


def check_replay(path: str) -> None:
    """Another table that follows in two steps has the same rows under the same ids."""
    source = DeltaTable.forPath(None, path)
    half = source.changes(0, source.version // 2)
    copy = DeltaTable.create(None).location(f"{path}-copy").addColumns(COLUMNS).execute()
    half.applyChanges(copy)
    source.changes(resume=half.resumeToken).applyChanges(copy)
    version = copy.version
    half.applyChanges(copy)
    source.changes(0).applyChanges(copy)
    assert copy.version == version, "applied twice is applied once"
    found = {row.pop("_source_row_id"): text(row) for row in copy.toArrow().to_pylist()} if version else {}
    assert found == {row_id: row for row_id, (_, row) in state(source, source.version).items()}


class SharedChangeStories(SharedStories):
    """Steps on a table without row ids that another engine changes too: exact, or refused by version."""

    def teardown(self) -> None:
        if hasattr(self, "story"):
            check_untracked(self.story.path)
        super().teardown()


def check_untracked(path: str) -> None:
    table = DeltaTable.forPath(None, path)
    known = [Counter(map(text, table.toArrow(version=v).to_pylist())) for v in range(table.version + 1)]
    for start, end in itertools.combinations_with_replacement(range(len(known)), 2):
        for kind in ("min-delta", "full-delta"):
            blurred = [v for v in range(start, end + 1) if moves_rows(path, v)]
            if blurred:
                with pytest.raises(NoRowIdentity, match=rf"version {blurred[0]} \("):
                    table.changes(start, end, kind=kind)
                continue
            changes = table.changes(start, end, kind=kind).toArrow()
            rows = known[start - 1].copy() if start else Counter[str]()
            for change, _, row_id, row in events(changes):
                rows[row] += 1 if change in ("insert", "update_postimage") else -1
                assert row_id is None
            assert +rows == known[end]
            assert min(rows.values(), default=0) >= 0


def moves_rows(path: str, version: int) -> bool:
    """Whether a commit adds files other than those it takes rows from, as part of a change or a compaction."""
    actions = [json.loads(line) for line in (Path(path) / f"_delta_log/{version:020}.json").read_text().splitlines()]
    added, removed = ({a[kind]["path"] for a in actions if kind in a} for kind in ("add", "remove"))
    operation = next(a["commitInfo"]["operation"] for a in actions if "commitInfo" in a)
    return operation != "RESTORE" and bool(removed) and bool(added - removed)


@pytest.mark.parametrize("many", [local_changes.MANY, 1])
def test_every_stretch_of_random_stories(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(local_changes, "MANY", many)  # 1: rows that moved are always told by ids and versions first
    run_state_machine_as_test(ChangeStories, settings=settings(examples(4), stateful_step_count=7))


def test_every_stretch_of_stories_shared_with_another_engine() -> None:
    run_state_machine_as_test(SharedChangeStories, settings=settings(examples(3), stateful_step_count=6))


@pytest.mark.parametrize("vectors", [True, False])
def test_both_engines_tell_the_same(spark: SparkSession, tmp_path: Path, vectors: bool) -> None:
    rng = random.Random(DEPTH)
    story = Story(
        str(tmp_path / "table"), lambda path: DeltaTable.forPath(None, path), Kind(vectors, not vectors, vectors)
    )
    for _ in range(2):
        story.append(drawn(rng, 8))
        story.update(rng.choice(WHERE[:4]), (rng.choice(SETS),), rng.choice(story.modes))
    story.delete(WHERE[0], None)
    story.restore(3)
    story.table.optimize(materializeDeletionsThreshold=0).executeCompaction()
    story.update(WHERE[1], (SETS[0],), None)
    known = states(story.path)
    table = DeltaTable.forPath(spark, story.path)
    last = len(known) - 1
    assert events(table.changes(1, last).toDF().toArrow()) == full(known, 1, last)
    assert events(table.changes(3, last, kind="min-delta").toDF().toArrow()) == net(known[2], known[last], last)
    upserts = table.changes(2, last, kind="upsert", includeDeleted=True)
    assert events(upserts.toDF().toArrow()) == events(upserts.toArrow())
    dropped = table.changes(2, last, kind="min-delta", dropUnchanged=True)
    assert events(dropped.toDF().toArrow()) == events(dropped.toArrow())
