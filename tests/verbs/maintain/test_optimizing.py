"""Compaction: fewer files, and every row as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.errors import Invalid
from holdfast.formats.delta.state import load
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location
from tests.support.damage import created, opened
from tests.support.depth import examples
from tests.support.faulty import _Wrapped

T = TypeVar("T")
IDS = ["_row_id", "_row_commit_version"]


def _table(path: Path, *, partitioned: bool = False) -> DeltaTable:
    builder = DeltaTable.create(None).location(str(path)).addColumn("id", "long").addColumn("p", "string")
    return (builder.partitionedBy("p") if partitioned else builder).execute()


def _append(table: DeltaTable, first: int, rows: int) -> None:
    ids = range(first, first + rows)
    table.append(pa.table({"id": pa.array(ids, pa.int64()), "p": [f"p{i % 2}" for i in ids]}))


def _rows(table: DeltaTable) -> list[tuple[Any, ...]]:
    found = table.toArrow(metadata=IDS).sort_by("_row_id")
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def _files(path: Path) -> pa.Table:
    return load(open_location(str(path))).snapshot.files.table


_step = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 30)),
    st.tuples(st.just("delete"), st.integers(2, 9)),
    st.tuples(st.just("update"), st.integers(2, 9)),
    st.tuples(st.just("compact"), st.integers(1, 60)),
    st.tuples(st.just("purge"), st.just(0)),
)


@examples(15)
@given(steps=st.lists(_step, min_size=3, max_size=10), partitioned=st.booleans())
def test_no_row_notices(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]], partitioned: bool
) -> None:
    path = tmp_path_factory.mktemp("table")
    table = _table(path, partitioned=partitioned)
    first = 0
    for verb, n in steps:
        before = _rows(table)
        match verb:
            case "append":
                _append(table, first, n)
                first += n
            case "delete":
                table.delete(f"id % {n} = 1")
            case "update":
                table.update(f"id % {n} = 0", {"p": "'p0'"})
            case "compact":
                table.optimize(targetRows=n).executeCompaction()
                assert _rows(table) == before
            case _:
                table.purge()
                assert _rows(table) == before
                assert _files(path).column("dv").null_count == _files(path).num_rows


def test_small_files_become_one_per_partition(tmp_path: Path) -> None:
    table = _table(tmp_path, partitioned=True)
    for i in range(5):
        _append(table, 10 * i, 10)
    before = _rows(table)
    plan = table.optimize().plan()
    assert [len(b.files) for b in plan.bins] == [5, 5]
    assert "2 bins of 10 of 10 files" in str(plan)
    done = table.optimize().executeCompaction()
    assert (len(done.versions), done.bins) == (1, 2)
    assert done.metrics["numRemovedFiles"] == 10
    assert done.metrics["numAddedFiles"] == 2
    assert _rows(table) == before
    lines = (tmp_path / "_delta_log" / f"{done.versions[0]:020}.json").read_text().splitlines()
    files = [line.get("add") or line.get("remove") for line in map(json.loads, lines)]
    assert not any(f["dataChange"] for f in files if f is not None)
    assert table.optimize().executeCompaction().versions == ()


def test_a_file_that_hides_much_is_written_anew(tmp_path: Path) -> None:
    table = _table(tmp_path)
    _append(table, 0, 100)
    table.delete("id < 5")
    assert table.optimize(targetRows=10).executeCompaction().versions == ()
    table.delete("id < 20")
    before = _rows(table)
    (bin_,) = table.optimize(targetRows=10).plan().bins
    assert bin_.why == "20% of its rows are hidden"
    table.optimize(targetRows=10).executeCompaction()
    assert _rows(table) == before
    assert _files(tmp_path).column("dv").null_count == 1


def test_where_and_bytes_bound_the_work(tmp_path: Path) -> None:
    table = _table(tmp_path, partitioned=True)
    for i in range(3):
        _append(table, 10 * i, 10)
    assert len(table.optimize().where("p = 'p1'").plan().bins) == 1
    assert len(table.optimize(maxBytes=1).plan().bins) == 0
    with pytest.raises(Invalid, match="which files"):
        table.optimize().where("length(p) = 2")


def test_compacting_a_growing_table_costs_what_was_added(tmp_path: Path) -> None:
    table = _table(tmp_path)
    written, rounds = 0, 48
    for i in range(rounds):
        _append(table, 100 * i, 100)
        done = table.optimize().executeCompaction()
        written += _added_rows(tmp_path, done.versions)
    assert len(_files(tmp_path)) <= 8
    assert written <= 100 * rounds * 7  # each row once per doubling, not once per round (24 on average)


def _added_rows(path: Path, versions: tuple[int, ...]) -> int:
    lines = [
        json.loads(line)
        for version in versions
        for line in (path / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    ]
    return sum(json.loads(line["add"]["stats"])["numRecords"] for line in lines if "add" in line)


@pytest.mark.everywhere
def test_compaction_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    small = _table(tmp_path)
    for i in range(4):
        _append(small, 10 * i, 10)
    table = DeltaTable.forPath(spark, tmp_path)
    table.update("id % 4 = 1", {"p": "'u'"})
    table.delete("id % 4 = 2")
    before = _rows(table)
    done = table.optimize().executeCompaction()
    assert done.metrics["numAddedFiles"] == 1
    assert len(_files(tmp_path)) == 1
    assert _rows(table) == before


class _Commits(_Wrapped):
    """Which commits were read."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.read: list[str] = []

    def _call(self, verb: str, key: str, run: Callable[[], T], *, writes: bool = False) -> T:
        if verb.startswith("get") and key.endswith(".json") and "_delta_log" in key:
            self.read.append(key)
        return run()


def test_a_bin_reads_no_commit_of_the_bins_before_it_twice() -> None:
    store, bins = _Commits(), 30
    table = created(store, partitioned=True)
    for _ in range(2):
        ids, parts = pa.array(range(bins), pa.int64()), [f"p{n}" for n in range(bins)]
        table.append(pa.table({"id": ids, "v": parts}))
    store.read.clear()
    done = opened(store).optimize().executeCompaction()
    assert (len(done.versions), done.bins, done.lost) == (1, bins, ())
    assert len(store.read) <= 8
