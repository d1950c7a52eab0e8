"""The columns any scan can ask for beside the table's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable, Invalid
from holdfast.errors import NoRowIdentity, UnknownColumn
from tests.support.reading import both, local_rows, sorted_rows, spark_rows
from tests.support.tablesmith import Tablesmith

pytestmark = pytest.mark.everywhere

ALL = (
    "_row_id",
    "_row_commit_version",
    "_row_index",
    "_file",
    "_partition",
    "_base_row_id",
    "_default_row_commit_version",
)


@pytest.fixture
def smith(tmp_path: Path) -> Tablesmith:
    smith = Tablesmith(tmp_path / "a b", schema=[("id", "long"), ("p", "integer")], partition_by=["p"])
    smith.append([{"id": i, "p": i % 2} for i in range(6)])
    smith.update(0, {1: {"id": 20}})
    return smith


def test_all_of_them(spark: SparkSession, smith: Tablesmith) -> None:
    got = {row["id"]: row for row in both(spark, smith.url, metadata=ALL)}
    assert list(got[20]) == ["id", "p", *ALL]
    assert got[20]["_row_id"] == 1  # kept by the update
    assert got[20]["_row_commit_version"] == 2
    assert got[20]["_base_row_id"] == 6
    assert got[20]["_default_row_commit_version"] == 2
    assert got[20]["_row_index"] == 0
    assert got[20]["_partition"] == {"p": 0}
    assert got[20]["_file"].startswith(smith.url.replace("file:///", "file:/").replace(" ", "%20"))
    assert "/a%20b/p=0/part-" in got[20]["_file"]
    assert (got[4]["_row_id"], got[4]["_row_index"], got[4]["_row_commit_version"]) == (2, 2, 1)


@pytest.mark.parametrize("name", ALL)
def test_each_alone_and_as_a_condition(spark: SparkSession, smith: Tablesmith, name: str) -> None:
    rows = both(spark, smith.url, columns=["id"], metadata=[name])
    assert [list(row) for row in rows] == [["id", name]] * 6
    if isinstance(rows[0][name], int):
        wanted = [row for row in rows if row[name] == rows[-1][name]]
        got = spark_rows(spark, smith.url, columns=["id"], metadata=[name], where=f"{name} = {rows[-1][name]}")
        assert sorted_rows(got) == wanted


def test_pos_is_the_row_index(spark: SparkSession, smith: Tablesmith) -> None:
    rows = both(spark, smith.url, columns=[], metadata=["_pos"])
    assert sorted(row["_pos"] for row in rows) == [0, 0, 0, 1, 2, 2]


def test_aliases(spark: SparkSession, smith: Tablesmith) -> None:
    rows = both(spark, smith.url, columns=["id"], metadata={"_row_id": "rid"})
    assert all(list(row) == ["id", "rid"] for row in rows)


def test_a_users_column_of_the_same_name_wins(spark: SparkSession, tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path / "t", schema=[("_row_id", "string"), ("_metadata", "long")])
    smith.append([{"_row_id": "mine", "_metadata": 7}])
    assert both(spark, smith.url) == [{"_row_id": "mine", "_metadata": 7}]
    for read in (lambda **kw: spark_rows(spark, smith.url, **kw), lambda **kw: local_rows(smith.url, **kw)):
        with pytest.raises(Invalid, match=r'metadata=\{"_row_id": "rid"\}'):
            read(metadata=["_row_id"])
    rows = both(spark, smith.url, metadata={"_row_id": "rid", "_row_index": "at"})
    assert rows == [{"_row_id": "mine", "_metadata": 7, "rid": 0, "at": 0}]


def test_ids_of_a_table_without_row_tracking(spark: SparkSession, tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path / "t", schema=[("id", "long")], row_tracking=False)
    smith.append([{"id": 1}])
    with pytest.raises(NoRowIdentity, match=r"delta\.enableRowTracking=true"):
        spark_rows(spark, smith.url, metadata=["_row_id"])
    assert [row["_row_index"] for row in both(spark, smith.url, metadata=["_row_index", "_file"])] == [0]


def test_unknown_names(spark: SparkSession, smith: Tablesmith) -> None:
    table = DeltaTable.forPath(spark, smith.url)
    with pytest.raises(UnknownColumn, match="_row_id"):
        table.scan(metadata=["_rowid"])
    with pytest.raises(UnknownColumn, match=r"metadata=\['_row_id'\]"):
        table.scan(columns=["_row_id"])
    with pytest.raises(UnknownColumn, match="did you mean id"):
        table.scan(columns=["idd"])
    with pytest.raises(Invalid, match="more than once"):
        table.scan(metadata=["_pos", "_row_index"])
    with pytest.raises(Invalid, match="takes a list"):
        table.scan(columns="id")
