"""Partition columns under another name, read by both engines and by others."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast import DeltaTable

MAPPING, MODE = "delta.columnMapping.mode", "name"
WHERE = "`by day` = 'c'"


def others_read(path: Path) -> list[str]:
    table = deltalake.DeltaTable(str(path))
    found = deltalake.QueryBuilder().register("t", table).execute("select * from t").read_all()
    return sorted(map(str, pa.table(found).to_pylist()))


@pytest.mark.parametrize("late", [False, True])
def test_what_a_table_is_partitioned_by_can_be_renamed(spark: SparkSession, tmp_path: Path, late: bool) -> None:
    builder = DeltaTable.create(spark).location(tmp_path).addColumn("n", "int").addColumn("p", "string")
    builder = builder.partitionedBy("p")
    table = (builder if late else builder.property(MAPPING, MODE)).execute()
    old = pa.table({"n": pa.array([1, 2, 3], pa.int32()), "p": ["a/b", None, "c"]})
    new = old.rename_columns(["n", "by day"])
    table.append(old)
    if late:
        table.setProperties({MAPPING: MODE})
    table.renameColumn("p", "by day")
    assert table.detailArrow()["partitionColumns"].to_pylist() == [["by day"]]
    table.append(new)
    expected = sorted(map(str, 2 * new.to_pylist()))
    assert sorted(map(str, table.toArrow().to_pylist())) == expected == others_read(tmp_path)
    assert sorted(str(row.asDict()) for row in table.toDF().collect()) == expected
    assert table.explain(where=WHERE).files_read == 2
    assert table.scan(where=WHERE).count() == 2
    table.overwrite(new.slice(2), partitionOverwriteMode="dynamic")
    table.overwrite(new.slice(1, 1), replaceWhere="`by day` is null")
    assert table.toArrow().num_rows == table.toDF().count() == 4
