"""Rows hidden by deletion vectors are gone before anything else looks at them."""

from __future__ import annotations

import datetime
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from holdfast import DeltaTable
from tests.support.depth import examples
from tests.support.reading import IDS, both, known, spark_rows
from tests.support.tablesmith import Tablesmith


@pytest.fixture
def smith(tmp_path: Path) -> Tablesmith:
    """A table whose only bad row, `not a number` over zero, is hidden; a second file hides nothing."""
    smith = Tablesmith(tmp_path / "t", schema=[("id", "long"), ("text", "string"), ("divisor", "long")])
    good = [{"id": i, "text": str(i), "divisor": i + 1} for i in range(9)]
    smith.append([*good[:4], {"id": 4, "text": "not a number", "divisor": 0}, *good[5:]])
    smith.append([{"id": i, "text": str(i), "divisor": i} for i in range(9, 12)])
    smith.hide(0, [4])
    return smith


def picky(text: str) -> Column:
    """A function that raises on what is not a number."""
    return F.udf(lambda value: int(value) >= 0, "boolean")(F.col(text))


@pytest.mark.everywhere
@pytest.mark.parametrize(
    "where",
    ["cast(text as long) >= 0", "100 / divisor > 0", "cast(text as long) >= 0 and id > -1"],
)
def test_a_condition_that_would_raise_on_a_hidden_row_does_not(
    spark: SparkSession, smith: Tablesmith, where: str
) -> None:
    table = DeltaTable.forPath(spark, smith.url)
    assert table.scan(where=where).count() == 11
    assert table.toDF().where(where).count() == 11


@pytest.mark.everywhere
def test_a_udf_that_would_raise_on_a_hidden_row_does_not(spark: SparkSession, smith: Tablesmith) -> None:
    table = DeltaTable.forPath(spark, smith.url)
    assert table.scan(where=picky("text")).count() == 11
    assert table.toDF().where(picky("text")).count() == 11


def test_the_same_conditions_do_raise_when_the_row_is_live(spark: SparkSession, tmp_path: Path) -> None:
    """Otherwise the tests above would show nothing."""
    smith = Tablesmith(tmp_path / "t", schema=[("text", "string")])
    smith.append([{"text": "not a number"}])
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        DeltaTable.forPath(spark, smith.url).scan(where="cast(text as long) >= 0").count()


@pytest.mark.everywhere
def test_limit_counts_live_rows(spark: SparkSession, smith: Tablesmith) -> None:
    smith.hide(0, [0, 1, 2, 3])
    df = DeltaTable.forPath(spark, smith.url).toDF()
    assert df.limit(5).count() == 5
    assert df.limit(100).count() == 7
    assert df.orderBy("id").limit(1).collect()[0]["id"] == 5


@pytest.mark.everywhere
@pytest.mark.parametrize("storage", ["i", "u", "up", "p"])
def test_vectors_however_they_are_stored(spark: SparkSession, tmp_path: Path, storage: str) -> None:
    smith = Tablesmith(tmp_path / "t", schema=[("id", "long")])
    smith.append([{"id": i} for i in range(20)], files=2)
    smith.hide_many({0: [0, 9], 1: [3]}, storage=storage)
    assert both(spark, smith.url, metadata=IDS) == known(smith)
    smith.hide(0, [1, 2], storage=storage)
    assert both(spark, smith.url, metadata=IDS) == known(smith)


def test_positions_are_physical_across_row_groups_and_splits(spark: SparkSession, tmp_path: Path) -> None:
    """A file of many row groups, read in splits and with row groups skipped, keeps its numbering."""
    smith = Tablesmith(tmp_path / "t", schema=[("id", "long")])
    smith.append([{"id": i} for i in range(100_000)])
    (add,) = smith.live()
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": range(100_000)}), sink, row_group_size=1000)
    smith.put(add["path"], sink.getvalue())
    smith.commit([{"add": {**add, "size": len(sink.getvalue())}}])
    hidden = [i for i in range(100_000) if i % 7 == 0 or 65_000 <= i < 67_000]
    smith.hide(0, hidden)
    old = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    try:
        df = DeltaTable.forPath(spark, smith.url).scan(metadata=["_row_index"], where="id > 64000 or id < 100")
        assert df.toDF("id", "at").where("id <> at").count() == 0
        got = sorted(row["id"] for row in df.toArrow().to_pylist())
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", old)
    gone = set(hidden)
    assert got == [i for i in range(100_000) if i not in gone and (i > 64000 or i < 100)]


def test_a_comparison_is_pushed_below_and_other_conditions_are_not(
    spark: SparkSession, smith: Tablesmith, capsys: pytest.CaptureFixture[str]
) -> None:
    DeltaTable.forPath(spark, smith.url).scan(where="id > 6 and cast(text as long) >= 0").explain()
    plan = capsys.readouterr().out
    filtered = next(part for part in plan.split("FileScan")[1:] if "__hf" in plan and "row_index" in part)
    assert "GreaterThan(id,6)" in filtered
    below_join = plan[plan.index("BroadcastHashJoin") :]
    assert "cast(text" not in below_join


def test_files_that_hide_nothing_take_the_plain_path(
    spark: SparkSession, smith: Tablesmith, capsys: pytest.CaptureFixture[str]
) -> None:
    smith.rewrite()
    DeltaTable.forPath(spark, smith.url).toDF().explain()
    plan = capsys.readouterr().out
    assert "Join" not in plan
    assert "row_index" not in plan
    assert "Filter (" not in plan


@given(data=st.data())
@examples(4)
def test_random_tables_read_as_they_were_made(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Materialized ids, vectors, mapping, partitions, evolution and checkpoints, in any mixture."""
    mapping = data.draw(st.sampled_from([None, "name", "id"]))
    partition_by = data.draw(st.sampled_from([[], ["p"], ["p", "q"]]))
    smith = Tablesmith(
        tmp_path_factory.mktemp("random") / "t",
        schema=[("id", "long"), ("p", "string"), ("q", "date"), ("v", "string")],
        partition_by=partition_by,
        column_mapping=mapping,
        features=["v2Checkpoint"],
    )
    text = st.sampled_from(["a", "b c", "x%y", "ü/=:", None])
    day = st.sampled_from([datetime.date(2020, 1, 1), datetime.date(1, 1, 1), None])
    row = st.fixed_dictionaries({"id": st.integers(0, 100), "p": text, "q": day, "v": st.none() | st.text(max_size=3)})
    smith.append(data.draw(st.lists(row, min_size=1, max_size=8)), files=2)
    for _ in range(data.draw(st.integers(1, 4))):
        match data.draw(st.sampled_from(["append", "hide", "update", "rewrite", "checkpoint"])):
            case "append":
                smith.append(data.draw(st.lists(row, min_size=1, max_size=5)))
            case "hide":
                at = data.draw(st.integers(0, 10_000))
                live = smith.rows()
                if live:
                    chosen = live[at % len(live)]
                    smith.hide(chosen["_file"], [chosen["_row_index"]], storage=data.draw(st.sampled_from("iup")))
            case "update":
                live = smith.rows()
                if live:
                    chosen = live[data.draw(st.integers(0, 10_000)) % len(live)]
                    smith.update(chosen["_file"], {chosen["_row_index"]: {"v": "new"}})
            case "rewrite":
                smith.rewrite()
            case "checkpoint":
                smith.checkpoint(data.draw(st.sampled_from(["classic", "v2-json", "v2-parquet"])), stats="both")
    assert both(spark, smith.url, metadata=IDS) == known(smith)
    some = smith.rows()
    if some:
        first = some[0]["_row_id"]
        assert [
            r["_row_id"] for r in spark_rows(spark, smith.url, where=f"_row_id = {first}", metadata=["_row_id"])
        ] == [first]
