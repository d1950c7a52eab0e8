from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import DeltaTable


def test_from_table_to_table(enabled: SparkSession, tmp_path: Path) -> None:
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    rows = enabled.range(4).withColumn("p", F.col("id") % 2)
    rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(source)
    stream = enabled.readStream.format("delta").option("ignoreChanges", "true").load(source)

    def run() -> None:
        writer = stream.writeStream.format("delta").outputMode("append").partitionBy("p")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        writer.start(target).awaitTermination()

    run()
    rows.write.format("delta").mode("append").save(source)
    run()
    table = DeltaTable.forPath(enabled, target)
    assert enabled.read.format("delta").load(target).count() == 8
    assert table.detailArrow().column("partitionColumns").to_pylist() == [["p"]]
    changes = (
        enabled.readStream.format("delta").option("readChangeFeed", True).option("startingVersion", 0).load(source)
    )
    assert "_change_type" in changes.columns
    for wrong in ({"startingVersion": "x"}, {"failOnDataLoss": "false"}, {"excludeRegexp": "a"}):
        with pytest.raises(PySparkException, match=f"(?i){next(iter(wrong))}"):
            enabled.readStream.format("delta").options(**wrong).load(source)
    with pytest.raises(AnalysisException):
        enabled.readStream.format("delta").load(str(tmp_path / "nothing"))


def test_into_a_name_and_by_batches(enabled: SparkSession, tmp_path: Path) -> None:
    source, merged = str(tmp_path / "source"), str(tmp_path / "merged")
    enabled.range(3).write.format("delta").save(source)
    enabled.range(1).write.format("delta").save(merged)
    stream = enabled.readStream.format("delta").load(source)
    name = "holdfast_streamed"
    try:
        query = stream.writeStream.option("checkpointLocation", str(tmp_path / "c1")).trigger(availableNow=True)
        query.toTable(name, format="delta").awaitTermination()
        assert enabled.table(name).count() == 3
    finally:
        enabled.sql(f"DROP TABLE IF EXISTS {name}")

    def upsert(batch: DataFrame, number: int) -> None:
        from delta.tables import DeltaTable  # type: ignore[import-not-found]

        target = DeltaTable.forPath(batch.sparkSession, merged).alias("t")
        target.merge(batch.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()
        batch.write.format("delta").mode("append").save(merged + "2")

    query = stream.writeStream.foreachBatch(upsert).option("checkpointLocation", str(tmp_path / "c2"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert enabled.read.format("delta").load(merged).count() == 3
    assert enabled.read.format("delta").load(merged + "2").count() == 3


@pytest.mark.connect
def test_batches_are_merged_as_the_documentation_teaches(enabled: SparkSession, tmp_path: Path) -> None:
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    enabled.range(3).withColumn("n", F.lit("new")).write.format("delta").save(source)
    enabled.range(1).withColumn("n", F.lit("old")).write.format("delta").save(target)

    def upsertToDelta(microBatchOutputDF: DataFrame, batchId: int) -> None:
        from delta.tables import DeltaTable

        deltaTable = DeltaTable.forPath(microBatchOutputDF.sparkSession, target)
        merge = deltaTable.alias("t").merge(microBatchOutputDF.alias("s"), "s.id = t.id")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        microBatchOutputDF.createOrReplaceTempView("updates")
        microBatchOutputDF.sparkSession.sql(f"""
            MERGE INTO delta.`{target}` t USING updates s ON s.id + 10 = t.id
            WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id + 10, 'by sql')
        """)

    stream = enabled.readStream.format("delta").load(source).writeStream.foreachBatch(upsertToDelta)
    query = stream.outputMode("update").option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    query.start().awaitTermination()
    found = enabled.read.format("delta").load(target).orderBy("id").collect()
    assert [tuple(row) for row in found] == [
        *((0, "new"), (1, "new"), (2, "new"), (10, "by sql"), (11, "by sql"), (12, "by sql")),
    ]
