"""Dates and times mean the same in a condition whether files are pruned by it, rows skipped, or Spark left alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable
from tests.support.moments import CONDITIONS, differing, moments, rows_of, table_at


@pytest.mark.everywhere
def test_every_verb_takes_the_rows_that_spark_takes(spark: SparkSession, tmp_path: Path) -> None:
    assert list(differing(spark, str(tmp_path / "t"), Random(1500))) == []


def test_the_zone_of_the_jvm_has_no_say(tmp_path: Path) -> None:
    asked = [sys.executable, "-m", "tests.support.moments", "America/Los_Angeles", str(tmp_path)]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=Path(__file__).parents[3], check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_moments_are_pushed_down_to_files(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table_at(str(tmp_path / "t"), rows_of(moments(Random(3), more=0)))
    table = DeltaTable.forPath(spark, tmp_path / "t")
    table.delete("id = 3", mode="merge-on-read")
    table.scan(where=f"{CONDITIONS[1]} AND d > DATE '0500-01-01'").explain("formatted")
    pushed = capsys.readouterr().out.partition("PushedFilters")[2]
    assert "LessThanOrEqual(ts," in pushed
    assert "GreaterThan(d," in pushed
