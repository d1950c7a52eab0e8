"""Applies equality deletes on Spark, by a join with the delete files.

1. A row is deleted when all compared columns equal those of a delete row, null to null, whose file applies to the
   row's file: it has a higher sequence number and, unless it applies everywhere, the same partition.
2. `flagged` keeps every row and adds a flag instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engines.spark.scan.broadcast import small_table
from holdfast.engines.spark.scan.scratch import Scratch
from holdfast.engines.spark.session.failing import jobs
from holdfast.engines.spark.types import named, spark_struct
from holdfast.model.snapshot import GoneByValue
from holdfast.parquet.equality_deletes import GROUP, SEQUENCE, EqualityDeleteRows
from holdfast.plan.scan.metadata_columns import MetadataColumns
from holdfast.plan.scan.request import Request, ScanPlan, plan_scan
from holdfast.rows import columns as names
from holdfast.schema.types import LONG, Field

_NUMBER, _FILE = "__hf_delete_number", "__hf_delete_file"
_SINCE, _OF = "__hf_delete_sequence", "__hf_delete_group"
Scan = Callable[[ScanPlan], DataFrame]


@dataclass(frozen=True)
class FileOrder:
    """The sequence and the group of a row's file, as columns."""

    sequence: Column
    group: Column


def rows_of(spark: SparkSession, gone: GoneByValue, scan: Scan, scratch: Scratch) -> DataFrame:
    """The rows to delete: compared columns, and sequence and group of the file each stands in."""
    plan = replace(plan_scan(gone.deletes, Request()), metadata=MetadataColumns({_NUMBER: names.FILE_NUMBER}))
    files = gone.deletes.files
    table = pa.table(
        {
            _FILE: pa.array(range(len(files)), pa.int64()),
            _SINCE: files.column("sequence"),
            _OF: files.column("group"),
        }
    )
    schema = spark_struct([Field(name, LONG) for name in table.column_names])
    placed = F.broadcast(small_table(spark, table, schema, scratch))
    joined = scan(plan).join(placed, named(_NUMBER) == named(_FILE))
    # Under other names: a data file may lack a compared column, which then stands under its own.
    values = [named(f.name).alias(_value(i)) for i, f in enumerate(gone.deletes.schema.fields)]
    return joined.select(*values, _SINCE, _OF)


def without(df: DataFrame, gone: GoneByValue, rows: DataFrame, values: Sequence[Column], place: FileOrder) -> DataFrame:
    """The rows of `df` that are left."""
    return df.join(rows, _equal(gone, values, place) & (named(_SINCE) > place.sequence), "left_anti")


def flagged(
    df: DataFrame, gone: GoneByValue, rows: DataFrame, values: Sequence[Column], place: FileOrder, flag: str
) -> DataFrame:
    """All rows of `df`, each with whether it is gone."""
    by = [_value(i) for i in range(len(values))] + ([] if gone.everywhere else [_OF])
    newest = rows.groupBy(*by).agg(F.max(_SINCE).alias(_SINCE))
    joined = df.join(newest, _equal(gone, values, place), "left")
    is_deleted = F.coalesce(named(_SINCE) > place.sequence, F.lit(False))
    return joined.withColumn(flag, is_deleted).drop(*by, _SINCE)


def in_memory(spark: SparkSession, gone: GoneByValue, scan: Scan, scratch: Scratch) -> EqualityDeleteRows:
    """The rows to delete, for tasks that read files themselves; they grow with the deletes."""
    with jobs():
        rows = rows_of(spark, gone, scan, scratch).toArrow()
    fields = gone.deletes.schema.fields
    return EqualityDeleteRows(
        fields, rows.rename_columns([*(f.name for f in fields), SEQUENCE, GROUP]), gone.everywhere
    )


def _value(number: int) -> str:
    return f"__hf_delete_value_{number}"


def _equal(gone: GoneByValue, values: Sequence[Column], place: FileOrder) -> Column:
    tests = [value.eqNullSafe(named(_value(i))) for i, value in enumerate(values)]
    if not gone.everywhere:
        tests.append(place.group == named(_OF))
    return reduce(Column.__and__, tests)
