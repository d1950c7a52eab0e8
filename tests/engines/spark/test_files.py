"""Spark reads exactly the planned files, or raises."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import Damaged, DeltaTable, Invalid, Unsupported
from holdfast.engines.spark.scan import file_list as filelist
from holdfast.engines.spark.scan.file_list import NAMED_AT_MOST
from holdfast.engines.spark.scan.scratch import Scratch
from tests.support.reading import IDS, both, known, local_rows, spark_opens, spark_rows
from tests.support.tablesmith import Tablesmith

AWKWARD = [
    "a b",
    "100%",
    "x=y",
    "a:b",
    "ü ß",
    "[z]",
    "{q}",
    "*",
    "?",
    "#1",
    "a&b",
    "c\\d",
    "e'f",
    'g"h',
    "~",
    "^",
    "日本",
]


def table(path: Path, **kwargs: object) -> Tablesmith:
    return Tablesmith(path / "t", schema=[("id", "long"), ("p", "string")], **kwargs)


@pytest.mark.everywhere
def test_a_scan_that_is_cached_does_not_stand_in_the_way_of_others(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).coalesce(1).write.parquet(str(tmp_path / "t"))
    table = DeltaTable.convertToDelta(spark, f"parquet.`{tmp_path / 't'}`")
    cached = table.toDF().cache()
    try:
        assert cached.count() == 3
        assert table.toDF().where("id > 0").count() == 2
        table.delete("id = 1")
        assert sorted(row.id for row in table.toDF().collect()) == [0, 2]
        assert cached.count() == 3
    finally:
        cached.unpersist()


def test_a_live_file_that_was_deleted_is_an_error_that_names_it(spark: SparkSession, tmp_path: Path) -> None:
    smith = table(tmp_path)
    smith.append([{"id": i} for i in range(4)], files=2)
    gone = unquote(smith.live()[1]["path"])
    smith.delete(gone)
    with pytest.raises(Damaged, match=gone):
        spark_rows(spark, smith.url)
    with pytest.raises(Damaged, match=gone):
        local_rows(smith.url)


def test_among_many_files_too(spark: SparkSession, tmp_path: Path) -> None:
    smith = table(tmp_path)
    smith.append([{"id": i} for i in range(NAMED_AT_MOST + 5)], files=NAMED_AT_MOST + 5)
    gone = unquote(smith.live()[7]["path"])
    smith.delete(gone)
    with pytest.raises(Exception, match=gone):
        spark_rows(spark, smith.url)


@pytest.mark.everywhere
def test_an_empty_file_is_an_error_that_names_it(spark: SparkSession, tmp_path: Path) -> None:
    smith = table(tmp_path)
    smith.append([{"id": 1}])
    path = unquote(smith.live()[0]["path"])
    smith.put(path, b"")
    with pytest.raises(Damaged if spark_opens(spark, smith.url) else PySparkException, match=path):
        spark_rows(spark, smith.url)
    with pytest.raises(Damaged, match=path):
        local_rows(smith.url)


def test_an_empty_file_among_many_too(spark: SparkSession, tmp_path: Path) -> None:
    smith = table(tmp_path)
    smith.append([{"id": i} for i in range(NAMED_AT_MOST + 5)], files=NAMED_AT_MOST + 5)
    path = unquote(smith.live()[3]["path"])
    smith.put(path, b"")
    with pytest.raises(Exception, match=path):
        spark_rows(spark, smith.url)


@pytest.mark.everywhere
@pytest.mark.parametrize("name", ["_part-0.parquet", ".part-0.parquet"])
def test_a_file_that_spark_would_skip_is_refused_by_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    smith = table(tmp_path)
    smith.append([{"id": 1}, {"id": 2}])
    (add,) = smith.live()
    (tmp_path / "t" / name).write_bytes((tmp_path / "t" / unquote(add["path"])).read_bytes())
    smith.commit([smith._removed(add), {"add": {**add, "path": name}}])
    if spark_opens(spark, smith.url):
        with pytest.raises(Unsupported, match=name):
            spark_rows(spark, smith.url)
    else:
        assert sorted(row["id"] for row in spark_rows(spark, smith.url)) == [1, 2]
    assert [row["id"] for row in local_rows(smith.url)] == [1, 2]


def test_many_files_are_listed_and_read_once(spark: SparkSession, tmp_path: Path) -> None:
    smith = table(tmp_path)
    smith.append([{"id": i} for i in range(3 * NAMED_AT_MOST)], files=3 * NAMED_AT_MOST)
    smith.hide(5, [0])
    assert both(spark, smith.url, metadata=IDS) == known(smith)


def test_a_list_that_spark_ignores_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """With this setting Spark takes the scratch directory for an empty table."""
    smith = table(tmp_path)
    smith.append([{"id": i} for i in range(NAMED_AT_MOST + 1)], files=NAMED_AT_MOST + 1)
    spark.conf.set("spark.sql.streaming.fileStreamSink.ignoreMetadata", "true")
    try:
        with pytest.raises(Damaged, match=r"would not read 31 of 31"):
            spark_rows(spark, smith.url)
    finally:
        spark.conf.unset("spark.sql.streaming.fileStreamSink.ignoreMetadata")


@pytest.mark.everywhere
def test_partition_values_with_awkward_characters(spark: SparkSession, tmp_path: Path) -> None:
    smith = table(tmp_path, partition_by=["p"])
    smith.append([{"id": i, "p": p} for i, p in enumerate([*AWKWARD, None])])
    assert both(spark, smith.url, metadata=IDS) == known(smith)
    for value in ("a b", "100%", "ü ß"):
        got = spark_rows(spark, smith.url, where=f"p = '{value}'")
        assert [row["p"] for row in got] == [value]


def test_directories_that_disagree_with_the_log_do_not_matter(spark: SparkSession, tmp_path: Path) -> None:
    smith = table(tmp_path, partition_by=["p"])
    smith.append([{"id": 1, "p": "a"}, {"id": 2, "p": "b"}])
    first, second = smith.live()
    swapped = [
        {"add": {**first, "partitionValues": {"p": "b"}}},
        {"add": {**second, "partitionValues": {"p": "a"}}},
    ]
    smith.commit([*(smith._removed(add) for add in (first, second))])
    smith.commit(swapped)
    got = spark_rows(spark, smith.url)
    assert sorted((row["id"], row["p"]) for row in got) == [(1, "b"), (2, "a")]
    assert sorted((row["id"], row["p"]) for row in local_rows(smith.url)) == [(1, "b"), (2, "a")]


def test_spark_prunes_partitions_it_discovers_itself(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smith = table(tmp_path, partition_by=["p"])
    smith.append([{"id": i, "p": p} for i, p in enumerate(["a", "b", None])])
    df = DeltaTable.forPath(spark, smith.url).toDF().where("p = 'b'")
    df.explain()
    assert "PartitionFilters: [isnotnull(p" in capsys.readouterr().out
    assert [row["id"] for row in df.collect()] == [1]


def test_a_table_in_a_directory_that_looks_like_a_partition(spark: SparkSession, tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path / "env=prod", schema=[("id", "long"), ("p", "string")], partition_by=["p"])
    smith.append([{"id": 1, "p": "a"}])
    assert both(spark, smith.url) == [{"id": 1, "p": "a"}]


def test_paths_that_leave_the_table_are_refused_unless_allowed(spark: SparkSession, tmp_path: Path) -> None:
    smith = table(tmp_path)
    smith.append([{"id": 1}])
    (add,) = smith.live()
    outside = tmp_path / "outside.parquet"
    outside.write_bytes((tmp_path / "t" / unquote(add["path"])).read_bytes())
    smith.commit([smith._removed(add), {"add": {**add, "path": "../outside.parquet"}}])
    with pytest.raises(Invalid, match="allow_outside"):
        spark_rows(spark, smith.url)
    allowed = DeltaTable.forPath(spark, smith.url, allow_outside=True)
    assert [row["id"] for row in allowed.scan().collect()] == [1]
    smith.commit(
        [{"remove": {"path": "../outside.parquet", "dataChange": True}}, {"add": {**add, "path": str(outside)}}]
    )
    with pytest.raises(Invalid, match="allow_outside"):
        spark_rows(spark, smith.url)
    rooted = DeltaTable.forPath(spark, smith.url, allow_outside=[str(tmp_path)])
    assert [row["id"] for row in rooted.scan().collect()] == [1]


def test_another_host_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    smith = table(tmp_path)
    smith.append([{"id": 1}])
    (add,) = smith.live()
    smith.commit([{"add": {**add, "path": "s3://elsewhere/x.parquet"}}])
    with pytest.raises(Invalid, match="s3://elsewhere"):
        spark_rows(spark, smith.url)


def test_large_facts_are_read_from_scratch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.engines.spark.scan.broadcast.SENT_AT_MOST", 0)
    smith = table(tmp_path, partition_by=["p"])
    smith.append([{"id": i, "p": "a"} for i in range(10)])
    smith.hide(0, [1, 2])
    assert both(spark, smith.url, metadata=IDS) == known(smith)


@pytest.mark.parametrize("partition_by", [[], ["p"]])
def test_files_are_known_by_their_paths_where_lists_cost_something(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition_by: list[str]
) -> None:
    """As on a remote store, where a few files are named and no list is written."""
    monkeypatch.setattr(Scratch, "is_free", property(lambda self: False))
    smith = table(tmp_path, partition_by=partition_by)
    smith.append([{"id": i, "p": "a%b"} for i in range(10)], files=2)
    smith.hide(0, [1, 2])
    smith.update(1, {0: {"id": 70}})
    assert both(spark, smith.url, metadata=[*IDS, "_file", "_partition"]) is not None
    assert both(spark, smith.url, metadata=IDS) == known(smith)


def test_a_file_with_another_number_raises(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Spark reported anything but our numbers, no row would be taken for another."""
    smith = table(tmp_path)
    smith.append([{"id": i} for i in range(4)])
    smith.hide(0, [1])
    monkeypatch.setattr("holdfast.engines.spark.scan.native.file_number", lambda metadata: F.lit(1_700_000_000_000))
    for asked in ({}, {"metadata": ["_row_id"]}):
        with pytest.raises(Exception, match="no facts for the file number 1700000000000"):
            spark_rows(spark, smith.url, **asked)


def test_the_list_is_what_spark_writes_itself(spark: SparkSession, tmp_path: Path) -> None:
    """The format of the list, against what this version of Spark's own streaming sink leaves behind."""
    source, sink = tmp_path / "in", tmp_path / "out"
    spark.range(3).write.parquet(str(source))
    query = (
        spark.readStream.schema("id long")
        .parquet(str(source))
        .writeStream.option("checkpointLocation", str(tmp_path / "check"))
        .trigger(availableNow=True)
        .start(str(sink))
    )
    query.awaitTermination()
    version, first, *_ = (sink / "_spark_metadata" / "0").read_text().splitlines()
    smith = table(tmp_path)
    smith.append([{"id": i} for i in range(NAMED_AT_MOST + 1)], files=NAMED_AT_MOST + 1)
    written: list[bytes] = []
    files = [filelist.ListedFile(f"file:/x/{i}", f"file:/x/{i}", 10, 1) for i in range(2)]
    filelist._listed(files, _Recorder(written))
    our_version, ours, *_ = written[0].decode().splitlines()
    assert our_version == version
    assert json.loads(ours).keys() == json.loads(first).keys()


class _Recorder(filelist.Scratch):
    """A scratch that keeps what is written."""

    def __init__(self, written: list[bytes]) -> None:
        object.__setattr__(self, "location", written)

    def write(self, name: str, data: bytes) -> None:
        self.location.append(data)

    def path(self, name: str) -> str:
        return f"memory://{name}"
