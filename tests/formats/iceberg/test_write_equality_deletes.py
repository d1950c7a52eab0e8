"""Changes of tables with equality deletes: deleted rows stay deleted, and dangling deletes are removed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from holdfast import IcebergTable
from holdfast.errors import ConcurrentDeleteRead, Unsupported
from tests.formats.iceberg.equality_deletes import commit_equality_delete
from tests.formats.iceberg.smith import Smith, column, identity
from tests.formats.iceberg.test_write import duck
from tests.support.gateway import address

ROWS = pa.schema([("id", pa.int64()), ("v", pa.string())])


def rows(*ids: int, v: str = "a") -> pa.Table:
    return pa.table({"id": list(ids), "v": [v] * len(ids)}, ROWS)


def made(path: Path, version: int, **properties: str) -> IcebergTable:
    """Rows 1 to 6, of which 2 and 5 are gone by value and 2 came again."""
    table = IcebergTable.create(None, path / "c.db", "db.t", ROWS, formatVersion=version, properties=properties)
    table.append(rows(1, 2, 3, 4, 5, 6))
    commit_equality_delete(table, pa.table({"id": [2, 5]}))
    table.append(rows(2, v="again"))
    return table


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write", "auto"])
def test_rows_with_equality_deletes_are_not_live(tmp_path: Path, version: int, mode: str) -> None:
    table = made(tmp_path, version)
    assert table.plan.delete("id = 5", mode=mode).rows["deleted"] == 0
    assert table.update("id <= 3", {"v": "concat(v, '!')"}, mode=mode).metrics["numUpdatedRows"] == 3
    source = pa.table({"id": [4, 5], "v": ["m", "new"]}, ROWS)
    merge = table.alias("t").merge(source, "t.id = s.id", mode=mode).whenMatchedUpdateAll()
    done = merge.whenNotMatchedInsertAll().execute()
    assert (done.metrics["numTargetRowsUpdated"], done.metrics["numTargetRowsInserted"]) == (1, 1)
    assert table.delete("id in (5, 6)", mode=mode).metrics["numDeletedRows"] == 2
    expected = [(1, "a!"), (2, "again!"), (3, "a!"), (4, "m")]
    assert [(row["id"], row["v"]) for row in duck(table)] == expected
    found = table.toArrow().sort_by("id").to_pylist()
    assert [(row["id"], row["v"]) for row in found] == expected


@pytest.mark.parametrize("version", [2, 3])
def test_compaction_applies_deletes_and_drops_those_that_apply_to_nothing(tmp_path: Path, version: int) -> None:
    table = made(tmp_path, version)
    table.append(rows(7, 8, 9, 10, 11, 12, 13))
    ids = ["_row_id", "_last_updated_sequence_number"] if version == 3 else []
    before = table.toArrow(metadata=ids).sort_by("id")
    assert table.optimize().executeCompaction().metrics["numRemovedFiles"] == 3
    assert table.toArrow(metadata=ids).sort_by("id") == before
    assert not len(table.handle.newest().contents.deletes)
    entry = table.handle.newest().entry
    assert entry is not None
    assert entry.summary["removed-equality-deletes"] == "2"
    assert [row["id"] for row in duck(table)] == before["id"].to_pylist()
    if version == 3:
        assert table.take(before["_row_id"].to_pylist()) == before.select(["id", "v"])


def test_a_delete_stays_as_long_as_a_file_it_applies_to(tmp_path: Path) -> None:
    table = made(tmp_path, 3, **{"write.update.mode": "copy-on-write"})
    table.append(rows(20, 21))
    commit_equality_delete(table, pa.table({"id": [21]}))
    assert table.handle.newest().contents.deletes.equality.num_rows == 2
    table.update("id = 1", {"v": "'x'"})
    deletes = table.handle.newest().contents.deletes.equality
    assert deletes["record_count"].to_pylist() == [1], "the first was about the file that is gone"
    with pytest.raises(Unsupported, match="by value"):
        table.take([0])
    assert table.purge().metrics["numRemovedFiles"] == 2
    assert not len(table.handle.newest().contents.deletes)
    assert [row["id"] for row in duck(table)] == [1, 2, 3, 4, 6, 20]


def test_equality_deletes_of_all_rows_leave_no_file(tmp_path: Path) -> None:
    table = IcebergTable.create(None, tmp_path / "c.db", "db.t", ROWS)
    table.append(rows(1, 2))
    commit_equality_delete(table, pa.table({"id": [1, 2]}))
    table.purge()
    state = table.handle.newest()
    assert (len(state.snapshot.files), len(state.contents.deletes), len(table.toArrow())) == (0, 0, 0)


@pytest.mark.parametrize("compacts", [True, False])
def test_an_equality_delete_in_between(tmp_path: Path, compacts: bool) -> None:
    """What others deleted by value must stay deleted: new files are newer than their delete."""
    table = made(tmp_path, 3)
    table.append(rows(7, 8, 9, 10, 11, 12, 13))
    held = table.optimize(targetRows=100) if compacts else None
    other = IcebergTable.load(None, tmp_path / "c.db", "db.t")
    commit_equality_delete(other, pa.table({"id": [3]}))
    if held is not None:
        assert len(held.executeCompaction().lost) == 1
    else:
        stale = IcebergTable.load(None, tmp_path / "c.db", "db.t")
        state = stale.handle.newest()
        stale.handle.newest = lambda: state  # type: ignore[method-assign]
        commit_equality_delete(other, pa.table({"id": [4]}))
        with pytest.raises(ConcurrentDeleteRead, match="by value"):
            stale.update("id = 4", {"v": "'x'"})
        stale.append(rows(30))  # nothing that it could have read
        assert len(table.toArrow(where="id in (4, 30)")) == 1
    assert not len(table.toArrow(where="id = 3"))


def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    made(tmp_path, 3)
    table = IcebergTable.load(spark, tmp_path / "c.db", "db.t")
    table.update("id <= 3", {"v": "concat(v, '!')"}, mode="merge-on-read")
    source = spark.createDataFrame([(4, "m"), (5, "new")], "id long, v string")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id", mode="copy-on-write").whenMatchedUpdateAll()
    merge.whenNotMatchedInsertAll().execute()
    commit_equality_delete(table, pa.table({"id": [1]}))
    table.purge()
    expected = [(2, "again!"), (3, "a!"), (4, "m"), (5, "new"), (6, "a")]
    assert [(row["id"], row["v"]) for row in duck(table)] == expected
    assert not len(table.handle.newest().contents.deletes)


def test_deletes_of_one_partition(tmp_path: Path) -> None:
    """A delete by value is about the files of its partition; it goes when the last older one of these does."""
    builder = Smith(str(tmp_path / "t"), [column(1, "id"), column(2, "p", "string")], specs=[[identity(2, "p")]])
    files = {p: builder.data({"id": [1, 2, 3], "p": [p] * 3}, partition={"p": p}) for p in ("a", "b")}
    builder.commit(list(files.values()))
    builder.commit(
        deletes=[builder.equality({"id": 1}, {"id": [2]}, like=files[p]) for p in ("a", "b")], operation="delete"
    )
    catalog = load_catalog("c", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=address(tmp_path))
    catalog.create_namespace("db")
    catalog.register_table("db.t", builder.metadata())
    table = IcebergTable.load(None, catalog, "db.t")
    assert table.update("p = 'a' AND id < 3", {"id": "id + 10"}, mode="copy-on-write").metrics["numUpdatedRows"] == 1
    deletes = table.handle.newest().contents.deletes.equality
    assert deletes.num_rows == 1, "the one of the partition that was not touched"
    assert row_dicts(table) == [(1, "b"), (3, "a"), (3, "b"), (11, "a")]
    table.append(pa.table({"id": [2, 2], "p": ["a", "b"]}))
    assert table.delete("id = 2").metrics["numDeletedRows"] == 2, "which are newer than the deletes"
    table.purge()
    assert (len(table.handle.newest().contents.deletes), row_dicts(table)) == (
        0,
        [(1, "b"), (3, "a"), (3, "b"), (11, "a")],
    )
    assert table.check().clean


def row_dicts(table: IcebergTable) -> list[tuple[int, str]]:
    found = [(row["id"], row["p"]) for row in duck(table)]
    assert sorted(found) == sorted((row["id"], row["p"]) for row in table.toArrow().to_pylist())
    return sorted(found)
