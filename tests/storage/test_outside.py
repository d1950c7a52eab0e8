"""Where a table may refer to files that are not its own, by every way there is to name them and to open the table."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import holdfast.storage.outside
from holdfast import DeltaTable
from holdfast.cli import main
from holdfast.errors import Invalid, TableError
from holdfast.formats.delta.checkpoint.reader import _open_sidecar
from holdfast.formats.delta.log.actions import Sidecar
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location
from holdfast.storage.outside import follows
from tests.support.gateway import address
from tests.support.tablesmith import Tablesmith


def hostile(tmp_path: Path, spelled: Callable[[Path], str] = str) -> tuple[Path, Path]:
    """A table that refers to somebody's file, and the directory of that."""
    secret = tmp_path / "home" / "secret"
    other = Tablesmith(tmp_path / "other", schema=[("id", "long")])
    other.append([{"id": 42}])
    (file,) = (tmp_path / "other").glob("*.parquet")
    secret.mkdir(parents=True)
    shutil.move(file, secret / "x y.parquet")
    smith = Tablesmith(tmp_path / "t", schema=[("id", "long")])
    smith.append([{"id": 1}])
    size = (secret / "x y.parquet").stat().st_size
    stats = json.dumps({"numRecords": 1})
    path = spelled(secret / "x y.parquet")
    entry = {"path": path, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
    smith.commit([{"add": {**entry, "stats": stats, "baseRowId": 9, "defaultRowCommitVersion": 3}}])
    return tmp_path / "t", secret


SPELLINGS: dict[str, Callable[[Path], str]] = {
    "absolute": lambda file: str(file).replace(" ", "%20"),
    "uri": lambda file: f"file:{file}".replace(" ", "%20"),
    "three slashes": lambda file: f"FILE://{file}".replace(" ", "%20"),
    "host": lambda file: f"file://localhost{file}".replace(" ", "%20"),
    "climbing": lambda file: "../home/secret/x%20y.parquet",
    "encoded": lambda file: "%2e%2e/home/secret/x%20y.parquet",
    "absolute and climbing": lambda file: f"{file.parent}/../secret/x%20y.parquet",
    "encoded slash": lambda file: str(file).replace("/", "%2F").replace(" ", "%20"),
}


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_no_spelling_leads_out(tmp_path: Path, spelled: Callable[[Path], str]) -> None:
    table, secret = hostile(tmp_path, spelled)
    with pytest.raises(TableError):  # a relative name with encoded slashes is a file that is not there
        DeltaTable.forPath(None, table).toArrow()
    if spelled is SPELLINGS["encoded slash"]:
        return
    with pytest.raises(Invalid, match="allow_outside"):
        DeltaTable.forPath(None, table, allow_outside=[str(tmp_path / "elsewhere"), str(secret) + "x"]).toArrow()
    for root in (secret, tmp_path / "home", f"file:{tmp_path}/home/"):
        rows = DeltaTable.forPath(None, table, allow_outside=[str(root)]).toArrow()
        assert sorted(rows["id"].to_pylist()) == [1, 42]


def test_the_error_names_the_path_and_the_root(tmp_path: Path) -> None:
    table, secret = hostile(tmp_path, SPELLINGS["absolute"])
    with pytest.raises(Invalid, match=rf"x%20y\.parquet, which is outside.*allow_outside=\['file://{secret}'\]"):
        DeltaTable.forPath(None, table)


def test_a_directory_that_is_a_table_is_followed_and_a_link_in_it_is_not(tmp_path: Path) -> None:
    table, secret = hostile(tmp_path, lambda file: f"{tmp_path}/other/x%20y.parquet")
    shutil.copy(secret / "x y.parquet", tmp_path / "other" / "x y.parquet")
    assert sorted(DeltaTable.forPath(None, table).toArrow()["id"].to_pylist()) == [1, 42]
    (tmp_path / "other" / "link").symlink_to(secret)
    store = open_location(str(table)).store
    assert follows(store, False, f"file://{tmp_path}/other/x y.parquet")
    assert not follows(store, False, f"file://{tmp_path}/other/link/x y.parquet")
    assert not follows(store, (f"file://{tmp_path}/other",), f"file://{tmp_path}/other/link/x y.parquet")
    assert follows(store, (f"file://{tmp_path}/other/link",), f"file://{secret}/x y.parquet")


@pytest.mark.parametrize("outside", [False, "other"])
def test_a_file_that_is_a_link_counts_as_where_it_leads(tmp_path: Path, outside: Any) -> None:
    table, secret = hostile(tmp_path, lambda file: f"{tmp_path}/other/linked.parquet")
    (tmp_path / "other" / "linked.parquet").symlink_to(secret / "x y.parquet")
    roots = outside and [tmp_path / outside]
    with pytest.raises(Invalid, match="allow_outside"):
        DeltaTable.forPath(None, table, allow_outside=roots).toArrow()
    assert DeltaTable.forPath(None, table, allow_outside=secret).toArrow().num_rows == 2


def test_a_log_without_a_version_makes_no_table(tmp_path: Path) -> None:
    table, secret = hostile(tmp_path)
    (secret / "_delta_log").mkdir()
    (secret / "_delta_log" / "x.crc").touch()
    (secret / "_delta_log" / ".keep").touch()
    with pytest.raises(Invalid, match="allow_outside"):
        DeltaTable.forPath(None, table)
    with pytest.raises(TypeError, match="allow_outside is True"):
        DeltaTable.forPath(None, table, allow_outside=7)  # type: ignore[arg-type]


def test_a_clone_that_outlives_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdfast.storage.outside, "_tables", set())
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    source = DeltaTable.create(None).location(str(tmp_path / "source")).addColumns(rows.schema).execute()
    source.append(rows)
    source.clone(str(tmp_path / "middle"), isShallow=True)
    DeltaTable.forPath(None, tmp_path / "middle").clone(str(tmp_path / "clone"), isShallow=True)
    clone = DeltaTable.forPath(None, tmp_path / "clone")
    assert sorted(clone.toArrow()["id"].to_pylist()) == [1, 2, 3]
    clone.overwrite(pa.table({"id": pa.array([7], pa.int64())}))
    shutil.rmtree(tmp_path / "source")
    holdfast.storage.outside._tables.clear()
    clone = DeltaTable.forPath(None, tmp_path / "clone")
    assert clone.check(repair=True).clean
    assert list(clone.readableVersions()) == [1]
    assert clone.vacuum().files.num_rows == 0
    assert clone.toArrow().to_pylist() == [{"id": 7}]
    with pytest.raises(Invalid, match=rf"allow_outside=\['file://{tmp_path}/source'\]"):
        clone.toArrow(version=0)


def test_a_sidecar_is_never_a_strangers_file(tmp_path: Path) -> None:
    table, secret = hostile(tmp_path)
    location = open_location(str(table), allow_outside=True)
    for path in (f"file:{secret}/x%20y.parquet", "../../home/secret/x%20y.parquet"):
        with pytest.raises(Invalid, match=r"outside of it|climbs"):
            _open_sidecar(location, Sidecar(path, 1, 1))


def test_on_a_bucket_the_store_is_not_the_table() -> None:
    store = MemoryStore("shared")
    assert not follows(store, False, "memory://shared/mine/x")
    assert not follows(store, ("memory://shared/min",), "memory://shared/mine/x")
    assert follows(store, ("memory://shared/mine",), "memory://shared/mine/x")
    assert not follows(store, False, "memory://other/mine/x")
    assert follows(store, ("memory://other",), "memory://other/mine/x")
    store.put("mine/_delta_log/00000000000000000000.json", b"{}")
    assert follows(store, False, "memory://shared/mine/p=1/x")
    assert not follows(store, False, "memory://sharedx/mine/p=1/x")


@pytest.mark.everywhere
def test_every_door_takes_a_root(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, secret = hostile(tmp_path, lambda file: address(file).replace(" ", "%20"))
    with pytest.raises(Invalid, match="allow_outside"):
        DeltaTable.forPath(spark, str(table))
    opened = DeltaTable.forPath(spark, str(table), allow_outside=[str(secret)])
    assert sorted(row.id for row in opened.toDF().collect()) == [1, 42]
    opened.update("id = 42", {"id": "43"})
    option = DeltaTable.forPath(spark, str(table), storage_options={"allow_outside": f"/nowhere,{secret}"})
    assert sorted(row.id for row in option.toDF().collect()) == [1, 43]
    monkeypatch.setenv("HOLDFAST_ALLOW_OUTSIDE", str(secret))
    assert DeltaTable.forName(spark, f"delta.`{table}`").toDF().count() == 2


def test_the_command_line_takes_a_root(tmp_path: Path) -> None:
    table, secret = hostile(tmp_path, SPELLINGS["uri"])
    refused = CliRunner().invoke(main, ["show", str(table)])
    assert refused.exit_code != 0
    assert "allow_outside" in refused.output
    for more in (["--allow-outside"], ["--allow-root", str(secret)], ["--storage", f"allow_outside={secret}"]):
        assert CliRunner().invoke(main, ["show", str(table), *more]).exit_code == 0, more


def test_old_versions_and_changes_do_not_lead_out(tmp_path: Path) -> None:
    table, _ = hostile(tmp_path, SPELLINGS["uri"])
    allowed = DeltaTable.forPath(None, table, allow_outside=True)
    hostile_version = allowed.version
    allowed.delete("id = 42")
    allowed.overwrite(pa.table({"id": pa.array([7], pa.int64())}))
    strict = DeltaTable.forPath(None, table)
    assert strict.toArrow().to_pylist() == [{"id": 7}]
    with pytest.raises(TableError):
        strict.toArrow(version=hostile_version)
    with pytest.raises(TableError):
        strict.changes(hostile_version, hostile_version).toArrow()
