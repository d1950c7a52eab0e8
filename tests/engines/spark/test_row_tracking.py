"""Row ids of tables laid down by hand: one file, several, across commits, checkpoints and log compaction."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.reading import both
from tests.support.tablesmith import Tablesmith

pytestmark = pytest.mark.everywhere


@pytest.fixture
def smith(tmp_path: Path) -> Tablesmith:
    return Tablesmith(tmp_path / "numbers", schema=[("number", "integer")])


def numbers(*values: int) -> list[dict[str, int]]:
    return [{"number": value} for value in values]


def ids(spark: SparkSession, smith: Tablesmith) -> list[int]:
    return sorted(row["_row_id"] for row in both(spark, smith.url, metadata=["_row_id"]))


def test_one_file(spark: SparkSession, smith: Tablesmith) -> None:
    smith.append(numbers(1, 2, 3))
    assert ids(spark, smith) == [0, 1, 2]


def test_two_files_do_not_overlap(spark: SparkSession, smith: Tablesmith) -> None:
    adds = [*smith.write(numbers(1, 2, 3)), *smith.write(numbers(4, 5, 6, 7))]
    smith.commit(smith._stamped(adds))
    rows = both(spark, smith.url, metadata=["_row_id", "_file"])
    assert sorted(row["_row_id"] for row in rows) == list(range(7))
    blocks = {row["_file"]: sorted(r["_row_id"] for r in rows if r["_file"] == row["_file"]) for row in rows}
    assert sorted(blocks.values()) == [[0, 1, 2], [3, 4, 5, 6]]


def test_across_commits(spark: SparkSession, smith: Tablesmith) -> None:
    smith.append(numbers(1, 2, 3))
    smith.append(numbers(4, 5))
    assert ids(spark, smith) == [0, 1, 2, 3, 4]


def test_across_a_checkpoint_and_on_after_it(spark: SparkSession, smith: Tablesmith) -> None:
    smith.append(numbers(1, 2, 3))
    smith.checkpoint()
    smith.forget(before=smith.version)
    assert ids(spark, smith) == [0, 1, 2]
    smith.append(numbers(4, 5))
    assert ids(spark, smith) == [0, 1, 2, 3, 4]


def test_row_id_with_row_index(spark: SparkSession, smith: Tablesmith) -> None:
    adds = [*smith.write(numbers(1, 2, 3)), *smith.write(numbers(4, 5))]
    smith.commit(smith._stamped(adds))
    rows = both(spark, smith.url, metadata=["_row_id", "_row_index", "_base_row_id"])
    assert [(row["number"], row["_row_id"], row["_row_index"]) for row in sorted(rows, key=lambda r: r["number"])] == [
        (1, 0, 0),
        (2, 1, 1),
        (3, 2, 2),
        (4, 3, 0),
        (5, 4, 1),
    ]
    assert all(row["_row_id"] == row["_base_row_id"] + row["_row_index"] for row in rows)


def test_across_log_compaction(spark: SparkSession, smith: Tablesmith) -> None:
    smith.append(numbers(1, 2, 3))
    smith.append(numbers(4, 5))
    before = both(spark, smith.url, metadata=["_row_id", "_row_commit_version"])
    smith.compact_log(1, 2)
    assert both(spark, smith.url, metadata=["_row_id", "_row_commit_version"]) == before
    for version in (1, 2):  # only the compaction can tell now
        smith.put(f"_delta_log/{version:020}.json", b"")
    assert both(spark, smith.url, metadata=["_row_id", "_row_commit_version"]) == before
    smith.append(numbers(6))
    assert ids(spark, smith) == [0, 1, 2, 3, 4, 5]
