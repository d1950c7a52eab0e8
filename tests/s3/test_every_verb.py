"""The verbs one after the other on a table in a bucket, spelled as Spark's connector has it, with Spark and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable, IcebergTable
from tests.support.gateway import Gateway

pytestmark = [pytest.mark.s3, pytest.mark.s3_lane]


@pytest.fixture
def session(lane: str, request: pytest.FixtureRequest) -> SparkSession | None:
    found: SparkSession | None = None if lane == "s3" else request.getfixturevalue("spark")
    return found


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": [f"v{i}" for i in ids]})


def ids(table: Any) -> list[int]:
    return sorted(table.toArrow()["id"].to_pylist())


def change(table: Any, session: SparkSession | None) -> None:
    """What both formats do."""
    for n in range(3):
        table.append(rows(*range(10 * n, 10 * n + 10)))
    table.delete("id >= 25")
    table.update("id = 3", {"v": "'three'"})
    new: Any = rows(3, 100)
    if session is not None:
        new = session.createDataFrame(new).alias("s")
        assert table.scan(where="id < 5", metadata=["_row_id", "_file"]).count() == 5
    table.alias("t").merge(new, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert ids(table) == [*range(25), 100]
    table.purge()
    table.optimize().executeCompaction()
    table.createIndex("id")
    assert table.lookup(id=100)["v"].to_pylist() == ["v100"]
    assert table.check().findings == ()


def test_delta(session: SparkSession | None, s3: Gateway, tmp_path: Path) -> None:
    url = f"s3a://{s3.bucket}/verbs {tmp_path.name}"
    builder = DeltaTable.create(session).location(f"{url}/t", storage_options=s3.options)
    table = builder.addColumn("id", "long").addColumn("v", "string").clusterBy("id").execute()
    change(table, session)
    before = table.version
    table.overwrite(rows(1, 2), replaceWhere="id < 10")
    assert ids(table)[:3] == [1, 2, 10]
    changes = table.changes(before, kind="full-delta")
    assert (changes.toArrow() if session is None else changes.toDF().toArrow()).num_rows > 0
    assert ids(table.clone(f"{url}/copy", storage_options=s3.options)) == ids(table)
    table.restoreToVersion(before)
    assert ids(table) == [*range(25), 100]
    table.vacuum(0, enforceRetention=False)
    assert ids(DeltaTable.forPath(session, f"{url}/t", storage_options=s3.options)) == [*range(25), 100]


def test_iceberg(session: SparkSession | None, s3: Gateway, tmp_path: Path) -> None:
    url = f"s3a://{s3.bucket}/ice {tmp_path.name}"
    table = IcebergTable.create(
        session, tmp_path / "c.db", "db.t", "id long, v string", location=f"{url}/t", storage_options=s3.options
    )
    change(table, session)
    before = table.version
    table.overwrite(rows(1, 2))
    assert ids(table) == [1, 2]
    table.restoreToVersion(before)
    assert ids(IcebergTable.load(session, tmp_path / "c.db", "db.t", storage_options=s3.options)) == [*range(25), 100]
