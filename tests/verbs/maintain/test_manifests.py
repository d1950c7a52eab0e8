"""Manifests name the live files, partition by partition, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast import DeltaTable, Invalid, Unsupported
from holdfast.storage.memory import MemoryStore
from tests.support.damage import append, created, opened


def _listed(root: Path) -> dict[str, list[str]]:
    found = (root / "_symlink_format_manifest").rglob("manifest")
    return {str(path.parent.relative_to(root / "_symlink_format_manifest")): path.read_text().split() for path in found}


@pytest.mark.on_disk
def test_a_manifest_names_every_live_file(tmp_path: Path) -> None:
    table = DeltaTable.create(None).location(str(tmp_path / "t")).addColumn("id", "long").execute()
    for n in range(3):
        table.append(pa.table({"id": pa.array([n], pa.int64())}))
    table.delete("id = 1", mode="copy-on-write")
    table.generate("symlink_format_manifest")
    (paths,) = _listed(tmp_path / "t").values()
    assert all(path.startswith("file:/") and not path.startswith("file://") for path in paths)
    read = pa.concat_tables(pq.ParquetFile(path.removeprefix("file:")).read(["id"]) for path in paths)
    assert sorted(read["id"].to_pylist()) == [0, 2]


def test_a_partition_has_a_manifest_of_its_own_and_loses_it_with_its_files(tmp_path: Path) -> None:
    table = (
        DeltaTable.create(None)
        .location(str(tmp_path / "t"))
        .addColumn("id", "long")
        .addColumn("p", "string")
        .addColumn("q", "long")
        .partitionedBy("p", "q")
        .execute()
    )
    ids = pa.array(range(4), pa.int64())
    table.append(pa.table({"id": ids, "p": ["a", "b c/d", None, "a"], "q": pa.array([1, 2, 3, 4], pa.int64())}))
    table.generate("symlink_format_manifest")
    assert set(_listed(tmp_path / "t")) == {"p=a/q=1", "p=b c%2Fd/q=2", "p=__HIVE_DEFAULT_PARTITION__/q=3", "p=a/q=4"}
    table.delete("p = 'a' and q = 1")
    table.generate("symlink_format_manifest")
    assert set(_listed(tmp_path / "t")) == {"p=b c%2Fd/q=2", "p=__HIVE_DEFAULT_PARTITION__/q=3", "p=a/q=4"}


def test_a_table_that_asks_for_manifests_has_them_after_every_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = DeltaTable.create(None).location(str(tmp_path / "t")).addColumn("id", "long")
    table = asked.property("delta.compatibility.symlinkFormatManifest.enabled", "true").execute()
    assert _listed(tmp_path / "t") == {".": []}
    table.append(pa.table({"id": pa.array([0, 1], pa.int64())}))
    before = _listed(tmp_path / "t")["."]
    table.delete("id = 1", mode="copy-on-write")
    after = _listed(tmp_path / "t")["."]
    assert len(before) == len(after) == 1
    assert before != after
    # A commit after which the manifests would lie stands, and its log says that they are old.
    assert table.delete("id = 0 or id = 5", mode="merge-on-read").version is not None
    assert _listed(tmp_path / "t")["."] in ([], after)
    table.append(pa.table({"id": pa.array([7, 8], pa.int64())}))
    table.setProperties({"delta.enableDeletionVectors": "true"})
    table.delete("id = 7", mode="merge-on-read")
    assert "purge() first" in caplog.text


def test_an_empty_table_has_an_empty_manifest() -> None:
    store = MemoryStore()
    created(store).generate("symlink_format_manifest")
    assert store.get("t/_symlink_format_manifest/manifest") == b""


def test_what_has_no_manifest() -> None:
    store = MemoryStore()
    table = created(store)
    append(table, range(5))
    table.delete("id = 1")
    with pytest.raises(Invalid, match="purge"):
        table.generate("symlink_format_manifest")
    table.purge()
    table.generate("symlink_format_manifest")
    assert len(store.get("t/_symlink_format_manifest/manifest").splitlines()) == 1
    assert opened(store).check().findings == ()
    with pytest.raises(Invalid, match="symlink_format_manifest"):
        table.generate("other")
    mapped = created(MemoryStore(), {"delta.columnMapping.mode": "name"})
    with pytest.raises(Unsupported, match="mapped"):
        mapped.generate("symlink_format_manifest")
