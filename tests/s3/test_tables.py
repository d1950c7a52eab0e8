"""Whole tables in S3, read by both engines. Spark has no file system for S3 here, so its tasks read with Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import DeltaTable
from holdfast.engines.spark.scan import arrow_path
from holdfast.storage.open import open_location
from tests.s3.conftest import Place
from tests.support.reading import IDS, known, sorted_rows
from tests.support.s3 import BUCKET, S3Server
from tests.support.tablesmith import Tablesmith

pytestmark = pytest.mark.s3


def opened(spark: SparkSession | None, smith: Tablesmith, s3: S3Server) -> DeltaTable:
    return DeltaTable.forPath(spark, smith.url, storage_options=s3.options)


@pytest.fixture
def hostile(spark: SparkSession) -> Iterator[SparkSession]:
    settings = {
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.caseSensitive": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
    }
    old = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield spark
    for key, before in old.items():
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


class TestLocalEngine:
    def test_every_spelling_of_place_and_options_reads_every_row(self, s3: S3Server, whole: Tablesmith) -> None:
        by_hadoop = whole.url.replace("s3://", "s3a://")
        for table in (
            opened(None, whole, s3),
            DeltaTable.forPath(None, f"{by_hadoop}/", storage_options=s3.hadoop_options),
            DeltaTable.forPath(None, by_hadoop, s3.hadoop_options),
            DeltaTable.forPath(None, whole.url, hadoopConf=s3.hadoop_options),
        ):
            assert sorted_rows(table.toArrow(metadata=IDS).to_pylist()) == known(whole)

    def test_the_environment_may_say_it_all(
        self, s3: S3Server, whole: Tablesmith, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in s3.options.items():
            monkeypatch.setenv(name.upper(), value)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        assert DeltaTable.forPath(None, whole.url).toArrow(columns=["id"]).num_rows == len(whole.rows())

    def test_conditions_and_time_travel(self, s3: S3Server, whole: Tablesmith) -> None:
        table = opened(None, whole, s3)
        got = table.toArrow(columns=["id"], where="p = 'ü/ß=%41:?#+&' and id > 4")
        assert sorted(got["id"].to_pylist()) == [
            row["id"] for row in whole.rows() if row["p"] == "ü/ß=%41:?#+&" and row["id"] > 4
        ]
        for version in range(whole.version + 1):
            got = table.toArrow(version=version, metadata=IDS)
            assert sorted_rows(got.to_pylist()) == known(whole, version=version)

    def test_history_and_detail(self, s3: S3Server, whole: Tablesmith) -> None:
        table = opened(None, whole, s3)
        assert table.historyArrow()["version"].to_pylist() == list(range(whole.version, -1, -1))
        assert table.detailArrow()["numFiles"].to_pylist() == [len(whole.live())]
        assert DeltaTable.isDeltaTable(None, whole.url, storage_options=s3.options)
        assert not DeltaTable.isDeltaTable(None, f"s3://{BUCKET}/nothing", storage_options=s3.options)


class TestSpark:
    @pytest.mark.everywhere
    def test_every_row_type_and_id(self, spark: SparkSession, s3: S3Server, whole: Tablesmith) -> None:
        table = DeltaTable.forPath(spark, whole.url.replace("s3:", "s3a:"), storage_options=s3.hadoop_options)
        metadata = [*IDS, "_file", "_partition", "_base_row_id", "_default_row_commit_version"]
        got = table.scan(metadata=metadata).toArrow()
        assert sorted_rows(got.select([*table.toArrow().column_names, *IDS]).to_pylist()) == known(whole)
        assert sorted_rows(got.to_pylist()) == sorted_rows(table.toArrow(metadata=metadata).to_pylist())
        assert {uri.partition("://")[0] for uri in got["_file"].to_pylist()} == {"s3a"}

    @pytest.mark.parametrize(
        "where",
        [
            lambda: "v = 'x' and id > 3",
            lambda: "upper(v) = 'X' and id > 3",
            lambda: (F.col("v") == "x") & (F.col("id") > 3),
        ],
        ids=["understood", "opaque", "column"],
    )
    def test_conditions(self, spark: SparkSession, s3: S3Server, whole: Tablesmith, where: Any) -> None:
        got = opened(spark, whole, s3).scan(columns=["id"], where=where(), metadata={"_row_id": "rid"})
        assert got.columns == ["id", "rid"]
        assert sorted(map(tuple, got.collect())) == sorted(
            (row["id"], row["_row_id"]) for row in whole.rows() if row["v"] == "x" and row["id"] > 3
        )

    def test_time_travel(self, spark: SparkSession, s3: S3Server, whole: Tablesmith) -> None:
        table = opened(spark, whole, s3)
        moment = next(row["timestamp"] for row in table.historyArrow().to_pylist() if row["version"] == 1)
        for got in (table.scan(version=1, metadata=IDS), table.scan(timestamp=moment, metadata=IDS)):
            assert sorted_rows(got.toArrow().to_pylist()) == known(whole, version=1)

    def test_settings_change_nothing(self, hostile: SparkSession, s3: S3Server, whole: Tablesmith) -> None:
        table = opened(hostile, whole, s3)
        assert sorted_rows(table.scan(metadata=IDS).toArrow().to_pylist()) == known(whole)
        local = "local = timestamp_ntz '2024-03-10 02:30:05'"  # an hour that New York did not have
        shown = table.scan(where=local).selectExpr("string(at)", "string(local)").collect()
        assert shown == [("1940-03-09 21:30:00.123456", "2024-03-10 02:30:05")]

    def test_explain_says_how_and_touches_no_data(self, spark: SparkSession, s3: S3Server, whole: Tablesmith) -> None:
        table = opened(spark, whole, s3)
        s3.requests.clear()
        shown = str(table.explain(where="id > 3"))
        assert f"by Arrow inside Spark tasks, because Spark has no file system for s3://{BUCKET}: slower" in shown
        assert not [one for one in s3.requests if ".parquet?" in one and "_delta_log" not in one]

    def test_rows_without_any_column(self, spark: SparkSession, s3: S3Server, whole: Tablesmith) -> None:
        assert opened(spark, whole, s3).scan(columns=[]).count() == len(whole.rows())

    def test_a_table_without_rows(self, spark: SparkSession, s3: S3Server, place: Place) -> None:
        smith = Tablesmith(place(), schema=[("a", "long"), ("p", "string")], partition_by=["p"])
        assert opened(spark, smith, s3).scan(metadata=["_row_id"]).collect() == []
        smith.append([{"a": 1, "p": "x"}])
        smith.hide(0, [0])
        assert opened(spark, smith, s3).scan(metadata=["_row_id"]).toArrow().num_rows == 0

    def test_nulls_that_the_schema_forbids_are_shown(self, spark: SparkSession, s3: S3Server, place: Place) -> None:
        numbers = {"type": "array", "elementType": "long", "containsNull": False}
        schema = [
            {"name": "a", "type": "long", "nullable": False, "metadata": {"comment": "c"}},
            {"name": "b", "type": numbers, "nullable": False, "metadata": {}},
            {"name": "p", "type": "string", "nullable": False, "metadata": {}},
        ]
        smith = Tablesmith(place(), schema=schema, partition_by=["p"])
        smith.append([{"a": 1, "b": [1], "p": "x"}, {"a": None, "b": [None], "p": "x"}])
        df = opened(spark, smith, s3).scan(metadata=["_partition"])
        assert df.schema["a"].metadata == {"comment": "c"}
        assert df.select("a", "b", "p", "_partition.p").sort("a").collect() == [
            (None, [None], "x", "x"),
            (1, [1], "x", "x"),
        ]
        assert df.where("a is null").count() == 1

    def test_variants(self, spark: SparkSession, s3: S3Server, place: Place) -> None:
        variant = pa.struct([pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)])
        five = {"value": b"\x0c\x05", "metadata": b"\x01\x00\x00"}
        inside = pa.struct([pa.field("w", variant)])
        data = pa.table({"v": pa.array([five, None], variant), "n": pa.array([{"w": five}, {"w": None}], inside)})
        sink = pa.BufferOutputStream()
        pq.write_table(data, sink)
        body = sink.getvalue().to_pybytes()
        field = {"name": "w", "type": "variant", "nullable": True, "metadata": {}}
        smith = Tablesmith(
            place(),
            schema=[("v", "variant"), ("n", {"type": "struct", "fields": [field]})],
            features=["variantType"],
            row_tracking=False,
        )
        smith.put("f.parquet", body)
        add = {"path": "f.parquet", "partitionValues": {}, "size": len(body), "modificationTime": 1, "dataChange": True}
        smith.commit([{"add": add}])
        got = opened(spark, smith, s3).scan(where="v is null or variant_get(v, '$', 'int') = 5")
        assert got.selectExpr("to_json(v)", "to_json(n)").collect() == [("5", '{"w":5}'), (None, "{}")]

    def test_many_files(self, spark: SparkSession, s3: S3Server, place: Place) -> None:
        smith = Tablesmith(place(), schema=[("a", "long")])
        smith.append([{"a": i} for i in range(80)], files=40)
        df = opened(spark, smith, s3).scan(metadata=["_file", "_row_id"])
        assert sorted((row["a"], row["_row_id"]) for row in df.collect()) == [(i, i) for i in range(80)]

    @pytest.mark.everywhere
    def test_credentials_of_this_process_travel(
        self, spark: SparkSession, s3: S3Server, whole: Tablesmith, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in s3.options.items():
            monkeypatch.setenv(name.upper(), value)  # after the workers' environment was made
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        assert holdfast.read(spark, whole.url, columns=["id"]).count() == len(whole.rows())

    def test_a_file_in_another_bucket_where_allowed(
        self, spark: SparkSession, s3: S3Server, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in s3.options.items():
            monkeypatch.setenv(name.upper(), value)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        s3.client().create_bucket(Bucket="holdfast-other")
        other = Tablesmith(open_location("s3://holdfast-other/t"), schema=[("a", "long")])
        other.append([{"a": 1}])
        add = other.live()[0]
        smith = Tablesmith(place(), schema=[("a", "long")])
        smith.append([{"a": 2}])
        smith.commit([{"add": {**add, "path": f"s3://holdfast-other/t/{add['path']}"}}])
        table = DeltaTable.forPath(spark, smith.url, allow_outside=True)
        assert sorted(table.toDF().collect()) == [(1,), (2,)]
        assert sorted(table.toArrow()["a"].to_pylist()) == [1, 2]


@pytest.mark.parametrize(
    ("sizes", "tasks"),
    [
        ([100], 1),
        ([100] * 9, 9),
        ([0] * 3, 3),
        ([100] * 1_000_000, 31_251),
        ([10 << 30, 1, 1, 10 << 30], 2),
    ],
)
def test_small_files_share_tasks_and_every_task_has_one(sizes: list[int], tasks: int) -> None:
    slots: Any = arrow_path._slots(np.array(sizes, np.int64))
    assert len(slots) == len(sizes)
    assert sorted(set(slots.tolist())) == list(range(slots[-1] + 1))
    assert (np.diff(slots) >= 0).all()
    assert slots[-1] + 1 == tasks
