"""Rows of a DataFrame become data files in one job: the same files the local writer makes of the same rows."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from decimal import Decimal as Dec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast.engines.local.write import write_table
from holdfast.engines.spark.dml.write import write_frame
from holdfast.engines.spark.session.carry import by_value
from holdfast.env import system
from holdfast.errors import Unsupported
from holdfast.model.mutation import STAGED
from holdfast.model.write_spec import write_spec
from holdfast.parquet.read import FileTask, ReadSpec, output_schema, read_batches
from holdfast.parquet.source import open_source
from holdfast.parquet.write import WriteSpec
from holdfast.schema.arrow import arrow_schema
from holdfast.schema.types import LONG, MAPPING_ID, MAPPING_NAME, STRING, Array, Decimal, Field, Map, Primitive, Struct
from holdfast.storage.location import Location
from holdfast.storage.memory import MemoryStore
from holdfast.storage.open import open_location


def mapped(name: str, type_: Any, number: int) -> Field:
    return Field(name, type_, metadata={MAPPING_ID: number, MAPPING_NAME: f"col-{number}"})


SCHEMA = Struct(
    (
        mapped("id", LONG, 1),
        mapped("a.b`c", STRING, 2),
        mapped("f", Primitive("double"), 3),
        mapped("d", Decimal(20, 4), 4),
        mapped("t", Primitive("timestamp"), 5),
        mapped("n", Primitive("timestamp_ntz"), 6),
        mapped("day", Primitive("date"), 7),
        mapped("s", Struct((mapped("x", STRING, 8), mapped("l", Array(Struct((mapped("y", LONG, 9),))), 10))), 11),
        mapped("m", Map(STRING, Struct((mapped("z", Primitive("boolean"), 12),))), 13),
        mapped("p", STRING, 14),
        mapped("q", Primitive("timestamp"), 15),
        mapped("bytes", Primitive("binary"), 16),
    )
)
MOMENT = dt.datetime(2024, 2, 29, 23, 59, 59, 999_999, dt.UTC)


def made(count: int) -> pa.Table:
    rows = [
        {
            "id": i,
            "a.b`c": "é" * (i % 40),
            "f": [0.5, float("inf"), -1.25, None][i % 4],
            "d": Dec(i) / 16,
            "t": MOMENT + dt.timedelta(microseconds=i * 777),
            "n": MOMENT.replace(tzinfo=None) - dt.timedelta(microseconds=i),
            "day": dt.date(1969, 12, 31) + dt.timedelta(days=i),
            "s": None if i % 7 == 0 else {"x": str(i), "l": [{"y": i}, None]},
            "m": [(str(i), {"z": i % 2 == 0})],
            "p": [None, "", "x=y", "ü/ß", "%"][i % 5],
            "q": MOMENT + dt.timedelta(days=i % 2),
            "bytes": bytes([i % 256]),
        }
        for i in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(SCHEMA))


def read_back(location: Location, staged: pa.Table, schema: Struct, partitions: tuple[str, ...]) -> list[Any]:
    stored = tuple(f for f in schema if f.name not in partitions)
    found: list[pa.RecordBatch] = []
    for key in staged["key"].to_pylist():
        found += read_batches(
            open_source(location.store, location.key(key), None),
            ReadSpec(stored, by_id=stored[0].field_id is not None),
            FileTask(key),
        )
    table = pa.Table.from_batches(found, output_schema(ReadSpec(stored)))
    return list(table.sort_by("id").to_pylist())


def merged(staged: pa.Table) -> dict[Any, list[Any]]:
    """Rows and statistics by partition, whatever number of files it has."""
    found: dict[Any, list[Any]] = {}
    for row in staged.to_pylist():
        stats = json.loads(row["stats"])
        one = found.setdefault(tuple(row["partition_values"]), [0, set(), set(), set()])
        one[0] += row["num_records"]
        for at, kind in ((1, "minValues"), (2, "maxValues"), (3, "nullCount")):
            one[at].add(json.dumps(stats[kind], sort_keys=True))
    return found


@pytest.mark.everywhere
def test_spark_writes_what_the_local_writer_writes(spark: SparkSession, tmp_path: Path) -> None:
    table = made(300)
    ours, theirs = open_location(str(tmp_path / "local")), open_location(str(tmp_path / "spark"))
    partitions = ("p", "q")
    spec = write_spec(SCHEMA, partitions, {"delta.enableDeletionVectors": "true"})
    local = write_table(ours, table, spec, system())
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")  # must not matter
    try:
        df = spark.createDataFrame(table).withColumn("n", F.col("n").cast("timestamp_ntz"))
        staged = write_frame(df.coalesce(1), spec, theirs)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert staged.schema == STAGED
    assert merged(staged) == merged(local)
    assert read_back(theirs, staged, SCHEMA, partitions) == read_back(ours, local, SCHEMA, partitions)
    on_disk = {str(path.relative_to(tmp_path / "spark")) for path in (tmp_path / "spark").rglob("*") if path.is_file()}
    assert on_disk == set(staged["key"].to_pylist())
    for row in staged.to_pylist():
        assert (tmp_path / "spark" / row["key"]).stat().st_size == row["size"]
        schemas = [pq.ParquetFile(place / key).schema for place, key in _twins(tmp_path, row, local)]
        assert schemas[0].equals(schemas[1])


def _twins(path: Path, row: dict[str, Any], local: pa.Table) -> list[tuple[Path, str]]:
    twin = next(r for r in local.to_pylist() if r["partition_values"] == row["partition_values"])
    return [(path / "spark", row["key"]), (path / "local", twin["key"])]


@pytest.mark.everywhere
def test_a_task_that_is_tried_again_duplicates_nothing(spark: SparkSession, lane: str, tmp_path: Path) -> None:
    flaky = lane == "local-cluster"  # the only lane that tries a failed task again

    def stumble(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        for seen, batch in enumerate(batches):
            if flaky and seen == 2 and context.partitionId() == 0 and context.attemptNumber() == 0:
                raise RuntimeError("stumbled on purpose")
            yield batch

    fields = (Field("id", LONG), Field("p", LONG))
    df = spark.range(0, 60_000, 1, 2).selectExpr("id", "id div 15000 as p").mapInArrow(stumble, "id long, p long")
    location = open_location(str(tmp_path))
    staged = write_frame(df, WriteSpec(fields, ("p",)), location)
    rows = read_back(location, staged, Struct(fields), ("p",))
    assert [row["id"] for row in rows] == list(range(60_000))
    assert sum(staged["num_records"].to_pylist()) == 60_000


def test_a_thousand_partitions_from_unsorted_rows(spark: SparkSession, tmp_path: Path) -> None:
    fields = (Field("id", LONG), Field("p", LONG))
    df = spark.range(0, 4_000, 1, 1).selectExpr("id", "(id * 7919) % 1000 as p")
    location = open_location(str(tmp_path))
    staged = write_frame(df, WriteSpec(fields, ("p",)), location)
    assert staged["num_records"].to_pylist() == [4] * 1000
    assert len(list(tmp_path.iterdir())) == 1000


def test_ids_and_versions_travel_with_rows_and_voids_stay_behind(spark: SparkSession, tmp_path: Path) -> None:
    fields = (Field("nothing", Primitive("void")), Field("id", LONG))
    df = spark.sql(
        "select 1L _row_commit_version, 7L _row_id, null nothing, 5L id union all select null, null, null, 6L"
    )
    staged = write_frame(df, WriteSpec(fields, id_column="i", version_column="v"), open_location(str(tmp_path)))
    tables = [pq.read_table(tmp_path / key) for key in staged["key"].to_pylist()]
    found = sorted(pa.concat_tables(tables).to_pylist(), key=lambda row: row["id"])
    assert found == [{"id": 5, "i": 7, "v": 1}, {"id": 6, "i": None, "v": None}]


def test_spark_reads_the_variants_we_store(spark: SparkSession, tmp_path: Path) -> None:
    fields = (Field("id", LONG), Field("v", Primitive("variant")))
    df = spark.sql("""select 1L id, parse_json('{"a":[1,"x"]}') v union all select 2L, null""").coalesce(1)
    staged = write_frame(df, WriteSpec(fields, stats_leaves=(("v",),)), open_location(str(tmp_path / "ours")))
    again = spark.read.schema("id long, v variant").parquet(str(tmp_path / "ours" / staged["key"][0].as_py()))
    assert again.selectExpr("to_json(v) j").toArrow()["j"].to_pylist() == ['{"a":[1,"x"]}', None]
    assert json.loads(staged["stats"][0].as_py())["nullCount"] == {"v": 1}


def test_nothing_to_write_is_no_file(spark: SparkSession, tmp_path: Path) -> None:
    staged = write_frame(spark.range(0), WriteSpec((Field("id", LONG),)), open_location(str(tmp_path)))
    assert (staged.num_rows, staged.schema) == (0, STAGED)
    assert list(tmp_path.iterdir()) == []


def test_the_memory_of_this_process_is_out_of_reach(spark: SparkSession) -> None:
    with pytest.raises(Unsupported, match="workers cannot write"):
        write_frame(spark.range(1), WriteSpec((Field("id", LONG),)), Location(MemoryStore(), "t"))


WORKER = """
import pickle, sys
for name in sys.argv[2:]:
    sys.modules[name] = None  # importing it fails
list(pickle.load(open(sys.argv[1], "rb"))([]))
"""


def test_a_worker_says_what_it_lacks(tmp_path: Path) -> None:
    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return iter(batches)

    (tmp_path / "task").write_bytes(cloudpickle.dumps(by_value(task, ("numpy", "obstore"), work="write this table")))
    command = [sys.executable, "-c", WORKER, str(tmp_path / "task"), "holdfast", "obstore"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode != 0
    assert "workers write this table with obstore, which" in done.stderr
    assert "install numpy, obstore there" in done.stderr
