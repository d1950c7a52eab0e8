"""Opening tables: catalogs, time travel, branches and tags, refusals."""

from __future__ import annotations

import datetime
import gzip
import json
import re
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyspark.sql import SparkSession

from holdfast import IcebergTable, Invalid, NotATable, UnknownVersion, Unsupported
from holdfast.errors import Damaged, MissingFile
from holdfast.storage.open import open_location
from tests.formats.iceberg.smith import Smith, column
from tests.support.gateway import address, io_settings

NAMES = count()


def smith(version: int = 3, **more: Any) -> Smith:
    return Smith(
        f"memory://table-{next(NAMES)}/t", [column(1, "id"), column(2, "name", "string")], version=version, **more
    )


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    made = load_catalog("test", type="sql", uri=uri, warehouse=address(tmp_path), **io_settings())
    made.create_namespace("db")
    return made


def test_a_table_of_a_catalog_is_read_as_it_grows(catalog: Catalog, tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None]})
    theirs = catalog.create_table("db.t", rows.schema)
    table = IcebergTable.load(None, catalog, "db.t")
    assert (table.version, table.toArrow().num_rows) == (-1, 0)
    theirs.append(rows)
    first = table.version
    assert table.toArrow().equals(rows)
    theirs.append(rows)
    theirs.delete("id = 2")
    assert sorted(table.toArrow()["id"].to_pylist()) == [1, 1, 3, 3]
    assert table.toArrow(version=first).equals(rows)
    assert table.historyArrow()["operation"].to_pylist() == ["overwrite", "append", "append"]


@pytest.mark.parametrize("way", ["path", "text", "properties"])
def test_ways_to_name_a_catalog(catalog: Catalog, tmp_path: Path, way: str) -> None:
    catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    file = tmp_path / "catalog.db"
    given: Any = {
        "path": file,
        "text": str(file),
        "properties": {"type": "sql", "uri": f"sqlite:///{file}", "name": "test"},
    }[way]
    if way != "properties":
        # The embedded catalog has a name of its own, by which sqlite keeps tables apart.
        own = load_catalog("holdfast", type="sql", uri=f"sqlite:///{file}", warehouse=address(tmp_path))
        own.create_namespace("db")
        own.create_table("db.t", pa.schema([("id", pa.int64())]))
    assert IcebergTable.load(None, given, ("db", "t")).toArrow().column_names == ["id"]


def test_a_table_that_is_not_there(catalog: Catalog) -> None:
    with pytest.raises(NotATable, match=r"db\.nothing"):
        IcebergTable.load(None, catalog, "db.nothing")


def test_what_is_no_catalog() -> None:
    with pytest.raises(Invalid, match="a catalog is"):
        IcebergTable.load(None, 3, "db.t")


@pytest.mark.everywhere
def test_a_table_of_a_catalog_on_spark(catalog: Catalog, spark: SparkSession) -> None:
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "name": [str(i) for i in range(10)]})
    catalog.create_table("db.t", rows.schema).append(rows)
    table = IcebergTable.load(spark, catalog, "db.t")
    got = table.scan(columns=["name"], where="id > 7", metadata=["_pos"]).toArrow()
    assert sorted(zip(got["name"].to_pylist(), got["_pos"].to_pylist(), strict=True)) == [("8", 8), ("9", 9)]
    assert table.alias("t").toDF().where("t.id = 3").count() == 1
    assert [r.operation for r in table.history().collect()] == ["append"]


def story() -> tuple[Smith, list[int]]:
    builder = smith()
    ids = [builder.commit([builder.data({"id": [n], "name": [str(n)]})]) for n in range(3)]
    return builder, ids


def test_time_travel() -> None:
    builder, ids = story()
    builder.tag("first", ids[0])
    table = IcebergTable.forMetadata(None, builder.metadata())

    def read(**asked: Any) -> list[int]:
        return sorted(table.toArrow(**asked)["id"].to_pylist())

    assert [read(version=i) for i in ids] == [[0], [0, 1], [0, 1, 2]]
    assert (read(version="first"), read(version="main"), read()) == ([0], [0, 1, 2], [0, 1, 2])
    moment = datetime.datetime.fromtimestamp(builder.snapshots[1]["timestamp-ms"] / 1000, datetime.UTC)
    assert read(timestamp=moment) == read(timestamp=moment.isoformat()) == [0, 1]
    assert read(timestamp=moment - datetime.timedelta(milliseconds=1)) == [0]
    with pytest.raises(UnknownVersion, match="no snapshot 5"):
        read(version=5)
    with pytest.raises(UnknownVersion, match="it has first, main"):
        read(version="second")
    with pytest.raises(UnknownVersion, match="history begins"):
        read(timestamp="2000-01-01")
    with pytest.raises(Invalid, match="not for both"):
        read(version=1, timestamp="2000-01-01")


def test_an_older_snapshot_has_the_columns_of_its_time_and_a_branch_those_of_now() -> None:
    builder, ids = story()
    builder.tag("then", ids[0])
    builder.evolve([column(1, "key"), column(3, "more", "string")])
    builder.refs["old"] = {"snapshot-id": ids[0], "type": "branch"}
    table = IcebergTable.forMetadata(None, builder.metadata())
    assert (
        table.toArrow(version=ids[0]).to_pylist()
        == table.toArrow(version="then").to_pylist()
        == [{"id": 0, "name": "0"}]
    )
    assert table.toArrow(version="old").to_pylist() == [{"key": 0, "more": None}]


def test_reading_again_opens_no_manifest_twice() -> None:
    builder, ids = story()
    table = IcebergTable.forMetadata(None, builder.metadata())
    table.toArrow()
    read = dict(table.handle.state.contents.read)
    older = table.handle.at(ids[0], None)
    assert older.contents.listed[0] is read[older.contents.manifests[0].path]


def test_a_table_without_a_snapshot() -> None:
    table = IcebergTable.forMetadata(None, smith().metadata())
    assert table.version == -1
    assert table.toArrow().schema.names == ["id", "name"]
    assert "no file" in str(table.explain()) or table.explain().files_total == 0


def test_opening_reads_the_metadata_alone() -> None:
    builder, _ = story()
    path = builder.metadata()
    for manifest in builder._manifests:
        builder.put(manifest["manifest_path"].removeprefix(f"{builder.root}/"), b"no manifest")
    table = IcebergTable.forMetadata(None, path)
    assert table.formatVersion == 3
    with pytest.raises(Damaged, match="no Avro"):
        table.toArrow()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (b'"format-version": 4', Unsupported, "versions 1 to 3"),
        (b'"format-version": ', Damaged, "no metadata"),
    ],
)
def test_metadata_that_cannot_be_read(change: bytes, error: type[Exception], words: str) -> None:
    builder, _ = story()
    builder.metadata()
    place = open_location(f"{builder.root}/metadata/v1.metadata.json")
    place.store.put(place.directory, place.store.get(place.directory).replace(b'"format-version": 3', change))
    with pytest.raises(error, match=words):
        IcebergTable.forMetadata(None, f"{builder.root}/metadata/v1.metadata.json")


def test_a_copied_table_says_where_it_may_be() -> None:
    builder = smith(spelled="s3://bucket/t")
    builder.commit([builder.data({"id": [1]})])
    path = builder.metadata()
    assert IcebergTable.forMetadata(None, path, relocate={"s3a://bucket/t/": builder.root}).toArrow()[
        "id"
    ].to_pylist() == [1]
    with pytest.raises(Invalid, match="relocate="):
        IcebergTable.forMetadata(
            None, path, relocate={"s3://bucket/t/metadata": f"{builder.root}/metadata"} | {"s3://bucket": "memory://x"}
        ).toArrow()


def test_a_missing_file_is_named() -> None:
    builder, _ = story()
    path = builder.metadata()
    place = open_location(f"{builder.root}/data/f1.parquet")
    place.store.delete(place.directory)
    with pytest.raises(MissingFile, match=r"f1\.parquet"):
        IcebergTable.forMetadata(None, path).toArrow()


def test_importing_holdfast_does_not_load_pyiceberg() -> None:
    code = "import holdfast, sys; holdfast.DeltaTable; print('pyiceberg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_without_the_extra_one_sentence_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['pyiceberg.catalog'] = None; import holdfast\n"
        "try: holdfast.IcebergTable\n"
        "except holdfast.Unsupported as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"\w+ Iceberg tables needs pyiceberg: pip install 'holdfast\[iceberg\]'\n", said)


def test_a_table_of_version_1_may_name_its_manifests_without_a_list() -> None:
    builder = smith(2)
    builder.commit([builder.data({"id": [1, 2]}), builder.data({"id": [3]})])
    builder.metadata()
    place = open_location(f"{builder.root}/metadata/v1.metadata.json")
    told = json.loads(place.store.get(place.directory))
    told["format-version"] = 1
    for snapshot in told["snapshots"]:
        del snapshot["manifest-list"], snapshot["sequence-number"]
        snapshot["manifests"] = [m["manifest_path"] for m in builder._manifests]
    told |= {"schema": told.pop("schemas")[0], "partition-spec": told.pop("partition-specs")[0]["fields"]}
    del told["refs"], told["current-schema-id"], told["last-sequence-number"]
    place.store.put(place.directory, gzip.compress(json.dumps(told).encode()))
    table = IcebergTable.forMetadata(None, f"{builder.root}/metadata/v1.metadata.json")
    assert table.toArrow()["id"].to_pylist() == [1, 2, 3]
    assert table.toArrow(version="main").num_rows == 3


def test_files_outside_the_location_are_followed_where_properties_or_the_user_say_so() -> None:
    builder = smith()
    builder.commit([builder.data({"id": [1], "name": ["a"]})])
    real, builder.spelled = builder.root, builder.root.removesuffix("/t") + "/elsewhere"

    def opened(**more: Any) -> pa.Table:
        return IcebergTable.forMetadata(None, builder.metadata(), **more).toArrow()

    # The metadata file is written beside the files; what it says of the location is another directory.
    refused = rf"outside of it; open the table with allow_outside=\['{real}/[a-z]+'\]"
    for properties in ({}, {"write.data.path": f"{real}/data"}, {"write.data.path": f"{real}/dat"}):
        builder.properties = properties
        with pytest.raises(Invalid, match=refused):
            opened()
    with pytest.raises(Invalid, match=refused):
        opened(allow_outside=[f"{real}x"])
    assert opened(allow_outside=[real]).num_rows == opened(allow_outside=True).num_rows == 1
    builder.properties = {"write.data.path": f"{real}/data/", "write.metadata.path": f"{real}/metadata"}
    assert opened().num_rows == 1
