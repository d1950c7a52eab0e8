"""Log compaction as users ask for it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast import DeltaTable, Invalid
from holdfast.errors import UnknownVersion
from holdfast.formats.delta.state import load
from holdfast.storage.open import open_location
from holdfast.verbs.maintain.log_compaction import LogCompaction


def grown(path: Path, versions: int, interval: int = 1000) -> DeltaTable:
    builder = DeltaTable.create().location(path).addColumn("id", "bigint")
    table = builder.property("delta.checkpointInterval", str(interval)).execute()
    for n in range(versions):
        table.append(pa.table({"id": pa.array([n], pa.int64())}))
    return table


def test_everything_since_the_last_checkpoint_in_one_file(tmp_path: Path) -> None:
    table = grown(tmp_path, 5, interval=3)
    done = table.compactLog()
    assert done == LogCompaction(4, 5, f"{4:020d}.{5:020d}.compacted.json")
    state = load(open_location(str(tmp_path)))
    assert [meta.name for meta in state.segment.deltas] == [done.name]
    assert sorted(table.toArrow()["id"].to_pylist()) == list(range(5))
    assert table.compactLog() == done


def test_a_stretch_of_ones_own(tmp_path: Path) -> None:
    table = grown(tmp_path, 6)
    assert table.compactLog(1, 3) == LogCompaction(1, 3, f"{1:020d}.{3:020d}.compacted.json")
    assert table.compactLog(end=2) == LogCompaction(0, 2, f"{0:020d}.{2:020d}.compacted.json")
    again = DeltaTable.forPath(None, tmp_path)
    assert sorted(again.toArrow()["id"].to_pylist()) == list(range(6))
    assert again.toArrow(metadata=["_row_id"]).sort_by("id")["_row_id"].to_pylist() == list(range(6))


def test_one_version_has_nothing_to_be_said_together_with(tmp_path: Path) -> None:
    table = grown(tmp_path, 1, interval=1)
    assert table.compactLog() is None
    assert table.compactLog(end=0) is None


def test_what_cannot_be_compacted(tmp_path: Path) -> None:
    table = grown(tmp_path, 2)
    with pytest.raises(Invalid, match="not from 2 to 1"):
        table.compactLog(2, 1)
    with pytest.raises(UnknownVersion, match=f"{3:020d}"):
        table.compactLog(0, 7)
    with pytest.raises(Invalid, match="whole number"):
        table.compactLog(-1)
