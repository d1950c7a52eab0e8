"""Writers that replace the rows theirs match, and features that go, as code for delta-spark asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

import holdfast

THERE = "VALUES (1L, 1, 'a'), (2L, 1, 'b'), (3L, 2, 'c'), (4L, NULL, 'd') AS t(id, k, v)"
COMING = "VALUES (10L, 1, 'x'), (11L, 1, 'y'), (12L, NULL, 'z'), (13L, 9, 'w') AS s(id, k, v)"


@pytest.mark.connect
def test_rows_are_replaced_by_those_they_match(enabled: SparkSession, tmp_path: Path) -> None:
    place, coming = str(tmp_path / "t"), enabled.sql(f"SELECT * FROM {COMING}")
    there = enabled.sql(f"SELECT * FROM {THERE}")
    for options, left in (
        ({"replaceUsing": "k"}, [3, 4, 10, 11, 12, 13]),
        ({"replaceUsing": "`K`, id"}, [1, 2, 3, 4, 10, 11, 12, 13]),
        ({"replaceOn": "t.k <=> s.k AND s.id > 11", "targetAlias": "t"}, [1, 2, 3, 10, 11, 12, 13]),
    ):
        there.write.format("delta").mode("overwrite").save(place)
        coming.alias("s").write.format("delta").mode("overwrite").options(**options).save(place)
        assert sorted(row.id for row in enabled.read.format("delta").load(place).collect()) == left
    with pytest.raises(AnalysisException, match="nobody"):
        coming.write.format("delta").mode("overwrite").option("replaceUsing", "nobody").save(place)
    for mode, options in (
        ("append", {"replaceUsing": "k"}),
        ("overwrite", {"replaceUsing": "k", "replaceWhere": "id > 2"}),
        ("overwrite", {"replaceUsing": "k", "overwriteSchema": "true"}),
        ("overwrite", {"targetAlias": "t"}),
    ):
        with pytest.raises(PySparkException, match=next(iter(options))):
            coming.write.format("delta").mode(mode).options(**options).save(place)
    assert holdfast.DeltaTable.forPath(enabled, place).version == 5


@pytest.mark.connect
def test_a_feature_goes_and_rows_stay(enabled: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    enabled.sql(f"SELECT * FROM {THERE}").write.format("delta").save(place)
    from delta.tables import DeltaTable  # type: ignore[import-not-found]

    table = DeltaTable.forPath(enabled, place)
    table.delete("id = 2")
    table.dropFeatureSupport("deletionVectors")
    assert "deletionVectors" not in table.detail().first().tableFeatures
    assert sorted(row.id for row in table.toDF().collect()) == [1, 3, 4]
    with pytest.raises(AnalysisException, match="repeat this when they have expired"):
        table.dropFeatureSupport("checkpointProtection", truncateHistory=True)
