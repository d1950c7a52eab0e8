from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast.errors import NotATable


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of three versions: 0 to 4, then 10 to 14 in its place, then 20 to 24 too."""
    import holdfast

    place = str(tmp_path_factory.mktemp("reading") / "t")
    with holdfast.enable(spark):
        spark.range(5).withColumn("s", F.lit("a")).write.format("delta").save(place)
        spark.range(10, 15).withColumn("s", F.lit("b")).write.format("delta").mode("overwrite").save(place)
        spark.range(20, 25).withColumn("s", F.lit("c")).write.format("delta").mode("append").save(place)
    return place


def ids(df: object) -> list[int]:
    return sorted(row.id for row in df.collect())  # type: ignore[attr-defined]


@pytest.mark.connect
def test_the_newest_version_and_older_ones(enabled: SparkSession, path: str) -> None:
    read = enabled.read.format("delta")
    assert ids(read.load(path)) == [*range(10, 15), *range(20, 25)]
    assert ids(enabled.read.format("delta").option("versionAsOf", 0).load(path)) == list(range(5))
    assert ids(enabled.read.format("DELTA").options(versionasof="1").load(path)) == list(range(10, 15))
    assert ids(enabled.read.load(path + "@v0", format="delta")) == list(range(5))
    assert ids(enabled.read.table(f"delta.`{path}`")) == ids(enabled.table(f"delta.`{path}`"))


def test_other_formats_are_sparks(enabled: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "p")
    enabled.range(3).write.mode("overwrite").parquet(place)
    enabled.range(3).write.format("json").save(place + "j")
    assert ids(enabled.read.parquet(place)) == ids(enabled.read.load(place)) == [0, 1, 2]
    assert ids(enabled.read.format("json").load(place + "j")) == [0, 1, 2]


def test_what_is_wrong_with_a_request(enabled: SparkSession, path: str, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException) as missing:
        enabled.read.format("delta").load(str(tmp_path / "nothing"))
    assert isinstance(missing.value, NotATable)
    assert missing.value.getCondition() == "DELTA_PATH_DOES_NOT_EXIST"
    with pytest.raises(AnalysisException) as version:
        enabled.read.format("delta").option("versionAsOf", 99).load(path)
    assert version.value.getCondition() == "DELTA_VERSION_NOT_FOUND"
    for wrong in ({"versionAsOf": 1, "timestampAsOf": "2024-01-01"}, {"versionAsOff": 1}, {"versionAsOf": "x"}):
        with pytest.raises(Exception, match="versionAsOf"):
            enabled.read.format("delta").options(**wrong).load(path)  # type: ignore[arg-type]
    assert ids(enabled.read.format("delta").option("somethingOfSparks", "1").load(path))
