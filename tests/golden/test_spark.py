"""Every golden Delta table, read on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import DataType, StructField, StructType, VariantVal

from holdfast import DeltaTable
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import parse_schema
from tests.golden.cases import (
    Case,
    Read,
    check_content,
    check_counts,
    check_gap,
    check_needs_catalog,
    check_refused,
    check_row_ids,
    each,
    of_status,
    prepared,
)
from tests.support.depth import DEPTH

pytestmark = pytest.mark.golden

READABLE = of_status("readable", "readable-after-prep")


@pytest.fixture
def read(spark: SparkSession) -> Read:
    def reading(
        path: Path, /, *, version: int | None = None, columns: Sequence[str] | None = None, metadata: Sequence[str] = ()
    ) -> pa.Table:
        df = DeltaTable.forPath(spark, str(path)).scan(columns=columns, version=version, metadata=metadata)
        if not df.columns:
            return pa.table({"rows": pa.nulls(df.count())})
        return to_arrow(df)

    return reading


def to_arrow(df: DataFrame) -> pa.Table:
    """The rows of a frame; variants one by one, because Spark's own conversion fails on a null among them."""
    if "variant" not in df.schema.simpleString():
        return df.toArrow()
    columns = {
        field.name: pa.array([plain(row[i]) for row in df.collect()], arrow_type_of(field.dataType))
        for i, field in enumerate(df.schema.fields)
    }
    return pa.table(columns)


def arrow_type_of(type_: DataType) -> pa.DataType:
    schema = parse_schema(StructType([StructField("x", type_)]).json(), where="a frame")
    return arrow_type(schema.fields[0].type)


def plain(value: Any) -> Any:
    """A collected value with variants as the struct of their two binaries."""
    match value:
        case VariantVal():
            return {"value": value.value, "metadata": value.metadata}
        case Row():
            return {name: plain(inner) for name, inner in value.asDict().items()}
        case dict():
            return [(plain(key), plain(inner)) for key, inner in value.items()]
        case list():
            return [plain(inner) for inner in value]
        case _:
            return value


@each(READABLE)
def test_content(case: Case | None, tmp_path: Path, read: Read) -> None:
    case, path = prepared(case, tmp_path)
    check_content(case, path, read)


@each([case for case in READABLE if case.says.get("expected_rows_by_version")][:: 1 if DEPTH > 1 else 20])
def test_counts_by_version(case: Case | None, tmp_path: Path, read: Read) -> None:
    """A sample of the tables at ordinary depth: the local engine counts all of them, and the log is the same."""
    case, path = prepared(case, tmp_path)
    check_counts(case, path, read)


@each([case for case in READABLE if case.says.get("expected_row_ids")])
def test_row_ids(case: Case | None, tmp_path: Path, read: Read) -> None:
    case, path = prepared(case, tmp_path)
    check_row_ids(case, path, read)


@each(of_status("negative"))
def test_refused(case: Case | None, tmp_path: Path, read: Read) -> None:
    _, path = prepared(case, tmp_path)
    check_refused(path, read)


@each(of_status("needs-catalog"))
def test_needs_a_catalog(case: Case | None, tmp_path: Path, read: Read) -> None:
    _, path = prepared(case, tmp_path)
    check_needs_catalog(path, read)


@each(of_status("reader-gap"))
def test_where_the_reference_readers_fail(case: Case | None, tmp_path: Path, read: Read) -> None:
    case, path = prepared(case, tmp_path)
    check_gap(case, path, read)
