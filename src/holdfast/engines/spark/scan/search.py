"""Small answers about rows that Spark reads: counts per file, row ids, a column's furthest value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engines.spark.scan.native import scan_frame
from holdfast.engines.spark.types import named
from holdfast.model.snapshot import HiddenRows
from holdfast.plan.dml.change import CHANGE, TouchedRows
from holdfast.plan.scan.request import ScanPlan
from holdfast.plan.scan.search import FILE_COLUMN, ID_COLUMN, INDEX_COLUMN, RowSearch
from holdfast.rows.columns import ROW_ID
from holdfast.schema.constraints import quoted


def touched_ids(spark: SparkSession, parts: Sequence[TouchedRows]) -> DataFrame:
    """The row ids of touched rows, each with the kind of change."""
    if not parts:
        return spark.createDataFrame([], f"{quoted(ROW_ID)} bigint, {quoted(CHANGE)} string")
    frames = [scan_frame(spark, part.plan, part.hidden).withColumn(CHANGE, F.lit(part.change)) for part in parts]
    return reduce(DataFrame.unionAll, frames)


def furthest(spark: SparkSession, plan: ScanPlan, hidden: HiddenRows, *, upward: bool) -> int | None:
    """The greatest value of a plan's only column, or the least; None where there is none."""
    (column,) = plan.columns
    extreme = (F.max if upward else F.min)(named(column.name))
    value: int | None = scan_frame(spark, plan, hidden).select(extreme).collect()[0][0]  # one row
    return value


def rows_by_file(spark: SparkSession, searches: Sequence[RowSearch], hidden: HiddenRows) -> Mapping[str, int]:
    """How many rows of each file at least one search finds, by the file's URI."""
    frames = []
    for search in searches:
        rows = scan_frame(spark, search.plan, hidden)
        if search.ids is not None:
            ids = pa.table({ID_COLUMN: np.fromiter(search.ids, np.int64, len(search.ids))})
            rows = rows.join(spark.createDataFrame(ids), ID_COLUMN, "leftsemi")
        frames.append(rows.select(FILE_COLUMN, INDEX_COLUMN))
    matches = reduce(DataFrame.unionAll, frames)
    if len(frames) > 1:
        matches = matches.distinct()
    counts = matches.groupBy(FILE_COLUMN).agg(F.count("*").alias("rows")).collect()  # one per file
    return {row[FILE_COLUMN]: row["rows"] for row in counts}
