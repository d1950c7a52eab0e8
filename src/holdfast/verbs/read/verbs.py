"""Scans a table of either format as a DataFrame or as an Arrow table, or explains the scan.

1. The part of a condition that Holdfast understands prunes files; the engine applies the whole condition to rows.
2. Without a Spark session `to_arrow` reads rows, and a condition is SQL text.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from holdfast.engines.local.scan import LocalRunner
from holdfast.engines.spark.conditions import stated_or_none, stated_without_spark
from holdfast.engines.spark.scan.native import SparkRunner
from holdfast.plan.scan.request import Request
from holdfast.verbs.open.handle import Handle, Metadata, Timestamp, Version
from holdfast.verbs.read.explain import Explanation


def scan(
    handle: Handle,
    columns: Sequence[str] | None,
    where: str | Column | None,
    version: Version,
    timestamp: Timestamp,
    metadata: Metadata,
) -> DataFrame:
    """Rows as a DataFrame."""
    value = stated_or_none(where, "scan(where=)")
    runner, opened = SparkRunner(handle.session()), handle.open(version, timestamp)
    condition = handle.condition(value, opened.snapshot, metadata)
    return opened.scan(Request(columns, condition, metadata), runner)


def to_arrow(
    handle: Handle,
    columns: Sequence[str] | None,
    where: str | None,
    version: Version,
    timestamp: Timestamp,
    metadata: Metadata,
) -> pa.Table:
    """Rows as an Arrow table, read in this process."""
    text = stated_without_spark(where, "toArrow(where=)")
    opened = handle.open(version, timestamp)
    condition = handle.local_condition(text, opened.snapshot, metadata)
    return opened.scan(Request(columns, condition, metadata), LocalRunner())


def explain(
    handle: Handle,
    columns: Sequence[str] | None,
    where: str | Column | None,
    version: Version,
    timestamp: Timestamp,
    metadata: Metadata,
) -> Explanation:
    """What a scan would read, and why."""
    value, spark = stated_or_none(where, "explain(where=)"), handle.spark
    text = stated_without_spark(where, "explain(where=) without a session") if spark is None else None
    opened = handle.open(version, timestamp)
    if spark is None:
        condition = handle.local_condition(text, opened.snapshot, metadata)
        return opened.explain(Request(columns, condition, metadata), LocalRunner())
    condition = handle.condition(value, opened.snapshot, metadata)
    return opened.explain(Request(columns, condition, metadata), SparkRunner(spark))
