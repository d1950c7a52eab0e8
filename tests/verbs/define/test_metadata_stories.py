"""Random stories of a table: conditions on metadata columns find, delete and update what they say, whatever moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from holdfast.engines.local.engine import LocalEngine
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.formats.delta.state import DeltaState, load
from holdfast.index.pruning import ByRowId
from holdfast.index.reader import PinnedReader
from holdfast.plan.scan.request import Condition, Request, known_columns
from holdfast.predicate.parse import parse
from holdfast.storage.open import open_location
from holdfast.verbs.open.delta import open_delta
from tests.support.depth import examples
from tests.support.story import Kind, Story
from tests.verbs.dml.test_dml_property import Stories, fresh, rows
from tests.verbs.index.test_take_stories import tagged

METADATA = [
    "_row_id",
    "_row_commit_version",
    "_row_index",
    "_file",
    "_partition",
    "_base_row_id",
    "_default_row_commit_version",
]
NUMBERS = [name for name in METADATA if name not in ("_file", "_partition")]
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "=": lambda a, b: a == b,
    "<=>": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@dataclass(frozen=True)
class Test:
    """A condition as SQL, and what it means of a row with its metadata; None is neither true nor false."""

    __test__ = False
    text: str
    means: Callable[[dict[str, Any]], bool | None]

    def __repr__(self) -> str:
        return self.text


def compared(name: str, op: str, value: int) -> Test:
    return Test(f"{name} {op} {value}", lambda row: COMPARISONS[op](row[name], value))


def among(name: str, values: Sequence[int]) -> Test:
    return Test(f"{name} IN ({', '.join(map(str, values))})", lambda row: row[name] in values)


def between(name: str, low: int, high: int) -> Test:
    return Test(f"{name} BETWEEN {low} AND {high}", lambda row: low <= row[name] <= high)


def in_file(file: str) -> Test:
    return Test(f"_file = '{file}'", lambda row: row["_file"] == file)


def of_k(value: int) -> Test:
    return Test(f"k = {value}", lambda row: None if row["k"] is None else row["k"] == value)


def not_(one: Test) -> Test:
    def means(row: dict[str, Any]) -> bool | None:
        told = one.means(row)
        return None if told is None else not told

    return Test(f"NOT ({one.text})", means)


def both(one: Test, other: Test) -> Test:
    def means(row: dict[str, Any]) -> bool | None:
        told = (one.means(row), other.means(row))
        return False if False in told else None if None in told else True

    return Test(f"({one.text}) AND ({other.text})", means)


def either(one: Test, other: Test) -> Test:
    def means(row: dict[str, Any]) -> bool | None:
        told = (one.means(row), other.means(row))
        return True if True in told else None if None in told else False

    return Test(f"({one.text}) OR ({other.text})", means)


def conditions(files: Sequence[str], highest: int) -> st.SearchStrategy[Test]:
    """Conditions that name metadata columns of a table, and now and then a column of its own."""
    numbers, names = st.integers(-1, highest + 2), st.sampled_from(NUMBERS)
    leaves = (
        st.builds(compared, names, st.sampled_from(list(COMPARISONS)), numbers)
        | st.builds(among, names, st.lists(numbers, min_size=1, max_size=4))
        | st.builds(between, names, numbers, numbers)
        | st.builds(in_file, st.sampled_from([*files, "nowhere"]))
        | st.builds(of_k, st.integers(0, 5))
    )
    return st.recursive(
        leaves,
        lambda part: st.builds(not_, part) | st.builds(both, part, part) | st.builds(either, part, part),
        max_leaves=4,
    )


class MetadataSteps(Stories):
    """Steps on a table that is asked for rows by what they are, not by what they hold."""

    pinned: Any  # the same table object all the time

    def without_notes(self, condition: Test, told: list[int]) -> None:
        """Ask a table of which nobody noted anything."""

    def everything(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.story.table.toArrow(metadata=METADATA).to_pylist()
        return found

    def drawn(self, data: st.DataObject) -> tuple[Test, list[dict[str, Any]]]:
        """A condition, and the rows that satisfy it."""
        known = self.everything()
        condition = data.draw(conditions(sorted({row["_file"] for row in known}), self.story.high_water))
        return condition, [row for row in known if condition.means(row) is True]

    @rule(data=st.data())
    def scan(self, data: st.DataObject) -> None:
        condition, expected = self.drawn(data)
        told = sorted(row["_row_id"] for row in expected)
        found = self.pinned.toArrow(where=condition.text, metadata=METADATA)
        assert sorted(found["_row_id"].to_pylist()) == told
        self.without_notes(condition, told)

    @rule(data=st.data())
    def delete_by_metadata(self, data: st.DataObject) -> None:
        condition, expected = self.drawn(data)
        mode = data.draw(st.sampled_from(self.story.modes))
        done = self.story.table.delete(condition.text, mode=mode)
        assert done.metrics["numDeletedRows"] == len(expected)
        for row in expected:
            del self.story.rows[row["_row_id"]]
        self.story.check([])

    @rule(data=st.data())
    def update_by_metadata(self, data: st.DataObject) -> None:
        condition, expected = self.drawn(data)
        mode = data.draw(st.sampled_from(self.story.modes))
        self.story.table.update(condition.text, {"v": "t._row_id + 100"}, mode=mode)
        self.changed({row["_row_id"]: row["_row_id"] + 100 for row in expected})

    @rule(data=st.data())
    def merge_by_id(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.integers(0, self.story.high_water + 1), max_size=4, unique=True))
        source = pa.table({"_row_id": pa.array(ids, pa.int64()), "v": pa.array(range(len(ids)), pa.int64())})
        mode = data.draw(st.sampled_from(self.story.modes))
        merge = self.story.table.merge(source, "t._row_id = s._row_id", mode=mode)
        merge.whenMatchedUpdate(set={"v": "s.v"}).execute()
        self.changed({row_id: v for v, row_id in enumerate(ids) if row_id in self.story.rows})

    def changed(self, values: dict[int, int]) -> None:
        for row_id, v in values.items():
            version, row = self.story.rows[row_id]
            self.story.rows[row_id] = version, {**row, "v": v}
        self.story.check([], list(values))


class MetadataStories(MetadataSteps):
    """Steps on a Delta table."""

    @initialize(
        kind=st.builds(Kind, st.booleans(), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([2, 100])),
        first=st.lists(rows, min_size=1, max_size=8),
    )
    def begin(self, kind: Kind, first: list[dict[str, Any]]) -> None:
        self.story = Story(f"memory://metadata/{next(fresh)}", self.open, kind)
        self.story.append(first)
        self.pinned = self.open(self.story.path)

    def without_notes(self, condition: Test, told: list[int]) -> None:
        state = load(open_location(self.story.path))
        for spell in (lambda text: None, lambda text: "1" + text):
            each = replace(state, snapshot=tagged(state.snapshot, spell))
            assert ids_where(each, condition.text) == told


def ids_where(state: DeltaState, text: str) -> list[int]:
    """What a scan finds that has no notes to go by."""
    snapshot = state.snapshot
    snapshot = state.snapshot
    predicate = parse(text, known_columns(snapshot, METADATA))
    request = Request((), Condition(text, text, predicate), METADATA)
    passes = (ByRowId(lambda: PinnedReader(snapshot, load_hidden)),)
    found = open_delta(state, lambda _, also: passes).scan(request, LocalEngine())
    return sorted(found["_row_id"].to_pylist())


def test_stories_of_metadata() -> None:
    run_state_machine_as_test(MetadataStories, settings=settings(examples(6), stateful_step_count=8))
