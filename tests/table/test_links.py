"""Directories of a table that are links: read like others, and never deleted from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast import DeltaTable


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
