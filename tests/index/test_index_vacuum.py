"""Files of indexes are kept for versions that need them, and taken like the rest."""

from __future__ import annotations

from pathlib import Path

from tests.index.tables import found, numbers


def test_vacuum_keeps_what_versions_need_and_takes_the_rest(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = numbers(path=path)
    table.createIndex("id")
    pinned = table.pin(None, "old")
    table.rebuildIndex("id")
    table.rebuildIndex("id")
    root = Path(path) / "_holdfast/index/id"
    assert len(list(root.iterdir())) == 6, "a segment and a list of files each"
    done = table.vacuum(0, enforceRetention=False)
    assert len(list(root.iterdir())) == 4, "those of the pin and those of the newest"
    assert all("_holdfast/index/" in key for key in done.paths)
    assert found(table, id=3) == [3]
    assert table.verifyIndex("id").is_right
    assert table.lookup(id=3, version=pinned).num_rows == 1
    table.unpin("old")
    table.dropIndex("id")
    table.vacuum(0, enforceRetention=False)
    assert not root.exists() or not list(root.iterdir())
    assert table.check().clean


def test_vacuum_keeps_indexes_within_the_retention(tmp_path: Path) -> None:
    table = numbers(path=str(tmp_path / "t"))
    table.createIndex("id")
    table.dropIndex("id")
    assert not [key for key in table.vacuum(dryRun=True).paths if "_holdfast/index" in key]
    assert [f for f in table.check().findings if "_holdfast" in str(f)] == []


def test_an_erasure_names_index_entries_that_are_left(tmp_path: Path) -> None:
    table = numbers(path=str(tmp_path / "t"))
    table.createIndex("id")
    table.createIndex("s", kind="bitmap")
    report = table.erase("id = 3")
    assert {held.file.split("/")[2]: held.rows for held in report.indexes} == {"id": 1, "s": 1}
    assert any("rebuildIndex('id')" in step for step in report.steps)
    for name in ("id", "s"):
        table.rebuildIndex(name)
    assert table.erasureStatus(report).indexes, "old files are there still"
    table.vacuum(0, enforceRetention=False)
    assert table.erasureStatus(report).is_clean
