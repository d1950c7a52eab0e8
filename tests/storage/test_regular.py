"""What is no file is not read, and what an index or a vector says of itself is checked before it is followed."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from holdfast import DeltaTable
from holdfast.errors import Damaged, TableError
from holdfast.formats.delta.deletion_vectors import load_hidden
from holdfast.index.registry import DOMAIN, registered
from holdfast.storage.base import NotFound
from holdfast.storage.location import is_inside
from holdfast.storage.open import open_location


def small_table(path: Path) -> DeltaTable:
    table = DeltaTable.create(None).location(path).addColumn("id", "bigint").execute()
    table.append(pa.table({"id": pa.array(range(10), pa.int64())}))
    return table


@pytest.mark.parametrize("kind", ["device", "pipe"])
def test_a_device_or_a_pipe_is_refused_before_it_is_read(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "x"
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero")
    location = open_location(str(tmp_path))
    for read in (lambda key: location.store.get(key), lambda key: location.store.get_range(key, 5, 1 << 40)):
        with pytest.raises(Damaged, match="is a device or a pipe and no file"):
            read(location.key("x"))
    (tmp_path / "directory").mkdir()
    with pytest.raises(NotFound):
        location.store.get(location.key("directory"))


def test_no_file_of_a_table_may_be_a_device(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t")
    table.delete("id = 3")
    for pattern in ("deletion_vector*", "*.parquet"):
        (file,) = (tmp_path / "t").glob(pattern)
        data = file.read_bytes()
        file.unlink()
        file.symlink_to("/dev/zero")
        with pytest.raises(TableError, match="is a device or a pipe and no file"):
            DeltaTable.forPath(None, tmp_path / "t").toArrow()
        file.unlink()
        file.write_bytes(data)
    assert table.toArrow().num_rows == 9


def test_a_vector_larger_than_its_rows_can_need_is_refused(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t")
    table.delete("id = 3")
    newest = sorted((tmp_path / "t" / "_delta_log").glob("*.json"))[-1]
    lines = [msgspec.json.decode(line) for line in newest.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["deletionVector"]["sizeInBytes"] = 1 << 30
    newest.write_text("\n".join(msgspec.json.encode(line).decode() for line in lines))
    snapshot = DeltaTable.forPath(None, tmp_path / "t").handle.newest().snapshot
    with pytest.raises(Damaged, match="more than 10 rows can need"):
        load_hidden(snapshot.location, snapshot.files)


def test_an_index_refers_to_nothing_outside(tmp_path: Path) -> None:
    table = small_table(tmp_path / "t")
    table.createIndex("id", name="by_id")
    domains = {name: domain.configuration for name, domain in table.handle.newest().domains.items()}
    (name,) = (name for name in domains if name.startswith(DOMAIN))
    entry = msgspec.json.decode(domains[name] or "")
    assert registered(domains).indexes
    for away in ("../other/x", "/etc/x", "a//b", "s3://b/x", "a/../../b", "./a"):
        for wrong in (
            {**entry, "files": {**entry["files"], "key": away}},
            {**entry, "segments": [{**entry["segments"][0], "directory": away}]},
        ):
            registry = registered({name: msgspec.json.encode(wrong).decode()})
            assert not registry.indexes
            assert "not in the table's directory" in registry.troubles["by_id"]
        assert not is_inside(away)
