"""Which files are put in order: nothing twice, everything once, and never more than three times what was added."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.model.files import FILES, FileStats, FileTable, Slab
from holdfast.plan.maintain.cluster import (
    CUBE,
    CUBE_COLUMNS,
    FULL_FILES,
    LEVEL,
    PROVIDER,
    column_text,
    plan_clustering,
    plan_z_order,
)
from holdfast.plan.maintain.compact import Bin, CompactionLimits
from tests.support.depth import examples

BY = (("a",), ("s", "b"))
LIMITS = CompactionLimits(target_rows=1_000, target_bytes=100_000)  # so a file of 100 bytes a row is full by both


@dataclass(frozen=True)
class Counts:
    """Statistics that know how many rows there are and nothing else."""

    rows: pa.Array

    def __len__(self) -> int:
        return len(self.rows)

    def read(self, leaves: Any) -> FileStats:
        return FileStats(self.rows, pa.nulls(len(self.rows), pa.bool_()), {})

    def filter(self, mask: pa.Array) -> Counts:
        return Counts(self.rows.filter(mask))

    def take(self, indices: pa.Array) -> Counts:
        return Counts(self.rows.take(indices))


@dataclass
class Simulated:
    """A table of which only the files are there."""

    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    files_written: int = 0
    added: int = 0
    written: int = 0

    @property
    def table(self) -> FileTable:
        rows = pa.array([f.pop("rows") for f in (dict(f) for f in self.files.values())], pa.int64())
        plain = [{name: f[name] for name in f if name != "rows"} for f in self.files.values()]
        return FileTable((Slab(pa.Table.from_pylist(plain, FILES), Counts(rows)),))

    def put(self, rows: int, **more: Any) -> None:
        self.files_written += 1
        key = f"f{self.files_written}"
        file = {"path": key, "key": key, "size": 100 * rows, "rows": rows, "base_row_id": self.files_written * 10**6}
        self.files[key] = {**file, **more}

    def append(self, rows: int) -> None:
        self.added += rows
        self.put(rows)

    def optimize(self, **how: Any) -> tuple[Bin, ...]:
        bins = plan_clustering(self.table, BY, LIMITS, **how)
        for number, one in enumerate(bins):
            assert one.order is not None
            for key in one.keys:
                del self.files[key]
            self.written += one.rows
            tags = {CUBE: f"{self.files_written}-{number}", CUBE_COLUMNS: column_text(BY), LEVEL: str(one.level)}
            for part in range(one.order.parts):
                share = one.rows * (part + 1) // one.order.parts - one.rows * part // one.order.parts
                self.put(share, clustering_provider=PROVIDER, tags=list(tags.items()))
        return bins

    @property
    def rows(self) -> int:
        return sum(f["rows"] for f in self.files.values())

    @property
    def cubes(self) -> int:
        return len({dict(f["tags"])[CUBE] for f in self.files.values()})


@example([[1, 49865], [1, 49865]])
@examples(60)
@given(st.lists(st.lists(st.integers(1, 60_000), min_size=1, max_size=3), min_size=1, max_size=40))
def test_no_row_is_written_more_than_three_times(rounds: list[list[int]]) -> None:
    table = Simulated()
    for appended in rounds:
        for rows in appended:
            table.append(rows)
        table.optimize()
        assert table.rows == table.added
        assert table.written <= 3 * table.added
        assert not table.optimize(), "what was put in order stays"


@examples(5)
@given(st.integers(10, 4_000), st.integers(1, 60))
def test_a_growing_table_has_few_cubes(rows: int, rounds: int) -> None:
    table = Simulated()
    for _ in range(rounds):
        table.append(rows)
        table.optimize()
    full = rows * rounds // (FULL_FILES * LIMITS.target_rows)
    assert table.cubes <= full + 2 * sqrt(FULL_FILES * LIMITS.target_rows / rows) + 2


@examples(40)
@given(st.integers(1, 40), st.integers(1, 10**6))
def test_a_small_append_to_a_large_table_is_all_that_is_written(share: int, whole: int) -> None:
    """An append of a fortieth, or of any lesser part, rewrites at most three times itself."""
    table = Simulated()
    table.append(whole)
    table.optimize()
    before = table.written
    appended = max(1, whole // 40 // share)
    table.append(appended)
    table.optimize()
    assert table.written - before <= 3 * appended


def test_all_is_put_in_order_again_when_asked() -> None:
    table = Simulated()
    table.append(50_000)
    table.optimize()
    assert [one.rows for one in table.optimize(full=True)] == [50_000]


def test_files_of_others_are_left_alone() -> None:
    table = Simulated()
    table.put(500, clustering_provider="somebody")
    other = [(CUBE, "x"), (CUBE_COLUMNS, '["c"]')]
    table.put(500, clustering_provider=PROVIDER, tags=other)
    assert not table.optimize()
    table.append(10)
    assert [one.rows for one in table.optimize()] == [10]
    assert [one.rows for one in table.optimize(full=True)] == [510]


def test_a_cube_without_a_name_counts_as_none() -> None:
    table = Simulated()
    table.put(500, clustering_provider=PROVIDER)
    assert [one.rows for one in table.optimize()] == [500]


def test_a_file_that_hides_much_is_put_in_order_again() -> None:
    table = Simulated()
    table.append(4_000)
    table.optimize()
    first = next(iter(table.files.values()))
    first["dv"] = {"id": "v", "cardinality": 50}
    assert not table.optimize()
    first["dv"] = {"id": "v", "cardinality": 500}
    assert [one.rows for one in table.optimize()] == [500]


def test_names_are_told_as_spark_tells_them() -> None:
    text = column_text((("a",), ("s", "b"), ("x.y",), ("7",), ("o`clock",)))
    assert text == '["a","s.b","`x.y`","`7`","`o``clock`"]'


def test_bytes_bound_what_is_written() -> None:
    table = Simulated()
    for _ in range(10):
        table.append(100)
    limits = CompactionLimits(LIMITS.target_rows, LIMITS.target_bytes, most_bytes=35_000)
    assert [one.bytes for one in plan_clustering(table.table, BY, limits)] == [30_000]
    assert not plan_clustering(table.table, BY, CompactionLimits(1_000, 100_000, most_bytes=1))


def test_z_order_takes_each_partition_until_it_is_done() -> None:
    table = Simulated()
    for day in ("1", "1", "2"):
        table.put(1_500, partition_values=[("day", day)])
    bins = plan_z_order(table.table, ["day"], BY, LIMITS)
    assert [(len(one.files), one.rows, one.order.parts if one.order else 0) for one in bins] == [
        (2, 3_000, 3),
        (1, 1_500, 2),
    ]
    tags = [(CUBE, "one"), (CUBE_COLUMNS, column_text(BY))]
    for key in bins[0].keys:
        table.files[key]["tags"] = tags
    assert [one.rows for one in plan_z_order(table.table, ["day"], BY, LIMITS)] == [1_500]
    assert len(plan_z_order(table.table, ["day"], BY[:1], LIMITS)) == 2
