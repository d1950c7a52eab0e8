"""The watch over what tests leave behind: each thing is told once, and what is put back is not told at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.leftovers import Leftovers


def test_a_variable_and_a_directory_are_told_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    leftovers = Leftovers()
    assert leftovers.new() == []
    monkeypatch.setenv("HOLDFAST_LEFT", "1")
    monkeypatch.chdir(tmp_path)
    assert leftovers.new() == ["the variable HOLDFAST_LEFT=1", f"the working directory {tmp_path}"]
    assert leftovers.new() == []


def test_views_and_settings_are_told_and_taken_out(spark: SparkSession) -> None:
    leftovers = Leftovers()
    leftovers.watch(spark)
    leftovers.new()  # tables of tests before this one
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.range(1).createOrReplaceTempView("left")
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    spark.conf.set("spark.sql.files.maxRecordsPerFile", "7")
    spark.conf.set("holdfast.left", "1")
    for name, other in {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.orderByOrdinal": "false"}.items():
        before = spark.conf.get(name)
        spark.conf.set(name, other)
        spark.conf.set(name, str(before))
    assert leftovers.new() == [
        "the setting holdfast.left=1",
        "the setting spark.sql.files.maxRecordsPerFile=7",
        "the setting spark.sql.shuffle.partitions=3",
        "the view left",
    ]
    assert spark.conf.get("spark.sql.shuffle.partitions") == partitions
    assert not spark.catalog.tableExists("left")
    assert leftovers.new() == []
