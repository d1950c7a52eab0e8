"""Commands that look, on an Iceberg table: by catalog and by metadata file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from holdfast import IcebergTable
from tests.cli.conftest import Run


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("ice")
    loaded = load_catalog("holdfast", type="sql", uri=f"sqlite:///{home}/cat.db", warehouse=f"file://{home}")
    loaded.create_namespace("shop")
    rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
    table = loaded.create_table("shop.orders", schema=rows.schema)
    table.append(rows)
    table.append(rows)
    return home / "cat.db"


@pytest.fixture
def tracked(tmp_path: Path) -> Path:
    """A catalog with a table of version 3, whose rows have ids."""
    table = IcebergTable.create(None, str(tmp_path / "own.db"), "shop.tracked", "id long, name string")
    table.append(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    table.delete("id = 2")
    return tmp_path / "own.db"


def test_both_ways_to_name_a_table_show_the_same(run: Run, catalog: Path) -> None:
    metadata = max((catalog.parent / "shop" / "orders" / "metadata").glob("*.metadata.json"))
    by_name = run("show", "shop.orders", "--catalog", catalog, "-w", "id > 1", "--json").stdout
    assert [json.loads(line)["id"] for line in by_name.splitlines()] == [2, 3, 2, 3]
    assert run("show", metadata, "-w", "id > 1", "--json").stdout == by_name


def test_what_the_metadata_tells(run: Run, catalog: Path) -> None:
    named = ["shop.orders", "--catalog", catalog]
    assert "3 rows written, +1 file" in run("history", *named).stdout
    snapshots = [json.loads(line)["version"] for line in run("history", *named, "--json").stdout.splitlines()]
    assert len(run("show", *named, "--version", snapshots[-1], "--json").stdout.splitlines()) == 3
    assert "Iceberg, version" in run("detail", *named).stdout
    assert json.loads(run("detail", *named, "--json").stdout)["numRows"] == 6
    assert "2 files" in run("files", *named).stderr
    assert "overlaps id = 2" in run("files", *named, "--explain", "-w", "id = 2").stdout
    assert "has no table shop.other" in run("show", "shop.other", "--catalog", catalog, code=1).stderr


def test_a_table_says_whether_it_is_sound_and_what_became_of_a_row(run: Run, tracked: Path, catalog: Path) -> None:
    named = ["shop.tracked", "--catalog", tracked]
    metadata = max((tracked.parent / "shop" / "tracked" / "metadata").glob("*.metadata.json"))
    for target in (named, [metadata]):
        assert "sound (log and data)" in run("check", *target).stdout
        assert json.loads(run("check", *target, "--quick", "--json").stdout)["findings"] == []
        life = json.loads(run("biography", *target, "1", "--json").stdout)
        assert [event["what"] for event in life["events"]] == ["born", "deleted"]
        assert "row 1 is not in the table" in run("biography", *target, "1").stdout
    assert "sound (log and data)" in run("check", *named, "--repair").stdout
    assert "open it with load to write" in run("check", metadata, "--repair", code=1).stderr
    assert "have no ids" in run("biography", "shop.orders", "--catalog", catalog, "1", code=1).stderr
    assert "check, biography and publish are for both" in run("vacuum", metadata, code=1).stderr


def test_a_table_that_lost_a_file_is_not_sound(run: Run, tracked: Path) -> None:
    for file in (tracked.parent / "shop" / "tracked" / "data").glob("*.parquet"):
        file.unlink()
    output = run("check", "shop.tracked", "--catalog", tracked, code=1).stdout
    assert "not sound" in output
    assert "missing" in output
    named = ["check", "shop.tracked", "--catalog", tracked]
    dry = json.loads(run(*named, "--repair", "--drop-missing", "--dry-run", "--json", code=1).stdout)
    assert (dry["repaired"], dry["findings"][0]["repair"] is None) == ([], False)
    assert json.loads(run(*named, "--repair", "--json", code=1).stdout)["version"] == dry["version"]
    assert "took 1 missing files out of the table" in run(*named, "--repair", "--drop-missing").stdout
    assert "sound (log and data)" in run(*named).stdout


def test_a_missing_extra_is_said_in_a_sentence(catalog: Path) -> None:
    code = "import sys; sys.modules['pyiceberg'] = None; from holdfast.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "show", "shop.orders", "--catalog", str(catalog)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 1
    assert process.stderr == "Error: reading Iceberg tables needs pyiceberg: pip install 'holdfast[iceberg]'\n"
