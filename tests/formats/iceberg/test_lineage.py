"""Row lineage and row addresses in one scan, on Spark's splits, and over branches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyspark.sql import SparkSession, functions

from holdfast import IcebergTable
from holdfast.engines.spark.scan import footers
from holdfast.parquet.pages.footer import read_footer
from tests.formats.iceberg.smith import column
from tests.formats.iceberg.test_metadata_columns import LINEAGE, Reader, many, opened, reader, smith
from tests.formats.iceberg.test_write_races import later, made, rows

__all__ = ["reader"]  # a fixture


def test_null_inherited_and_stored_ids_share_one_type(reader: Reader) -> None:
    root, read = reader
    table = smith(3, root)
    table.commit([table.data({"id": [3, 4]})])
    table.commit([table.data({"id": [5, 6]}, row_ids=[40, None], updated=[None, None])])
    table.commit([table.data({"id": [1, 2]}, row_ids=[7, 8], updated=[1, 1])], manifest_ids=False)
    got = read(table)(columns=["id"], metadata=LINEAGE)
    assert [got.schema.field(name).type for name in LINEAGE] == [pa.int64(), pa.int64()]
    assert all(got.schema.field(name).nullable for name in LINEAGE)
    told = {row["id"]: (row["_row_id"], row["_last_updated_sequence_number"]) for row in got.to_pylist()}
    # Without a first row id a file has no ids, whatever it stores.
    assert told == {3: (0, 1), 4: (1, 1), 5: (40, 2), 6: (3, 2), 1: (None, None), 2: (None, None)}


def test_columns_of_a_file_that_are_called_as_ours(reader: Reader) -> None:
    """A file may hold what the table dropped: `_pos` among its columns, and columns in another order than asked."""
    root, read = reader
    table = smith(3, root, columns=[column(1, "id"), column(2, "_pos"), column(3, "b")])
    table.commit([table.data({"b": [30, 31], "_pos": [70, 71], "id": [1, 2]})])
    table.evolve([column(3, "b"), column(1, "id")])
    got = read(table)(columns=["id", "b"], metadata=["_row_id", "_pos"])
    assert got.column_names == ["id", "b", "_row_id", "_pos"]
    assert sorted(map(tuple, (row.values() for row in got.to_pylist()))) == [(1, 30, 0, 0), (2, 31, 1, 1)]


def test_a_split_begins_at_its_true_position(spark: SparkSession, tmp_path: Path) -> None:
    table = smith(3, str(tmp_path / "t"))
    noise = np.random.default_rng(0).integers(0, 2**62, 20_000)  # what does not compress, so that there are splits
    file = table.data({"id": noise}, group_rows=500)
    table.commit([file])
    table.commit(deletes=table.vectors([(file, range(0, 20_000, 3))]))
    with _set(spark, "spark.sql.files.maxPartitionBytes", "8192"), _set(spark, "spark.sql.files.openCostInBytes", "0"):
        df = opened(table, spark).scan(columns=["id"], where="id % 2 = 0", metadata=["_pos", "_row_id"])
        got = df.withColumn("task", functions.spark_partition_id()).toArrow()
    at = got["_pos"].to_numpy()
    assert len(set(got["task"].to_pylist())) > 4, "the file is read in several parts"
    assert (noise[at] == got["id"].to_numpy()).all()
    assert sorted(at) == [n for n in range(20_000) if n % 3 and noise[n] % 2 == 0]
    assert got["_row_id"].equals(got["_pos"])


def test_metadata_alone_reads_no_column_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = smith(3, str(tmp_path / "t"))
    file = many(table, 1_000)
    table.commit([file])
    path = Path(file["file_path"])
    data = bytearray(path.read_bytes())
    footer = int.from_bytes(data[-8:-4], "little") + 8
    data[4:-footer] = b"\0" * (len(data) - 4 - footer)  # from here on, reading any column fails
    path.write_bytes(bytes(data))
    asked = ["_file", "_pos", "_spec_id", "_partition", "_deleted", *LINEAGE]
    got = opened(table, spark).scan(columns=[], metadata=asked).toArrow()
    assert sorted(got["_row_id"].to_pylist()) == list(range(1_000))


def test_footers_are_read_once_and_only_where_a_column_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = smith(3, str(tmp_path / "t"))
    table.commit([table.data({"id": [n]}) for n in range(3)])
    seen: list[str] = []

    def counted(store: Any, name: str, size: int) -> Any:
        seen.append(name)
        return read_footer(store, name, size)

    monkeypatch.setattr(footers, "read_footer", counted)
    opened(table, spark).scan(columns=[], metadata=["_file", "_pos", "_spec_id"])
    assert not seen, "manifests know all of it"
    for asked in ({"columns": ["id"]}, {"columns": [], "metadata": ["_row_id"]}, {}):
        opened(table, spark).scan(**asked)
        assert len(seen) == 3, "a data file never changes"


def test_ids_begin_above_those_of_other_branches(tmp_path: Path) -> None:
    table = made(tmp_path, 3)
    _commit_elsewhere(table, added=100)
    table.append(rows(20))
    assert _ids(table)[20] == 106
    assert table.handle.newest().metadata.next_row_id == 107


def test_a_commit_on_another_branch_meanwhile(tmp_path: Path) -> None:
    table = made(tmp_path, 3)
    commit = later(table, "updated", "id = 1", {"v": "'z'"})
    _commit_elsewhere(table, added=100)
    commit()
    assert _ids(table) == {n: n for n in range(6)}, "an updated row keeps its id"
    table.append(rows(20))
    assert _ids(table)[20] >= 106, "no id is given twice, on whatever branch"


def _commit_elsewhere(table: IcebergTable, *, added: int) -> None:
    """What a writer of another branch does, as far as the table's metadata shows it."""
    source = table.handle.source
    assert source is not None
    theirs = source.catalog.load_table("db.t")
    head: Any = theirs.current_snapshot()
    snapshot = Snapshot(
        **{
            "snapshot-id": head.snapshot_id + 1,
            "parent-snapshot-id": head.snapshot_id,
            "sequence-number": theirs.metadata.last_sequence_number + 1,
            "timestamp-ms": int(time.time() * 1000) + 1,
            "manifest-list": head.manifest_list,
            "summary": Summary(Operation.APPEND),
            "schema-id": head.schema_id,
            "first-row-id": theirs.metadata.next_row_id,
            "added-rows": added,
        }
    )
    there = SetSnapshotRefUpdate(**{"ref-name": "other", "type": "branch", "snapshot-id": snapshot.snapshot_id})
    source.catalog.commit_table(theirs, (), (AddSnapshotUpdate(snapshot=snapshot), there))


def _ids(table: IcebergTable) -> dict[int, int]:
    found = table.toArrow(columns=["id"], metadata=["_row_id"]).to_pydict()
    return dict(zip(found["id"], found["_row_id"], strict=True))


@contextmanager
def _set(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)
