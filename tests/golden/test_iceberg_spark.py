"""Golden Iceberg tables on Spark: the same rows as without it, and the same metadata columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast import IcebergTable
from holdfast.errors import Unsupported
from tests.golden.cases import Case, each, prepared
from tests.golden.test_iceberg import LINEAGE, ONLY_CASE, metadata_of, moves_of, of, sample
from tests.golden.test_spark import to_arrow
from tests.support.compare import assert_same_rows
from tests.support.depth import DEPTH

pytestmark = pytest.mark.golden


@each(of("readable") if DEPTH > 1 else sample())
def test_rows_and_metadata_columns(case: Case | None, tmp_path: Path, spark: SparkSession) -> None:
    case, _ = prepared(case, tmp_path)
    table = IcebergTable.forMetadata(spark, metadata_of(case), relocate=moves_of(case))
    asked = ["_file", "_pos", "_spec_id", "_partition", "_deleted", *(LINEAGE if table.formatVersion >= 3 else [])]
    if "duckdb-iceberg__add_columns_with_defaults" in case.id:
        with pytest.raises(Unsupported, match=r"spark\.sql\.timeType\.enabled"):
            table.toDF()
        return
    got = to_arrow(table.scan(metadata=asked))
    assert got.num_rows == case.says["expected_rows"] + sum(got["_deleted"].to_pylist())
    if case.id not in ONLY_CASE:
        assert_same_rows(got, table.toArrow(metadata=asked))
    assert table.toDF().count() == case.says["expected_rows"]
