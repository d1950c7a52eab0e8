"""What makes, converts, clones or publishes a table reaches its store by the options it is given, and by no others."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from holdfast import DeltaTable, IcebergTable, TableError
from holdfast.cli import main
from tests.support.s3 import S3Server

pytestmark = [pytest.mark.s3, pytest.mark.on_disk]  # on the lanes the environment says it all

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
NUMBERS = count()


@pytest.fixture
def url(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return f"s3a://{s3.bucket}/options {next(NUMBERS)}"


def ids(table: DeltaTable | IcebergTable) -> list[int]:
    return sorted(table.toArrow()["id"].to_pylist())


@pytest.mark.parametrize("spelling", ["options", "hadoop_options"])
def test_every_way_to_create(s3: S3Server, url: str, spelling: str) -> None:
    options = getattr(s3, spelling)
    for begin in (
        DeltaTable.create,
        DeltaTable.createIfNotExists,
        DeltaTable.createOrReplace,
        DeltaTable.replace,
    ):
        table = begin(None).location(f"{url}/t", storage_options=options).addColumns(ROWS.schema).execute()
    table.append(ROWS)
    assert ids(DeltaTable.forPath(None, f"{url}/t", storage_options=options)) == [1, 2]
    assert ids(DeltaTable.forName(None, f"delta.`{url}/t`", storage_options=options)) == [1, 2]
    with pytest.raises(TableError):
        DeltaTable.create(None).location(
            f"{url}/other", storage_options={**s3.options, "aws_access_key_id": "AKIAX"}
        ).addColumns(ROWS.schema).execute()


def test_conversion(s3: S3Server, url: str) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(ROWS, sink)
    key = f"{url.partition(s3.bucket)[2].strip('/')}/p/one.parquet"
    s3.client().put_object(Bucket=s3.bucket, Key=key, Body=sink.getvalue().to_pybytes())
    table = DeltaTable.convertToDelta(None, f"parquet.`{url}/p`", storage_options=s3.options)
    assert ids(table) == [1, 2]
    assert ids(DeltaTable.forPath(None, f"{url}/p", storage_options=s3.options)) == [1, 2]


@pytest.mark.parametrize("shallow", [False, True])
def test_clones_within_the_store_and_into_it(s3: S3Server, url: str, tmp_path: Path, shallow: bool) -> None:
    table = DeltaTable.create(None).location(f"{url}/t", storage_options=s3.options).addColumns(ROWS.schema).execute()
    table.append(ROWS)
    assert ids(table.clone(f"{url}/near", shallow)) == [1, 2]  # reached as the source is
    assert ids(table.cloneAtVersion(1, f"{url}/again", shallow, storage_options=s3.hadoop_options)) == [1, 2]
    here = DeltaTable.create(None).location(tmp_path / "here").addColumns(ROWS.schema).execute()
    here.append(ROWS)
    assert ids(here.clone(f"{url}/far", shallow, storage_options=s3.options)) == [1, 2]


def test_iceberg_tables_and_what_is_published_to_them(s3: S3Server, url: str, tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.db"
    table = IcebergTable.create(
        None, catalog, "db.t", "id long, v string", location=f"{url}/ice", storage_options=s3.options
    )
    table.append(ROWS)
    table.delete("id = 1")
    assert ids(IcebergTable.load(None, catalog, "db.t", storage_options=s3.options)) == [2]
    copy = DeltaTable.createLike(None, f"{url}/copy", table, storage_options=s3.options)
    table.publish(copy)
    back = IcebergTable.createLike(None, catalog, "db.back", copy, location=f"{url}/back", storage_options=s3.options)
    copy.publish(back)
    assert ids(copy) == ids(back) == [2]


def test_the_command_line(s3: S3Server, url: str, tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    storage = [word for name, value in s3.options.items() for word in ("--storage", f"{name}={value}")]
    made = CliRunner().invoke(main, ["append", "--create", f"{url}/cli", str(tmp_path / "rows.parquet"), *storage])
    assert made.exit_code == 0, made.output
    assert ids(DeltaTable.forPath(None, f"{url}/cli", storage_options=s3.options)) == [1, 2]
