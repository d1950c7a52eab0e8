"""Row tracking: ids and versions of rows as hidden columns, through updates and compaction."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.dropin.recipes import told


def _table(spark: SparkSession, path: str) -> None:
    spark.sql(f"CREATE TABLE delta.`{path}` (k STRING) USING DELTA TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    frame = spark.createDataFrame([("a",), ("b",), ("c",)], "k STRING")
    frame.coalesce(1).write.format("delta").mode("append").save(path)


def ids_that_stay(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    _table(spark, path)

    def rows() -> dict[str, tuple[int, int]]:
        frame = spark.read.format("delta").load(path)
        found = frame.select("k", "_metadata.row_id", "_metadata.row_commit_version").collect()
        return {row["k"]: (row["row_id"], row["row_commit_version"]) for row in found}

    before = rows()
    assert len({id_ for id_, _ in before.values()}) == 3
    assert {version for _, version in before.values()} == {1}
    spark.sql(f"UPDATE delta.`{path}` SET k = 'B' WHERE k = 'b'")
    spark.sql(f"OPTIMIZE delta.`{path}`")
    after = rows()
    assert (after["a"], after["c"]) == (before["a"], before["c"])
    assert after["B"] == (before["b"][0], 2)


def in_sql(spark: SparkSession, where: str) -> None:
    path = f"{where}/t"
    _table(spark, path)
    found = spark.sql(f"SELECT _metadata.row_id, _metadata.row_commit_version, * FROM delta.`{path}` WHERE k = 'b'")
    assert found.columns == ["row_id", "row_commit_version", "k"]
    assert told(found) == [(1, 1, "b")]
    assert told(spark.sql(f"SELECT k FROM delta.`{path}` WHERE _metadata.row_id = 2")) == [("c",)]


def where_rows_lie(spark: SparkSession, where: str) -> None:
    from pyspark.sql.functions import col

    path = f"{where}/t"
    _table(spark, path)
    frame = spark.read.format("delta").load(path)
    assert "_metadata" not in frame.columns
    assert told(frame.select("k", col("_metadata.row_index"))) == [("a", 0), ("b", 1), ("c", 2)]
    assert told(frame.where("k > 'a'").select("_metadata.row_index")) == [(1,), (2,)]
    assert told(frame.filter(col("_metadata.row_id") == 0)) == [("a",)]
    placed = frame.withColumn("file", col("_metadata.file_path")).first()["file"]
    assert placed.startswith("file:")
    assert placed.endswith(".parquet")
