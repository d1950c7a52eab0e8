"""Directories of a table that are links: read like others, and never deleted from."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.env import system
from holdfast.formats.delta.checkpoint.writer import write_checkpoint
from holdfast.formats.delta.state import load
from holdfast.storage.open import open_location
from holdfast.verbs.open import handle


def linked(tmp_path: Path) -> tuple[DeltaTable, Path]:
    """A table with a partition that is kept elsewhere; its first files are needed by no version but old ones."""
    builder = DeltaTable.create(None).location(tmp_path / "t").addColumn("id", "bigint").addColumn("p", "string")
    table = builder.partitionedBy("p").execute()
    table.append(pa.table({"id": pa.array([1, 2], pa.int64()), "p": ["a", "b"]}))
    shutil.move(tmp_path / "t" / "p=a", tmp_path / "elsewhere")
    (tmp_path / "t" / "p=a").symlink_to(tmp_path / "elsewhere")
    return DeltaTable.forPath(None, tmp_path / "t"), tmp_path / "elsewhere"


def test_reading_and_checking_agree_about_links(tmp_path: Path) -> None:
    table, elsewhere = linked(tmp_path)
    assert sorted(table.toArrow()["id"].to_pylist()) == [1, 2]
    assert list(table.readableVersions()) == [0, 1]
    assert table.check().clean
    for file in elsewhere.iterdir():
        file.unlink()
    assert list(table.readableVersions()) == [0]
    assert not table.check().clean


@pytest.mark.parametrize("lite", [True, False])
def test_a_vacuum_stays_in_the_tables_real_directory(tmp_path: Path, lite: bool) -> None:
    table, elsewhere = linked(tmp_path)
    before = sorted(elsewhere.iterdir())
    table.delete()
    dry = table.vacuum(0, lite=lite, enforceRetention=False, dryRun=True)
    done = table.vacuum(0, lite=lite, enforceRetention=False)
    assert sorted(elsewhere.iterdir()) == before
    assert done.paths == dry.paths
    assert {path.split("/")[0] for path in done.paths} == {"p=b"}


def test_an_erasure_finds_files_of_its_own_millisecond(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, elsewhere = linked(tmp_path)
    (old,) = elsewhere.iterdir()
    stray = elsewhere / "part-stray.parquet"
    shutil.copy(old, stray)
    moment_ms = stray.stat().st_mtime_ns // 1_000_000
    monkeypatch.setattr(handle, "system", lambda: replace(system(), now_ms=lambda: moment_ms))
    assert "p=a/part-stray.parquet" in table.erase("id = 1").linked


def test_an_erasure_finds_files_behind_a_link_and_says_that_no_vacuum_takes_them(tmp_path: Path) -> None:
    table, elsewhere = linked(tmp_path)
    (old,) = elsewhere.iterdir()
    name = f"p=a/{old.name}"
    stray = elsewhere / "part-stray.parquet"
    shutil.copy(old, stray)
    report = table.erase("id = 1")
    assert [(held.file, held.rows) for held in report.files] == [(name, 1)]
    assert report.linked == (name, "p=a/part-stray.parquet")
    assert any("delete, where their link leads" in step and name in step for step in report.steps)
    table.vacuum(0, enforceRetention=False)
    status = table.erasureStatus(report)
    assert (status.is_clean, status.linked) == (False, report.linked)
    assert "behind a link, where no vacuum goes" in str(status)
    write_checkpoint(load(open_location(str(tmp_path / "t"))), system())
    for version in range(table.version + 1):  # the log forgets the file, and the report does not
        (tmp_path / "t" / "_delta_log" / f"{version:020}.json").unlink(missing_ok=True)
    again = DeltaTable.forPath(None, tmp_path / "t")
    assert [held.file for held in again.erasureStatus(report).files] == [name]
    old.unlink()
    assert again.erasureStatus(report).linked == ("p=a/part-stray.parquet",)
    stray.unlink()
    assert again.erasureStatus(report).is_clean


def test_a_vacuum_leaves_what_a_link_of_the_table_leads_to(tmp_path: Path) -> None:
    table, elsewhere = linked(tmp_path)
    (tmp_path / "t" / "p=a").unlink()
    inside = tmp_path / "t" / "kept" / "a"
    inside.parent.mkdir()
    shutil.move(elsewhere, inside)
    (tmp_path / "t" / "p=a").symlink_to(inside)
    assert table.vacuum(0, enforceRetention=False, dryRun=True).paths == []
    assert table.vacuum(0, enforceRetention=False).paths == []
    assert sorted(table.toArrow()["id"].to_pylist()) == [1, 2]
    assert 1 in table.readableVersions()
    assert table.check().clean
