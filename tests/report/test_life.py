"""The life of a table is what its log says, and bars of files never lie on each other."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis.strategies import builds, integers, lists, tuples

from holdfast.report.facts import FileLife, Version
from holdfast.report.life import life_of
from holdfast.report.row_chart import lay_out
from holdfast.storage.open import open_location
from holdfast.table.delta import DeltaTable
from tests.support.depth import examples


def test_versions_and_files_are_those_of_the_log(tmp_path: Path) -> None:
    table = DeltaTable.create().location(tmp_path / "t").addColumn("n", "long").execute()
    table.append(pa.table({"n": [1, 2, 3]}))
    table.append(pa.table({"n": [4]}))
    table.delete("n = 2")
    table.optimize().executeCompaction()
    life = life_of(open_location(str(tmp_path / "t")))
    assert [(v.number, v.operation, v.rows, v.hidden, v.files) for v in life.versions] == [
        (0, "CREATE TABLE", 0, 0, 0),
        (1, "WRITE", 3, 0, 1),
        (2, "WRITE", 4, 0, 2),
        (3, "DELETE", 3, 1, 2),
        (4, "OPTIMIZE", 3, 0, 1),
    ]
    assert [(f.first, f.last, f.rows, f.is_live) for f in life.files] == [
        (1, 3, 3, False),
        (2, 3, 1, False),
        (4, 4, 3, True),
    ]
    assert life.versions[-1] == Version(4, "OPTIMIZE", 3, 0, 1, (tmp_path / "t" / life.files[-1].key).stat().st_size)


def _files(spans: list[tuple[int, int, int]]) -> list[FileLife]:
    return [FileLife(f"file {at}", first, first + more, rows, False) for at, (first, more, rows) in enumerate(spans)]


@examples(100)
@given(builds(_files, lists(tuples(integers(0, 30), integers(0, 30), integers(1, 10**6)), min_size=1, max_size=30)))
def test_bars_do_not_lie_on_each_other(files: list[FileLife]) -> None:
    bars = lay_out(files).values()
    assert len(bars) == len(files)
    for one, other in combinations(bars, 2):
        apart = one.file.last + 1 < other.file.first or other.file.last + 1 < one.file.first
        below = one.top + one.height < other.top or other.top + other.height < one.top
        assert apart or below
        assert (one.file.rows < other.file.rows) <= (one.height <= other.height)
