"""Files that are far too large for what they are: refused before they are read, whatever the table says of them."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from holdfast import DeltaTable, IcebergTable
from holdfast.errors import TableError
from holdfast.formats.delta.checkpoint.last_checkpoint import HINT_BYTES
from holdfast.model.finding import FindingKind
from holdfast.storage.base import LARGEST_BYTES, TooLarge
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location
from tests.hostile.tables import checkpointed

HUGE = 1 << 40  # no memory holds it, and a sparse file of it takes no room


@contextmanager
def huge(file: Path, size: int = HUGE) -> Iterator[None]:
    """A file that is followed by holes up to some size, and memory that hardly grows meanwhile."""
    data = file.read_bytes()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    os.truncate(file, size)
    try:
        yield
    finally:
        file.write_bytes(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 700_000, "in kilobytes"


def refused(file: Path, read: Callable[[], object], *, says: str = "1,099,511,627,776 bytes") -> None:
    """Reading fails by an error that names the file."""
    with huge(file), pytest.raises(TableError) as caught:
        read()
    assert file.name in str(caught.value)
    assert says in str(caught.value)
    read()


@pytest.fixture
def delta(tmp_path: Path) -> Path:
    builder = DeltaTable.create(None).location(tmp_path / "t").addColumn("id", "bigint")
    table = builder.property("delta.checkpointInterval", "2").execute()
    for start in range(0, 30, 10):
        table.append(pa.table({"id": pa.array(range(start, start + 10), pa.int64())}))
    table.delete("id = 3")
    return tmp_path / "t"


def rows(path: Path) -> int:
    return DeltaTable.forPath(None, path).toArrow().num_rows


def test_a_store_reads_no_more_than_it_may(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"12345")
    memory = MemoryStore("sizes")
    memory.put("x", b"12345")
    local = open_location(str(tmp_path))
    for store, key in ((local.store, local.key("x")), (memory, "x")):
        assert store.get(key, 5) == b"12345"
        with pytest.raises(TooLarge, match=r"x has 5 bytes where at most 4 can be"):
            store.get(key, 4)
        assert store.get_range(key, 3, 1 << 60) == b"45"
        assert store.get_range(key, 9, 1 << 60) == b""
    with huge(tmp_path / "x"):
        with pytest.raises(TooLarge, match=f"{LARGEST_BYTES:,}"):
            local.store.get(local.key("x"))
        with pytest.raises(TooLarge, match=f"{LARGEST_BYTES:,}"):
            local.store.get_range(local.key("x"), 0, 1 << 60)
        assert local.store.get_range(local.key("x"), 0, 5) == b"12345"


def test_commits(delta: Path) -> None:
    (delta / "_delta_log" / "_last_checkpoint").unlink()
    for file in (delta / "_delta_log").glob("*.checkpoint.parquet"):
        file.unlink()
    refused(delta / "_delta_log" / f"{2:020}.json", lambda: rows(delta))


@pytest.mark.parametrize("size", [HUGE, 300 << 20])
def test_hints_and_checksums_are_passed_over(delta: Path, size: int) -> None:
    log = delta / "_delta_log"
    DeltaTable.forPath(None, delta).vacuum()
    newest = max(log.glob("*.crc"))
    for file, kind in (
        (log / "_last_checkpoint", FindingKind.BAD_HINT),
        (newest, FindingKind.BAD_CHECKSUM),
        (log / "_last_vacuum_info", None),
    ):
        with huge(file, size):
            assert rows(delta) == 29
            assert DeltaTable.forPath(None, delta).toArrow(version=1).num_rows == 10
            kinds = {finding.kind for finding in DeltaTable.forPath(None, delta).check().findings}
            assert kind is None or kind in kinds
    os.truncate(log / "_last_checkpoint", size)
    for number in range(30, 32):
        DeltaTable.forPath(None, delta).append(pa.table({"id": pa.array([number], pa.int64())}))
    assert (log / "_last_checkpoint").stat().st_size < HINT_BYTES, "a checkpoint writes it anew"
    assert rows(delta) == 31


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        ("classic", "*.checkpoint.parquet"),
        ("v2-parquet", "_sidecars/*"),
        ("v2-json", "*.checkpoint.*.json"),
    ],
)
def test_checkpoints_are_read_around(tmp_path: Path, kind: str, pattern: str) -> None:
    checkpointed(kind)(tmp_path)
    table = tmp_path / "t"
    right = rows(table)
    file = max((table / "_delta_log").glob(pattern))
    with huge(file):
        assert rows(table) == right, "the commits are all there"


def test_vectors_and_data_files(delta: Path) -> None:
    (vector,) = delta.glob("deletion_vector*")
    with huge(vector):
        assert rows(delta) == 29, "its place and its size are said"
    refused(max(delta.glob("*.parquet")), lambda: rows(delta), says="")


def test_files_of_an_index(delta: Path) -> None:
    DeltaTable.forPath(None, delta).createIndex("id", name="by_id")

    def looked_up() -> None:
        assert DeltaTable.forPath(None, delta).lookup(id=7).num_rows == 1

    looked_up()
    files = [file for file in (delta / "_holdfast").rglob("*") if file.is_file()]
    assert files
    for file in files:
        with huge(file):
            looked_up()  # by a scan, where the index cannot be used


@pytest.mark.parametrize("kind", ["metadata", "list", "manifest"])
def test_iceberg_metadata(tmp_path: Path, kind: str) -> None:
    schema = pa.schema([("id", pa.int64())])
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", schema, location=str(tmp_path / "t"))
    table.append(pa.table({"id": [1, 2, 3]}, schema))
    metadata = tmp_path / "t" / "metadata"
    newest = max(metadata.glob("*.metadata.json"))
    lists, manifests = list(metadata.glob("snap-*.avro")), [*metadata.glob("*-m*.avro")]
    file = {"metadata": newest, "list": lists[0], "manifest": manifests[0]}[kind]
    refused(file, lambda: IcebergTable.forMetadata(None, newest).toArrow())
    if kind == "manifest":
        # Lists are wrong about lengths, but not by so much.
        refused(file, lambda: IcebergTable.forMetadata(None, newest).toArrow(), says="268,435,456")
        with huge(file, 300 << 20), pytest.raises(TooLarge):
            IcebergTable.forMetadata(None, newest).toArrow()
    assert msgspec.json.decode(newest.read_bytes())["format-version"]
