from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import DataObject, DrawFn, booleans, composite, data, integers, lists, sampled_from
from pyroaring import BitMap64

from holdfast.errors import Damaged
from holdfast.rows.layers import arrange
from holdfast.rows.locator import RowLocator
from holdfast.rows.segments import choose
from holdfast.rows.sequence import RowIdSequence
from holdfast.rows.stamp import LARGEST_ID
from tests.rows.locators import Entry, LiveRows
from tests.support.depth import examples
from tests.support.effort import effort


@dataclass
class Table:
    """A table as plain lists: the ids of each file, and what is hidden in it."""

    files: list[list[int]] = field(default_factory=list)
    hidden: list[set[int]] = field(default_factory=list)
    mark: int = 0

    def append(self, rows: int) -> None:
        self.add(list(range(self.mark, self.mark + rows)))
        self.mark += rows

    def add(self, ids: list[int]) -> None:
        self.files.append(ids)
        self.hidden.append(set())

    def live(self) -> dict[int, tuple[int, int]]:
        return {
            i: (file, at)
            for file, ids in enumerate(self.files)
            for at, i in enumerate(ids)
            if at not in self.hidden[file]
        }

    def move(self, ids: list[int]) -> None:
        """Hide these live rows where they are and write them to a new file."""
        where = self.live()
        for i in ids:
            file, at = where[i]
            self.hidden[file].add(at)
        self.add(ids)

    def entries(self) -> list[Entry]:
        return [
            (file, _stored(ids), BitMap64(self.hidden[file]) if self.hidden[file] else None)
            for file, ids in enumerate(self.files)
        ]


def _stored(ids: list[int]) -> RowIdSequence | tuple[int, int]:
    if ids == list(range(ids[0], ids[0] + len(ids))):
        return ids[0], len(ids)
    # In pieces, so that a file has segments of several shapes.
    return RowIdSequence.of(choose(np.array(ids[at : at + 30])) for at in range(0, len(ids), 30))


@composite
def tables(draw: DrawFn) -> Table:
    """Appends, deletes and rewrites in any order; ids of gaps between files are never used."""
    table = Table()
    for step in draw(lists(sampled_from(["append", "hide", "move", "move", "gap"]), min_size=1, max_size=14)):
        live = sorted(table.live())
        if step == "gap":
            table.mark += draw(integers(1, 5))
        elif step == "append" or not live:
            table.append(draw(integers(1, 120)))
        else:
            stride, start = draw(integers(1, 7)), draw(integers(0, len(live) - 1))
            some = live[start::stride][: draw(integers(1, 100))]
            if step == "hide":
                for i in some:
                    file, at = table.live()[i]
                    table.hidden[file].add(at)
            else:
                table.move(draw(sampled_from([some, some[::-1], some[::2] + some[1::2]])))
    return table


@examples(150)
@given(tables(), booleans())
def test_every_id_is_where_the_model_has_it(table: Table, forward: bool) -> None:
    entries = table.entries() if forward else table.entries()[::-1]
    locator = LiveRows.build(entries)
    live = table.live()
    ids = np.arange(-2, table.mark + 3)
    files, positions = locator.locate(ids)
    located = {int(i): (int(f), int(p)) for i, f, p in zip(ids, files, positions, strict=True) if f >= 0}
    assert located == live
    assert ((files == -1) == (positions == -1)).all()
    for i in [-1, 0, table.mark // 2, table.mark]:  # each by itself, as together
        assert [column.tolist() for column in locator.locate(np.array([i]))] == [[n] for n in live.get(i, (-1, -1))]


@examples(50)
@given(tables(), data())
def test_an_id_live_twice_is_damaged_when_asked_for(table: Table, draw: DataObject) -> None:
    live = sorted(table.live())
    if not live:
        return
    twice = draw.draw(sampled_from(live))
    table.add([twice])
    locator = LiveRows.build(table.entries(), where="table t")
    with pytest.raises(Damaged, match=f"row id {twice} is live at position") as caught:
        locator.locate(np.array(live))
    assert caught.value.path == "table t"
    others = np.array([i for i in live if i != twice], np.int64)
    assert (locator.locate(others)[0] >= 0).all()


def test_a_file_that_holds_an_id_twice_is_damaged() -> None:
    locator = LiveRows.build([(4, RowIdSequence.from_ids(np.array([7, 3, 7])), BitMap64([0]))])
    with pytest.raises(Damaged, match="file 4 holds row id 7 twice"):
        locator.locate(np.array([7]))


def test_ids_at_the_far_end() -> None:
    locator = LiveRows.build([(0, (LARGEST_ID - 1, 2), None), (1, (0, 1), BitMap64([0]))])
    ids = np.array([2**64 - 1, LARGEST_ID + 1, LARGEST_ID, 0], np.uint64)
    files, positions = locator.locate(ids)
    assert files.tolist() == [-1, -1, 0, -1]
    assert positions.tolist() == [-1, -1, 1, -1]


def test_no_files_hold_no_ids() -> None:
    assert LiveRows.build([]).locate(np.array([0, 5]))[0].tolist() == [-1, -1]
    assert LiveRows.build([(0, (5, 0), None)]).locate(np.array([5]))[0].tolist() == [-1]
    assert LiveRows.build([(0, (5, 1), None)]).locate(np.array([], np.int64))[0].tolist() == []


@pytest.mark.parametrize(("base", "count"), [(-1, 5), (LARGEST_ID, 2), (3, -1)])
def test_an_impossible_range_is_damaged(base: int, count: int) -> None:
    with pytest.raises(Damaged, match=f"file 9 has {count} rows from row id {base} on"):
        LiveRows.build([(9, (base, count), None)])


@examples(150)
@given(lists(integers(0, 60).flatmap(lambda low: integers(low, 60).map(lambda high: (low, high))), max_size=25))
def test_layers_are_disjoint_and_hold_each_interval_once(intervals: list[tuple[int, int]]) -> None:
    lows, highs = np.array(intervals, np.int64).reshape(-1, 2).T
    layers = arrange(lows, highs)
    assert sorted(n for layer in layers for n in layer.numbers.tolist()) == list(range(len(intervals)))
    for layer in layers:
        assert (layer.highs >= layer.lows).all()
        assert (layer.lows[1:] > layer.highs[:-1]).all()
        assert [(lows[n], highs[n]) for n in layer.numbers] == list(zip(layer.lows, layer.highs, strict=True))


def test_a_million_fresh_files() -> None:
    bases, counts = np.arange(1_000_000) * 1000, np.full(1_000_000, 1000)
    ids = np.arange(7, 10**9, 10**6)
    locator = LiveRows(RowLocator.from_ranges(bases, counts), {}, "t")
    files, positions = locator.locate(ids)
    assert (files == ids // 1000).all()
    assert (positions == ids % 1000).all()
    assert effort(lambda: RowLocator.from_ranges(bases, counts)) < 8  # measured 0.7
    assert effort(lambda: locator.locate(ids)) < 0.2  # measured 0.01


def test_a_long_range_over_many_short_ones_needs_two_layers() -> None:
    bases = np.arange(100_000) * 10
    lows, highs = np.append(bases, 0), np.append(bases + 9, 999_999)
    assert len(arrange(lows, highs)) == 2


def test_a_staircase_of_overlaps_needs_two_layers() -> None:
    lows = np.arange(100_000) * 10
    assert len(arrange(lows, lows + 14)) <= 3


def test_nested_ranges_need_a_layer_each_and_no_more() -> None:
    lows = np.arange(500)
    assert len(arrange(lows, 2000 - lows)) == 500


def test_files_many_deep_are_not_visited_one_by_one() -> None:
    """Every file holds scattered ids of the whole table, as after many merges."""
    depth, rows = 400, 500
    owner = np.random.default_rng(1).permutation(depth * rows) % depth
    scattered = [np.flatnonzero(owner == file) * 1000 for file in range(depth)]
    entries: list[Entry] = [(file, RowIdSequence.from_ids(ids), None) for file, ids in enumerate(scattered)]
    locator = LiveRows.build([*entries, (depth, (0, depth * rows * 1000), BitMap64(range(depth * rows * 1000)))])
    ids = np.arange(0, depth * rows, 101) * 1000
    files, positions = locator.locate(ids)
    assert effort(lambda: locator.locate(ids)) < 0.5  # measured 0.02
    assert (files == owner[ids // 1000]).all()
    assert all(scattered[f][p] == i for f, p, i in zip(files, positions, ids, strict=True))
