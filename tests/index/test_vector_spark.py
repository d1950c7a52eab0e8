"""Vector indexes on Spark: filled by tasks, searched here, looked at there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from holdfast.errors import Invalid
from holdfast.index.vector import worker_rows
from holdfast.index.vector.kind import VectorKind
from holdfast.verbs.index import maintain as reindexing

ROWS, LENGTH = 3000, 8
SCHEMA = pa.schema([("id", pa.int64()), ("g", pa.int64()), ("vec", pa.list_(pa.float32()))])


def some_rows(first: int, count: int, seed: int = 0) -> pa.Table:
    chance = np.random.default_rng(seed)
    vectors = chance.normal(size=(count, LENGTH)).astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), LENGTH).cast(pa.list_(pa.float32()))
    ids = np.arange(first, first + count)
    return pa.table({"id": pa.array(ids), "g": pa.array(ids % 10), "vec": lists}, SCHEMA)


@pytest.mark.everywhere
def test_an_index_that_tasks_filled_finds_what_a_look_at_every_row_finds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(reindexing.KINDS, "vector", VectorKind(local_rows=0))
    monkeypatch.setattr(worker_rows, "TASK_ROWS", 1000)
    table = DeltaTable.create(spark).location(str(tmp_path)).addColumns(SCHEMA).execute()
    for part in range(3):
        table.append(some_rows(1000 * part, 1000, seed=part))
    query = [0.1] * LENGTH
    wanted = table.nearest("vec", query, 20)  # there is no index yet
    info = table.createIndex("vec", kind="vector", method="ivf_sq8")
    assert info.entries == ROWS
    assert table.verifyIndex("vec").troubles == ()
    assert table.nearest("vec", query, 20, nprobe=10_000).equals(wanted)

    alone = DeltaTable.forPath(None, str(tmp_path))
    alone.delete("id < 700")
    alone.append(some_rows(9000, 50, seed=7))
    assert table.refreshIndex("vec").entries == ROWS + 50
    assert table.verifyIndex("vec").troubles == ()
    for where in (None, "g < 5"):
        frame = table.nearestDF("vec", query, 20, where=where, nprobe=10_000, metadata=["_row_id"])
        here = alone.nearest("vec", query, 20, where=where, nprobe=10_000, metadata=["_row_id"])
        assert frame.columns == ["id", "g", "vec", "_row_id", "_distance"]
        assert sorted(r["_distance"] for r in frame.collect()) == here.column("_distance").to_pylist()
    assert table.recall("vec", sample=300) > 0.9

    table.dropIndex("vec")
    alone.refresh()
    for where in (None, "g % 3 = 1 AND g < 5"):  # a remainder only Spark understands
        looked = table.nearestDF("vec", [query, [1.0] * LENGTH], 3, where=where).toArrow()
        condition = "g IN (1, 4)" if where else None
        assert looked.equals(alone.nearest("vec", [query, [1.0] * LENGTH], 3, where=condition).cast(looked.schema))


def test_tasks_tell_of_vectors_with_another_length(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(reindexing.KINDS, "vector", VectorKind(local_rows=0))
    table = DeltaTable.create(spark).location(str(tmp_path)).addColumns(SCHEMA).execute()
    table.append(some_rows(0, 20))
    table.append(pa.Table.from_pylist([{"id": 1, "vec": [1.0]}, {"id": 2, "vec": []}, {"id": 3}], SCHEMA))
    with pytest.raises(Invalid, match=r"2 rows have vectors of another length than 8 in vec"):
        table.createIndex("vec", kind="vector", method="flat")
    with pytest.raises(Invalid, match=r"2 rows have vectors of another length than 8 in vec"):
        table.nearestDF("vec", [0.0] * LENGTH)
