from __future__ import annotations

from collections.abc import Callable
from copy import copy
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import DeltaTable
from holdfast._dropin.frames import query_of


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of ten files: ids 0 to 9 in the first, and so on."""
    place = str(tmp_path_factory.mktemp("frames") / "t")
    with holdfast.enable(spark):
        rows = spark.range(0, 100, 1, 10).withColumn("s", F.concat(F.lit("s"), F.col("id")))
        rows.withColumn("n", F.struct((F.col("id") * 2).alias("x"))).write.format("delta").save(place)
    return place


@pytest.fixture
def df(enabled: SparkSession, path: str) -> DataFrame:
    return enabled.read.format("delta").load(path)


def files(df: DataFrame) -> int:
    return len(df.inputFiles())


NARROWED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "text": lambda df: df.where("id = 42"),
    "a column": lambda df: df.filter(F.col("id") == 42),
    "a column of the frame": lambda df: df.filter(df.id == 42),
    "an item of the frame": lambda df: df.where((df["id"] > 41) & (df["id"] < 43)),
    "an index": lambda df: df[df["id"] == 42],
    "a field": lambda df: df.where("n.x = 84"),
    "twice": lambda df: df.where("id > 39").where(F.col("id") < 43).where("s = 's42'"),
    "after a selection": lambda df: df.select("id", "s").where("id = 42"),
    "after a new column": lambda df: df.withColumn("up", F.upper("s")).filter(F.col("id") == 42),
    "before others": lambda df: df.where("id = 42").groupBy("id", "s").agg(F.count("*").alias("c")),
    "columns of the frame later": lambda df: df.where(df.id == 42).orderBy(df.s.desc()).select(df.id, df.s),
    "its row id": lambda df: df.where("_metadata.row_id = 42"),
    "with its row id": lambda df: df.select("*", "_metadata.row_id").where("id = 42"),
    "after an order": lambda df: df.orderBy(df.id.desc()).where("id = 42"),
    "spread anew": lambda df: df.repartition(2, "id").coalesce(1).where(df.id == 42),
    "under another name": lambda df: df.alias("t").where("t.id = 42"),
}


@pytest.mark.parametrize("how", NARROWED)
def test_a_condition_put_later_leaves_out_files(df: DataFrame, how: str) -> None:
    found = NARROWED[how](df)
    assert [row.id for row in found.collect()] == [42]
    assert files(found) == 1


def test_it_reads_no_more_files_than_a_scan(df: DataFrame, path: str, enabled: SparkSession) -> None:
    table = DeltaTable.forPath(enabled, path)
    for where in ("id between 35 and 61", "id in (1, 99)", "s like 's4%'", "n.x < 10", "id % 2 = 0 and id > 80"):
        assert files(df.where(where)) == files(table.scan(where=where)), where
        assert {r.id for r in df.where(where).collect()} == {r.id for r in table.scan(where=where).collect()}, where


def test_a_name_that_means_something_else_prunes_nothing(df: DataFrame) -> None:
    turned = df.withColumn("id", 99 - F.col("id")).where("id = 42")
    assert [row.s for row in turned.collect()] == ["s57"]
    renamed = df.select((F.col("id") + 1).alias("id"), "s").where("id = 42 and s = 's41'")
    assert [row.s for row in renamed.collect()] == ["s41"]


def test_one_plan_where_no_condition_comes(df: DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    query = query_of(df)
    assert query is not None
    scans: list[object] = []
    plain = type(query.pinned).scan
    monkeypatch.setattr(type(query.pinned), "scan", lambda *a: scans.append(a) or plain(*a))  # type: ignore[func-returns-value]
    assert df.columns == ["id", "s", "n"]
    assert df.where("id > 5").schema == df.schema
    assert not scans
    assert df.count() == 100
    df.show(1)
    assert len(df.take(1)) == len(scans) == 1


@pytest.mark.connect
def test_metadata_of_rows(df: DataFrame) -> None:
    told = df.where("id = 42").select(
        "id",
        "_metadata.row_id",
        F.col("_metadata.row_commit_version").alias("v"),
        df["_metadata.row_index"],
        df.metadataColumn("_metadata")["file_path"].alias("path"),
    )
    row = told.collect()[0]
    assert (row.id, row.row_id, row.v, row.row_index) == (42, 42, 0, 2)
    assert row.path.endswith(".parquet")
    assert told.columns == ["id", "row_id", "v", "row_index", "path"]
    assert "_metadata" not in df.columns
    assert "_metadata" not in df.withColumn("rid", F.col("_metadata.row_id")).columns
    assert df.select("_metadata").columns == ["_metadata"]
    assert df.alias("x").select("x.*", "_metadata.row_id").columns == ["id", "s", "n", "row_id"]
    assert df.where("_metadata.row_id < 3").select("s").where("_metadata.row_id > 0").count() == 2


@pytest.mark.connect
def test_metadata_of_files(df: DataFrame, enabled: SparkSession, path: str) -> None:
    written = {f.as_uri().replace("file:///", "file:/"): f.stat() for f in Path(path).glob("*.parquet")}
    told = df.select("_metadata").where("_metadata.file_size > 0").collect()
    assert len(told) == 100
    for row in told:
        of = row["_metadata"]
        stat = written[of.file_path]
        assert (of.file_size, of.file_block_start, of.file_block_length) == (stat.st_size, 0, stat.st_size)
        assert of.file_name == of.file_path.rpartition("/")[2]
        assert abs(of.file_modification_time.timestamp() - stat.st_mtime) < 60
    by_sql = enabled.sql(f"SELECT _metadata FROM delta.`{path}` WHERE _metadata.file_size > 0 AND id = 42").collect()
    assert by_sql[0] in told
    assert by_sql[0]["_metadata"].__fields__ == [
        *("file_path", "file_name", "file_size", "file_block_start", "file_block_length", "file_modification_time"),
        *("row_index", "row_id", "base_row_id", "default_row_commit_version", "row_commit_version"),
    ]
    assert not enabled.sql(f"SELECT id FROM delta.`{path}` WHERE _metadata.file_size > 1000000000").inputFiles()
    late = df.where("_metadata.file_modification_time > timestamp'2100-01-01'").select("id", "_metadata.file_size")
    assert (late.columns, late.count()) == (["id", "file_size"], 0)


def test_metadata_that_there_is_not(df: DataFrame, enabled: SparkSession, path: str) -> None:
    with pytest.raises(PySparkException, match="file_owner"):
        df.select("_metadata.file_owner")
    with pytest.raises(PySparkException, match="file_owner"):
        enabled.sql(f"SELECT _metadata.file_owner FROM delta.`{path}`")


@pytest.mark.connect
def test_it_is_a_dataframe_like_any_other(df: DataFrame, enabled: SparkSession) -> None:
    assert isinstance(df, DataFrame)
    assert type(df.limit(1)) is type(enabled.range(1))
    other = enabled.range(40, 45)
    assert df.join(other, df.id == other.id).drop(other.id).columns == ["id", "s", "n"]
    assert sorted(row.id for row in df.join(other, "id").select(df.id).collect()) == [40, 41, 42, 43, 44]
    again = df.where("id < 3")
    assert df.where("id < 2").union(again).count() == 5
    assert df.agg(F.sum(df.id)).columns == ["sum(id)"]
    assert again.toPandas is not None
    assert {f.name for f in df.schema} == set(df.columns)
    assert df.dtypes[0] == ("id", "bigint")
    df.createOrReplaceTempView("remembered")
    try:
        assert enabled.sql("select count(*) c from remembered where id > 97").collect()[0].c == 2
        assert enabled.table("remembered").where("remembered.id = 4").count() == 1
        enabled.range(2).createOrReplaceTempView("remembered")
        assert enabled.sql("select * from remembered").count() == 2
    finally:
        enabled.catalog.dropTempView("remembered")


def test_what_is_wrong_is_said_at_once(df: DataFrame) -> None:
    for wrong in (
        lambda: df.where("nope = 1"),
        lambda: df.select("nope"),
        lambda: df.withColumn("x", F.col("nope")),
        lambda: df.orderBy("nope"),
        lambda: df["nope"],
    ):
        with pytest.raises(AnalysisException) as error:
            wrong()
        assert (error.value.getCondition() or "").startswith("UNRESOLVED_COLUMN")


def test_names_that_only_look_like_metadata(enabled: SparkSession, path: str) -> None:
    df = enabled.read.format("delta").load(path).withColumn("my_metadata", F.lit("x"))
    assert df.where("my_metadata = 'x' and id = 1").count() == 1
    assert copy(df.where("id < 3")).count() == 3
