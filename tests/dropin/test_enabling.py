from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import holdfast
from holdfast import errors
from holdfast._dropin import sessions
from holdfast._dropin.patches import CLASSIC, CONNECT, family_of

UNKNOWN = r"DATA_SOURCE_NOT_FOUND|holdfast\.enable"  # what Spark says of delta, or what a catalog entry does


def methods(spark: SparkSession) -> list[object]:
    frame = next(c for c in type(spark.range(1)).__mro__ if "write" in vars(c))
    found = [vars(type(spark))[name] for name in ("sql", "table", "read", "readStream")]
    return [*found, *(vars(frame)[name] for name in ("write", "writeTo", "writeStream", "createOrReplaceTempView"))]


@pytest.mark.connect
def test_off_leaves_everything_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    before = methods(spark)
    place = str(tmp_path / "t")
    with holdfast.enable(spark) as on:
        assert "delta-spark" in repr(on)
        assert methods(spark) != before
        spark.range(3).write.format("delta").save(place)
        with holdfast.enable(spark):
            pass
        assert spark.read.format("delta").load(place).count() == 3  # the inner block turned nothing on
    assert methods(spark) == before
    assert spark.conf.get(sessions.MARK, "off") == "off"
    with pytest.raises(Exception, match=UNKNOWN):
        spark.read.format("delta").load(place).count()


def test_it_is_of_one_session(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    other = spark.newSession()
    with holdfast.enable(spark):
        spark.range(3).write.format("delta").save(place)
        assert other.range(2).count() == 2
        with pytest.raises(Exception, match=UNKNOWN):
            other.read.format("delta").load(place)
        with holdfast.enable(other):
            assert other.read.format("delta").load(place).count() == 3
        assert spark.read.format("delta").load(place).count() == 3


def test_everywhere(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    with holdfast.enable():
        spark.range(3).write.format("delta").save(place)
        assert spark.newSession().read.format("delta").load(place).count() == 3
    with pytest.raises(Exception, match=UNKNOWN):
        spark.newSession().read.format("delta").load(place)


def test_a_session_with_deltas_extension_is_left_alone(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    class Conf:
        def get(self, name: str, default: str = "") -> str:
            return "io.delta.sql.DeltaSparkSessionExtension" if name == "spark.sql.extensions" else default

    class Session:
        conf = Conf()

    with pytest.raises(errors.Unsupported, match="extension"):
        holdfast.enable(Session())  # type: ignore[arg-type]


def test_tables_by_name_need_a_session() -> None:
    assert sessions.are_none()
    assert {CLASSIC, CONNECT} > {family_of(object())}  # type: ignore[arg-type]


PROGRAM = """
import holdfast.dropin
import pyspark
from delta import *
from delta.tables import DeltaTable

builder = (
    pyspark.sql.SparkSession.builder.appName("MyApp").master("local[1]")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
    .config("spark.sql.warehouse.dir", "{home}/warehouse")
)
spark = configure_spark_with_delta_pip(builder).getOrCreate()
spark.range(0, 5).write.format("delta").save("{home}/t")
spark.range(5, 7).write.format("delta").mode("append").save("{home}/t")
DeltaTable.forPath(spark, "{home}/t").delete("id = 6")
spark.sql("CREATE TABLE numbers USING delta LOCATION '{home}/t'")
print("rows", spark.table("numbers").count(), spark.sql("SELECT max(id) m FROM numbers").collect()[0].m)
spark.stop()
"""


def test_a_program_whose_first_line_turns_it_on(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("{home}", str(tmp_path)))
    environ = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}  # as most users have it
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environ
    )
    assert "rows 6 5" in done.stdout, done.stdout + done.stderr
