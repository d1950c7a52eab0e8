"""Streams on Spark: source, sink, changes read by Spark and merges, stopped and started again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import holdfast
from holdfast import DeltaTable
from tests.support.gateway import address


@pytest.fixture(scope="module", autouse=True)
def registered(spark: SparkSession) -> None:
    holdfast.register(spark)


def table(path: Path, *, feed: bool = False) -> DeltaTable:
    made = DeltaTable.create(None).location(str(path)).addColumn("n", "long").addColumn("s", "string")
    return made.property("delta.enableChangeDataFeed", str(feed).lower()).execute()


def some(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64()), "s": [f"row {n}" for n in numbers]})


def stream(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.readStream.format("holdfast").options(**options).load(address(path))


def run(rows: DataFrame, target: Path, checkpoint: Path, mode: str = "append") -> None:
    writer = rows.writeStream.format("holdfast").option("checkpointLocation", str(checkpoint)).outputMode(mode)
    finish(writer.trigger(availableNow=True).start(address(target)))


def finish(query: StreamingQuery) -> None:
    assert query.awaitTermination(120), "the query ends by itself"


def collected(rows: DataFrame, checkpoint: Path) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}

    def keep(batch: DataFrame, number: int) -> None:
        found[number] = sorted(batch.collect(), key=repr)

    writer = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    finish(writer.trigger(availableNow=True).start())
    return found


def numbers(path: Path) -> list[int]:
    return sorted(DeltaTable.forPath(None, str(path)).toArrow().column("n").to_pylist())


def test_every_row_once_wherever_a_query_dies(spark: SparkSession, tmp_path: Path) -> None:
    source, target, checkpoint = tmp_path / "source", tmp_path / "target", tmp_path / "checkpoint"
    made = table(source)
    made.append(some(1, 2))
    made.append(some(3))
    rows = stream(spark, source, maxFilesPerTrigger="1")
    run(rows, target, checkpoint)
    assert numbers(target) == [1, 2, 3]
    written = DeltaTable.forPath(None, str(target))
    assert [row["operation"] for row in written.historyArrow().to_pylist()] == [
        "STREAMING UPDATE",
        "STREAMING UPDATE",
        "CREATE TABLE",
    ]
    # Dead after the table's commit and before Spark's own: batch 1 is run again.
    forget(checkpoint / "commits", "1")
    made.append(some(4))
    run(rows, target, checkpoint)
    assert numbers(target) == [1, 2, 3, 4]
    assert written.version == 3
    # Dead between Spark's note of what the batch is and the table's commit.
    forget(checkpoint / "commits", "2")
    forget(target / "_delta_log", f"{3:020}.json")
    forget(target / "_delta_log", f"{3:020}.crc")
    run(rows, target, checkpoint)
    assert numbers(target) == [1, 2, 3, 4]


def forget(directory: Path, name: str) -> None:
    (directory / name).unlink()
    (directory / f".{name}.crc").unlink(missing_ok=True)


def test_source_and_spark_give_the_same_changes(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "source"
    made = table(path)
    made.append(some(1, 2, 3))
    made.update("n = 1", {"s": "'changed'"})
    made.delete("n = 2")
    made.append(some(4))
    made.update("n > 2", {"s": "'changed too'"}, mode="copy-on-write")
    options = {"startingVersion": "0", "maxFilesPerTrigger": "2"}
    ours = collected(stream(spark, path, kind="min-delta", **options), tmp_path / "one")
    theirs: dict[int, list[Any]] = {}

    def keep(batch: DataFrame, number: int) -> None:
        theirs[number] = sorted(batch.collect(), key=repr)

    query = DeltaTable.forPath(spark, str(path)).streamChanges(
        "min-delta",
        keep,
        checkpointLocation=str(tmp_path / "two"),
        startingVersion=0,
        maxFilesPerTrigger=2,
        availableNow=True,
    )
    finish(query)
    assert len(ours) > 2
    assert theirs == ours
    assert {row["_change_type"] for rows in ours.values() for row in rows} == {
        "insert",
        "delete",
        "update_preimage",
        "update_postimage",
    }


def test_complete_mode_and_merges(spark: SparkSession, tmp_path: Path) -> None:
    source, counts, merged = tmp_path / "source", tmp_path / "counts", tmp_path / "merged"
    made = table(source)
    made.append(some(1, 2))
    made.append(some(2, 3))
    rows = stream(spark, source, maxFilesPerTrigger="1")
    run(rows.groupBy("n").count(), counts, tmp_path / "one", mode="complete")
    found = DeltaTable.forPath(None, str(counts)).toArrow().sort_by("n")
    assert found.to_pylist() == [{"n": 1, "count": 1}, {"n": 2, "count": 2}, {"n": 3, "count": 1}]
    table(merged)
    target = DeltaTable.forPath(spark, str(merged)).alias("t")
    merge: Callable[[DataFrame, int], None] = target.mergeStream("t.n = s.n", appId="merging")
    query = DeltaTable.forPath(spark, str(source)).streamChanges(
        "upsert",
        lambda batch, number: merge(batch.select("n", "s"), number),
        checkpointLocation=str(tmp_path / "two"),
        maxFilesPerTrigger=1,
        availableNow=True,
    )
    finish(query)
    assert numbers(merged) == [1, 2, 3]
    version = target.version
    assert version == 2
    merge(spark.createDataFrame(some(9)), 1)
    assert target.version == version, "batch 1 was merged already"


def test_what_is_wrong_is_said(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "source"
    table(path).append(some(1))
    with pytest.raises(PySparkException, match="no option 'mergeschema'"):
        stream(spark, path, mergeSchema="true")
    with pytest.raises(PySparkException, match=r"spark.read.format.*has no option 'kind'"):
        spark.read.format("holdfast").option("kind", "upsert").load(str(path)).collect()
    with pytest.raises(holdfast.Invalid, match="no kind of changes"):
        DeltaTable.forPath(spark, str(path)).streamChanges("all", print, checkpointLocation=str(tmp_path))
    with pytest.raises(holdfast.Invalid, match="go with orderBy="):
        DeltaTable.forPath(spark, str(path)).mergeStream("t.n = s.n", appId="x", duplicates="first")
    with pytest.raises(holdfast.Invalid, match="needs a Spark session"):
        DeltaTable.forPath(None, str(path)).streamChanges("upsert", print, checkpointLocation=str(tmp_path))


@pytest.mark.everywhere
def test_a_table_is_read_by_its_format(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    plain = "byte short integer long float double boolean string binary date timestamp timestamp_ntz decimal(20,4)"
    nested = "array<struct<a:long>> map<string,array<integer>> struct<x:struct<y:string>>"
    types = f"{plain} {nested}".split()
    builder = DeltaTable.create(None).location(path)
    for number, type_ in enumerate(types):
        builder = builder.addColumn(f"c{number}", type_)
    builder.addColumn("n", "long", nullable=False).execute()
    one = ", ".join(f"CAST(NULL AS {type_}) AS c{number}" for number, type_ in enumerate(types))
    two = (
        "1Y, 2S, 3, 4L, 5F, 6D, true, 's', X'07', DATE '2024-05-01', TIMESTAMP '2024-05-01 12:00:00', "
        "TIMESTAMP_NTZ '2024-05-01 12:00:00', 1.5, array(named_struct('a', 1L)), map('k', array(1)), "
        "named_struct('x', named_struct('y', 'z'))"
    )
    table = DeltaTable.forPath(spark, path)
    table.append(spark.sql(f"SELECT {one}, 1L AS n UNION ALL SELECT {two}, 2L"))
    table.append(spark.sql(f"SELECT {one}, 3L AS n"))
    table.delete("n = 1")
    reader = spark.read.format("holdfast")
    assert reader.load(path).orderBy("n").collect() == table.toDF().orderBy("n").collect()
    assert reader.option("versionAsOf", 1).load(path).count() == 2
