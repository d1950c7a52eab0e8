"""Random stories of a table with indexes: every lookup and every range is what a scan finds, at every version."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from holdfast import DeltaTable, between
from holdfast.engines.local.engine import LocalEngine
from holdfast.formats.delta.state import DeltaState, load
from holdfast.index.keyed import condition_of
from holdfast.index.search import Indexes
from holdfast.plan.scan.request import Request
from holdfast.predicate.evaluate import matches
from holdfast.storage.open import open_location
from holdfast.verbs.index import maintain as reindexing
from holdfast.verbs.open.delta import open_delta
from tests.index.foreign import append_by_hand, rewrite_by_hand, show_again_by_hand
from tests.support.depth import examples
from tests.support.sayings import Said
from tests.support.story import Kind, Story
from tests.verbs.dml.test_dml_property import WHERE, Stories, rows

fresh = itertools.count()
INDEXES: dict[str, tuple[list[str], str]] = {
    "k": (["k"], "btree"),
    "p": (["p"], "bitmap"),
    "pk": (["p", "k"], "btree"),
    "d": (["d"], "btree"),
    "kv": (["k", "v"], "bitmap"),
}
ASKED: list[dict[str, Any]] = [
    {"k": 1},
    {"k": [5, 0, None, 5, 99]},
    {"k": between(1, 4, includeLow=False)},
    {"p": "a"},
    {"p": None, "k": between(high=3)},
    {"p": ["a", "a b/c"], "k": [1, 2]},
    {"p": between("a", "b")},
    {"d": 0.0},
    {"d": between(0.0)},
    {"d": [float("nan"), 1.5]},
    {"k": 2, "v": 1},
    {"k": [1, 2, 3], "v": between(2)},
    {"v": 3},
    {"k": []},
]
IDS = ["_row_id", "_row_commit_version"]


class IndexStories(Stories):
    """Steps on one table and its indexes; lookups come from one object that sees everything, and from a fresh one."""

    @initialize(
        kind=st.builds(Kind, st.booleans(), st.booleans(), st.booleans(), st.just(False), st.sampled_from([2, 100])),
        first=st.lists(rows, min_size=1, max_size=8),
        names=st.lists(st.sampled_from(sorted(INDEXES)), max_size=3, unique=True),
    )
    def begin(self, kind: Kind, first: list[dict[str, Any]], names: list[str]) -> None:
        self.story = Story(f"memory://indexes/{next(fresh)}", self.open, kind)
        self.story.append(first)
        self.table = self.open(self.story.path)
        for name in names:
            self.create(name)

    @property
    def held(self) -> set[str]:
        return {info.name for info in self.table.indexes()}

    @rule(name=st.sampled_from(sorted(INDEXES)))
    def create(self, name: str) -> None:
        if name not in self.held:
            columns, kind = INDEXES[name]
            self.table.createIndex(columns, name=name, kind=kind)
            self.story.check([])

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def refresh_index(self, data: st.DataObject) -> None:
        info = self.table.refreshIndex(data.draw(st.sampled_from(sorted(self.held))))
        assert info.unusable is None
        self.story.check([])

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def rebuild_index(self, data: st.DataObject) -> None:
        self.table.rebuildIndex(data.draw(st.sampled_from(sorted(self.held))))
        self.story.check([])

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def drop_index(self, data: st.DataObject) -> None:
        assert self.table.dropIndex(data.draw(st.sampled_from(sorted(self.held))))
        self.story.check([])

    @precondition(lambda self: self.held)
    @rule(
        condition=st.sampled_from(WHERE),
        anew=st.sampled_from([True, True, False]),
        moves=st.sampled_from(["compact", "purge", "recluster", "no"]),
    )
    def there_and_back(self, condition: Said, anew: bool, moves: str) -> None:
        """Rows that are gone when indexes are brought up to date come back, and may be moved on from there."""
        version = self.table.version
        self.story.delete(condition, None)
        for name in sorted(self.held):
            self.table.rebuildIndex(name) if anew else self.table.refreshIndex(name)
        self.story.check([])
        self.story.restore(version)
        match moves:
            case "compact":
                self.story.compact(20)
            case "purge":
                self.story.purge()
            case "recluster" if not self.story.kind.partitioned:
                self.story.recluster(["v", "k"], 9)

    @rule(new=st.lists(rows, min_size=1, max_size=4))
    def append_by_another(self, new: list[dict[str, Any]]) -> None:
        append_by_hand(self.story.path, new)
        self.story.check(new)

    @precondition(lambda self: not self.story.kind.mapped)
    @rule()
    def rewrite_by_another(self) -> None:
        before = self.story.rows
        moved = rewrite_by_hand(self.story.path)
        self.story.rows = {row_id: row for row_id, row in before.items() if row_id not in moved}
        self.story.check([row for row_id, (_, row) in before.items() if row_id in moved])

    @rule()
    def show_again_by_another(self) -> None:
        """A commit that is called nothing in particular brings back what a vector hid."""
        if show_again_by_hand(self.story.path):
            table = DeltaTable.forPath(None, self.story.path)
            records = table.toArrow(metadata=IDS).to_pylist()
            self.story.rows = {row.pop("_row_id"): (row.pop("_row_commit_version"), row) for row in records}
            self.story.check([])

    @invariant()
    def lookups_are_scans(self) -> None:
        if not hasattr(self, "table"):
            return
        self.table.refresh()
        compare(self.table, load(open_location(self.story.path)))

    def teardown(self) -> None:
        if not hasattr(self, "table"):
            return
        for version in sorted(self.story.versions)[-4:]:
            compare(self.table, load(open_location(self.story.path), version=version), version)
        for name in self.held:
            assert self.table.verifyIndex(name).troubles == ()
            assert self.table.verifyIndex(name, sample=2).troubles == ()
            self.table.indexStats(name)


def compare(table: DeltaTable, state: DeltaState, version: int | None = None) -> None:
    """Every lookup against what the same condition finds among all rows, which are read without any index."""
    everything = open_delta(state).scan(Request(None, None, IDS), LocalEngine())
    for keys in ASKED if version is None else ASKED[:: 1 + version % 3]:
        where = condition_of(state.snapshot, keys)
        wanted = everything.filter(matches(everything, where))
        got = table.lookup(keys, version=version, metadata=IDS)
        assert repr(got.to_pylist()) == repr(wanted.to_pylist()), keys
        if (text := condition_text(keys)) is not None:
            pruned = table.toArrow(where=text, version=version, metadata=IDS)
            assert repr(pruned.to_pylist()) == repr(wanted.to_pylist()), text


def condition_text(keys: dict[str, Any]) -> str | None:
    """Plain equalities, as SQL."""
    if not all(isinstance(value, int | str) for value in keys.values()):
        return None
    return " AND ".join(f"{name} = {value!r}" for name, value in keys.items())


def test_lookups_of_random_stories_are_scans() -> None:
    run_state_machine_as_test(IndexStories, settings=settings(examples(4), stateful_step_count=10))


def test_lookups_use_indexes_in_these_stories(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property above is worth something only if lookups go through indexes, with hits and with tails."""
    story = Story(f"memory://indexes/{next(fresh)}", lambda path: DeltaTable.forPath(None, path), Kind())
    story.append([{"k": k % 5, "v": k, "d": 0.0, "p": "a"} for k in range(20)])
    table = DeltaTable.forPath(None, story.path)
    table.createIndex("k")
    story.append([{"k": 1, "v": 7, "d": 0.0, "p": "a"}])
    choices: list[tuple[int, int]] = []
    places = Indexes.places

    def watched(self: Indexes, choice: Any) -> Any:
        choices.append((choice.hits, len(choice.tail)))
        return places(self, choice)

    monkeypatch.setattr(Indexes, "places", watched)
    table.refresh()
    assert table.lookup(k=1).num_rows == 5
    assert choices == [(4, 1)]
    assert reindexing.indexes_of(table.handle.newest()).indexes.keys() == {"k"}


def test_an_updated_row_is_found_under_its_new_key_only() -> None:
    """Where validity is kept per segment and not per entry, row 0 is still found under its old key."""
    path = f"memory://indexes/{next(fresh)}"
    table = (
        DeltaTable.create(None).location(path).addColumns(pa.schema([("id", pa.int64()), ("a", pa.int64())])).execute()
    )
    table.append(pa.table({"id": list(range(10)), "a": [n % 3 for n in range(10)]}))
    for kind in ("bitmap", "btree"):
        table.createIndex("a", name=kind, kind=kind)
    table.update("id = 0", {"a": "77"})
    for kind in ("bitmap", "btree"):
        table.refreshIndex(kind)
        assert len(load(open_location(path)).snapshot.files) == 2
    for chosen in ("bitmap", "btree"):
        table.dropIndex({"bitmap": "btree", "btree": "bitmap"}[chosen], ifExists=True)
        assert table.lookup(a=0, columns=["id"]).column("id").to_pylist() == [3, 6, 9]
        assert table.lookup(a=77, columns=["id"]).column("id").to_pylist() == [0]
        if chosen == "bitmap":
            table.createIndex("a", name="btree")
    table.optimize().executeCompaction()
    assert table.lookup(a=0, columns=["id"]).column("id").to_pylist() == [3, 6, 9]
