"""`_metadata` in the verbs of `delta.tables`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


@pytest.mark.connect
def test_rows_are_changed_by_what_tracks_them(enabled: SparkSession, tmp_path: Path) -> None:
    from delta.tables import DeltaTable  # type: ignore[import-not-found]

    place = str(tmp_path / "t")
    enabled.range(6).coalesce(1).withColumn("n", F.lit(0).cast("bigint")).write.format("delta").save(place)
    table = DeltaTable.forPath(enabled, place)
    table.delete("_metadata.row_id = 0")
    table.delete(F.col("_metadata.row_id") == 1)
    table.update("_metadata.row_index = 2", {"n": "_metadata.row_id + 10"})
    source = enabled.range(3, 5).withColumnRenamed("id", "rid")
    merge = table.alias("t").merge(source.alias("s"), "t._metadata.row_id = s.rid")
    merge.whenMatchedDelete("t._metadata.row_id = 4").whenMatchedUpdate(set={"n": "t._metadata.row_id"}).execute()
    assert sorted(map(tuple, table.toDF().collect())) == [(2, 12), (3, 3), (5, 0)]
    with pytest.raises(AnalysisException, match="row_commit_version"):
        table.delete("_metadata.nothing = 1")
