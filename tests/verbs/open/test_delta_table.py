"""The object users hold: opening, reading, time travel, history, detail, explain."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import DeltaTable, Invalid, NotATable, TableError, Unsupported
from holdfast.errors import UnknownColumn, UnknownVersion
from holdfast.storage.open import open_location
from tests.support.reading import local_rows, spark_rows
from tests.support.tablesmith import Tablesmith

START = 1_700_000_000_000


@pytest.fixture
def smith(tmp_path: Path) -> Tablesmith:
    smith = Tablesmith(tmp_path / "t", schema=[("id", "long"), ("v", "string")], start_ms=START)
    smith.append([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    smith.append([{"id": 3, "v": "c"}])
    return smith


@pytest.mark.everywhere
def test_open_and_read(spark: SparkSession, smith: Tablesmith) -> None:
    table = DeltaTable.forPath(spark, smith.url)
    assert table.version == 2
    assert table.toDF().columns == ["id", "v"]
    assert sorted(row["id"] for row in table.toDF().collect()) == [1, 2, 3]
    assert sorted(row["id"] for row in holdfast.read(spark, smith.url, where="id > 1").collect()) == [2, 3]
    assert table.scan(columns=["v"], where="id = 2").collect() == [("b",)]
    assert repr(table) == f"DeltaTable({open_location(smith.url).url}, version 2)"


@pytest.mark.everywhere
def test_by_path_in_the_form_of_a_name(spark: SparkSession, smith: Tablesmith) -> None:
    path = smith.url.removeprefix("file://")
    assert DeltaTable.forName(spark, f"delta.`{path}`").toDF().count() == 3
    with pytest.raises(NotATable, match="catalog"):
        DeltaTable.forName(spark, "db.table")


@pytest.mark.everywhere
def test_is_it_a_table(spark: SparkSession, smith: Tablesmith, tmp_path: Path) -> None:
    assert DeltaTable.isDeltaTable(spark, smith.url)
    assert not DeltaTable.isDeltaTable(spark, str(tmp_path / "nothing"))
    assert not DeltaTable.isDeltaTable(spark, str(tmp_path))
    with pytest.raises(NotATable, match="nothing"):
        DeltaTable.forPath(spark, str(tmp_path / "nothing"))


@pytest.mark.everywhere
def test_a_table_sees_new_commits(spark: SparkSession, smith: Tablesmith) -> None:
    table = DeltaTable.forPath(spark, smith.url)
    before = table.toDF()
    smith.append([{"id": 4, "v": "d"}])
    assert table.toDF().count() == 4
    assert before.count() == 3
    assert table.alias("x").toDF().where("x.id > 2").count() == 2


@pytest.mark.everywhere
def test_time_travel(spark: SparkSession, smith: Tablesmith) -> None:
    table = DeltaTable.forPath(spark, smith.url)
    assert table.scan(version=0).count() == 0
    assert table.scan(version=1).count() == 2
    moments = {row["version"]: row["timestamp"] for row in table.historyArrow().to_pylist()}
    assert table.scan(timestamp=moments[1]).count() == 2
    assert table.scan(timestamp=moments[1].isoformat()).count() == 2
    just_before = moments[2] - datetime.timedelta(milliseconds=1)
    assert table.scan(timestamp=just_before).count() == 2
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        in_tokyo = moments[1] + datetime.timedelta(hours=9)
        assert table.scan(timestamp=f"{in_tokyo:%Y-%m-%d %H:%M:%S.%f}").count() == 2
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


@pytest.mark.everywhere
def test_versions_and_moments_that_are_not_there(spark: SparkSession, smith: Tablesmith) -> None:
    table = DeltaTable.forPath(spark, smith.url)
    with pytest.raises(UnknownVersion, match="7"):
        table.scan(version=7)
    with pytest.raises(UnknownVersion, match="2023-11-14"):
        table.scan(timestamp="2001-01-01")
    with pytest.raises(Invalid, match="not for both"):
        table.scan(version=1, timestamp="2024-01-01")
    with pytest.raises(Invalid, match="no timestamp"):
        table.scan(timestamp="yesterday")


@pytest.mark.everywhere
def test_history_and_detail(spark: SparkSession, smith: Tablesmith) -> None:
    table = DeltaTable.forPath(spark, smith.url)
    rows = table.history().collect()
    assert [(row["version"], row["operation"]) for row in rows] == [(2, "WRITE"), (1, "WRITE"), (0, "CREATE TABLE")]
    assert [row["version"] for row in table.history(1).collect()] == [2]
    (detail,) = table.detail().collect()
    assert detail["format"] == "delta"
    assert detail["numFiles"] == 2
    assert detail["tableFeatures"] == ["deletionVectors", "domainMetadata", "rowTracking"]
    assert table.history().columns[:3] == ["version", "timestamp", "userId"]


@pytest.mark.everywhere
def test_explain(spark: SparkSession, smith: Tablesmith) -> None:
    smith.hide(0, [0])
    explained = DeltaTable.forPath(spark, smith.url).explain(where="id = 2 and upper(v) = 'B'")
    assert (explained.files_read, explained.files_total, explained.rows_hidden) == (1, 2, 1)
    shown = str(explained)
    for part in ("1 of 2 are read", "by_bounds", "drops 1", "`UPPER(v) = 'B'` is left to Spark", "hidden"):
        assert part in shown, shown
    assert "file" in repr(DeltaTable.forPath(spark, smith.url).explain())


def test_without_spark(smith: Tablesmith) -> None:
    table = DeltaTable.forPath(None, smith.url)
    assert table.toArrow(where="id >= 2").num_rows == 2
    assert table.historyArrow().num_rows == 3
    assert table.detailArrow()["numFiles"].to_pylist() == [2]
    assert table.explain(where="id > 2").files_read == 1
    with pytest.raises(Invalid, match="without a Spark session"):
        table.toDF()
    with pytest.raises(Unsupported, match="Spark"):
        table.toArrow(where="upper(v) = 'A'")


def test_both_engines_refuse_the_same_way(spark: SparkSession, smith: Tablesmith) -> None:
    for asked in ({"columns": ["nope"]}, {"metadata": ["nope"]}, {"version": 99}, {"columns": ["id", "ID"]}):
        with pytest.raises(TableError) as on_spark:
            spark_rows(spark, smith.url, **asked)
        with pytest.raises(TableError) as locally:
            local_rows(smith.url, **asked)
        assert (type(on_spark.value), str(on_spark.value)) == (type(locally.value), str(locally.value))


@pytest.mark.everywhere
@pytest.mark.parametrize("columns", [[], ["v"], ["v", "id"]])
def test_columns_come_as_asked(spark: SparkSession, smith: Tablesmith, columns: list[str]) -> None:
    df = DeltaTable.forPath(spark, smith.url).scan(columns=columns)
    assert df.columns == columns
    assert df.count() == 3


def test_an_empty_table(spark: SparkSession, tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path / "t", schema=[("id", "long"), ("p", "string")], partition_by=["p"])
    df = DeltaTable.forPath(spark, smith.url).scan(metadata=["_row_id", "_partition"], where="id > 0")
    assert df.count() == 0
    assert df.columns == ["id", "p", "_row_id", "_partition"]


def test_names_in_a_condition_that_are_no_columns(spark: SparkSession, smith: Tablesmith) -> None:
    for read in (lambda **kw: spark_rows(spark, smith.url, **kw), lambda **kw: local_rows(smith.url, **kw)):
        with pytest.raises(UnknownColumn, match="did you mean id"):
            read(where="idd = 3")
        with pytest.raises(UnknownColumn, match=r"metadata=\['_row_id'\]"):
            read(where="_row_id = 3")
        assert [row["id"] for row in read(where="_row_id = 2", metadata=["_row_id"])] == [3]
    table = DeltaTable.forPath(spark, smith.url)
    with pytest.raises(UnknownColumn, match="did you mean id"):
        table.scan(where=F.col("idd") == 3)
    assert table.scan(where="current_date > date '2020-01-01' and exists(array(id), x -> x = 1)").count() == 1
    assert "upper(`v`)" in str(table.explain(where=F.upper("v") == "A")).lower()
    with pytest.raises(Invalid, match="whole number"):
        table.scan(version="1")


def test_a_path_may_be_a_path(spark: SparkSession, smith: Tablesmith, tmp_path: Path) -> None:
    assert DeltaTable.forPath(spark, tmp_path / "t").version == 2
