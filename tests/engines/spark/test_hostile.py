"""Answers do not depend on what the session is set to."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from tests.support.reading import IDS, known, local_rows, sorted_rows, spark_rows
from tests.support.tablesmith import Tablesmith

HOSTILE = {
    "zone": {"spark.sql.session.timeZone": "America/New_York"},
    "old zone": {"spark.sql.session.timeZone": "Asia/Kathmandu", "spark.sql.timestampType": "TIMESTAMP_NTZ"},
    "case": {"spark.sql.caseSensitive": "true"},
    "not ansi": {"spark.sql.ansi.enabled": "false"},
    "ignoring": {"spark.sql.files.ignoreCorruptFiles": "true", "spark.sql.files.ignoreMissingFiles": "true"},
    "rebase": {
        "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
        "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    },
    "merging": {"spark.sql.parquet.mergeSchema": "true", "spark.sql.parquet.fieldId.read.enabled": "true"},
    "no vectors": {"spark.sql.parquet.enableVectorizedReader": "false", "spark.sql.codegen.wholeStage": "false"},
    "no inference": {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"},
    "no broadcast": {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.adaptive.enabled": "false"},
    "small listing": {"spark.sql.sources.parallelPartitionDiscovery.threshold": "0"},
    "no filters": {"spark.sql.parquet.filterPushdown": "false", "spark.sql.parquet.aggregatePushdown": "true"},
    "pruning off": {"spark.sql.optimizer.nestedSchemaPruning.enabled": "false"},
}


@pytest.fixture(params=HOSTILE.values(), ids=HOSTILE.keys())
def hostile(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    old = {key: spark.conf.get(key, None) for key in request.param}
    for key, value in request.param.items():
        spark.conf.set(key, value)
    yield spark
    for key, value in old.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


@pytest.fixture(scope="module")
def smith(tmp_path_factory: pytest.TempPathFactory) -> Tablesmith:
    """Old dates, both kinds of timestamp, decimals, a mapped and nested column, partitions, hidden rows."""
    smith = Tablesmith(
        tmp_path_factory.mktemp("hostile") / "t",
        schema=[
            ("Id", "long"),
            ("day", "date"),
            ("at", "timestamp"),
            ("local", "timestamp_ntz"),
            ("price", "decimal(10,2)"),
            ("part", "timestamp"),
            ("kind", "integer"),
        ],
        partition_by=["part", "kind"],
        column_mapping="name",
    )
    utc = datetime.UTC
    smith.append(
        [
            {
                "Id": i,
                "day": datetime.date(1500 + i, 1, 1),
                "at": datetime.datetime(1850 + 10 * i, 6, 1, 12, 0, 0, 123456, tzinfo=utc),
                "local": datetime.datetime(2024, 3, 10, 2, 30 + i),
                "price": Decimal(i) / 4,
                "part": datetime.datetime(2024, 7, 1 + i % 2, 23, 30, tzinfo=utc),
                "kind": i % 2,
            }
            for i in range(12)
        ],
        files=2,
    )
    smith.hide(0, [1])
    smith.update(1, {0: {"price": Decimal("9.99")}})
    return smith


def test_rows_are_the_same(hostile: SparkSession, smith: Tablesmith) -> None:
    assert sorted_rows(spark_rows(hostile, smith.url, metadata=IDS)) == known(smith)


def test_a_condition_means_the_same(hostile: SparkSession, smith: Tablesmith) -> None:
    where = "at >= timestamp '1900-06-01 12:00:00Z' and price > 1 and Id <> 7 and kind = 1"
    expected = [
        row
        for row in known(smith)
        if row["at"] >= datetime.datetime(1900, 6, 1, 12, tzinfo=datetime.UTC)
        and row["price"] > 1
        and row["Id"] != 7
        and row["kind"] == 1
    ]
    assert sorted_rows(spark_rows(hostile, smith.url, where=where, metadata=IDS)) == expected
    assert sorted_rows(local_rows(smith.url, where=where, metadata=IDS)) == expected


@pytest.mark.everywhere
def test_a_timestamp_without_zone_is_in_the_sessions(spark: SparkSession, smith: Tablesmith) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        where = "part = timestamp '2024-07-01 19:30:00'"
        table = DeltaTable.forPath(spark, smith.url)
        assert table.explain(where=where).files_read < table.explain().files_read
        got = table.scan(where=where).count()
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    assert got == sum(row["part"].day == 1 for row in smith.rows())


def test_case_of_names_in_files_does_not_matter(hostile: SparkSession, tmp_path: Path) -> None:
    smith = Tablesmith(tmp_path / "t", schema=[("ID", "long")])
    smith.append([{"ID": 1}])
    smith.commit(
        [{"metaData": {**smith.metadata(), "schemaString": smith.metadata()["schemaString"].replace("ID", "id")}}]
    )
    assert spark_rows(hostile, smith.url) == [{"id": 1}]
    assert local_rows(smith.url) == [{"id": 1}]
