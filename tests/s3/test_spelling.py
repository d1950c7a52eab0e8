"""What Spark is given to read is spelled as the user spells it, wherever it comes from."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable, IcebergTable
from holdfast.engines.spark.scan import native as scan
from holdfast.engines.spark.scan.file_list import ListedFile
from holdfast.engines.spark.scan.scratch import Scratch, scratch_for
from holdfast.storage.open import open_location
from tests.formats.iceberg.smith import Smith, column
from tests.s3.conftest import Place
from tests.support.s3 import S3Server
from tests.support.tablesmith import Tablesmith

pytestmark = pytest.mark.s3
NAMES = count()


class Read(Exception):
    """Spark would read now."""

    def __init__(self, files: list[ListedFile], scratch: Scratch) -> None:
        self.paths = {file.path for file in files} | {file.uri for file in files} | {scratch.path("list")}


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Spark has a file system for `s3a` and no other spelling; which were asked for."""
    asked: list[str] = []

    def has_connector(spark: SparkSession, url: str) -> bool:
        asked.append(url)
        return url.startswith("s3a://")

    def read_files(spark: SparkSession, files: list[ListedFile], schema: Any, scratch: Scratch, **how: Any) -> None:
        raise Read(files, scratch)

    monkeypatch.setattr(scan, "has_connector", has_connector)
    monkeypatch.setattr(scan, "read_files", read_files)
    return asked


def paths_of(table: DeltaTable | IcebergTable) -> set[str]:
    with pytest.raises(Read) as caught:
        table.scan(metadata=["_file"])
    return caught.value.paths


def test_files_and_lists_of_a_delta_table(
    spark: SparkSession, s3: S3Server, place: Place, connected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    smith = Tablesmith(place(), schema=[("a", "long")])
    smith.append([{"a": 1}, {"a": 2}], files=2)
    url = smith.url.replace("s3:", "s3a:")
    table = DeltaTable.forPath(spark, url, storage_options=s3.options)
    assert {path.partition("://")[0] for path in paths_of(table)} == {"s3a"}
    assert set(connected) == {f"s3a://{s3.bucket}"}
    assert "Spark's own Parquet reader" in str(table.explain())
    shown = str(DeltaTable.forPath(spark, smith.url, storage_options=s3.options).explain())
    assert f"no file system for s3://{s3.bucket}: slower" in shown  # rows would show another spelling than was used


@pytest.mark.parametrize("spelled", ["s3", "s3a"])
@pytest.mark.parametrize("opened", ["s3", "s3a"])
def test_iceberg_metadata_in_whatever_spelling(
    spark: SparkSession,
    s3: S3Server,
    connected: list[str],
    monkeypatch: pytest.MonkeyPatch,
    spelled: str,
    opened: str,
) -> None:
    for name, value in s3.options.items():
        monkeypatch.setenv(name.upper(), value)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    made = Smith(f"{spelled}://{s3.bucket}/ice {next(NAMES)}/t", [column(1, "id")], version=3)
    made.commit([made.data({"id": [1, 2]})])
    metadata = made.metadata().replace(f"{spelled}://", f"{opened}://")
    table = IcebergTable.forMetadata(spark, metadata, storage_options=s3.options)
    assert {path.partition("://")[0] for path in paths_of(table)} == {"s3a"}
    assert table.toArrow(metadata=["_file"])["_file"][0].as_py().startswith(f"{spelled}://")


def test_a_path_is_the_uri_with_nothing_encoded() -> None:
    for url, path in (
        ("s3a://b/a b/t", "s3a://b/a b/t"),
        ("s3://b/t", "s3://b/t"),
        ("gcs://b/t", "gcs://b/t"),
        ("abfss://c@acc.dfs.core.windows.net/t", "abfss://c@acc.dfs.core.windows.net/t"),
        ("/a b/t", "file:/a b/t"),
    ):
        location = open_location(url)
        assert location.spark_path() == path
        assert location.spark_path("x %41") == f"{path}/x %41"
        assert location.spark_uri("x %41") == f"{path.replace(' ', '%20')}/x%20%2541"
        assert scratch_for(location).path("n").startswith(location.spark_store())
    outside = open_location("s3a://b/t", allow_outside=True)
    assert outside.spark_path("s3://other/x") == "s3a://other/x"
    assert outside.spark_store("s3://other/x") == "s3a://other"
