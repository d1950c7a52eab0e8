"""Scans a table of either format as a DataFrame or as an Arrow table, or explains the scan.

1. The part of a condition that Holdfast understands prunes files; the engine applies the whole condition to rows.
2. Without a Spark session `to_arrow` reads rows, and a condition is SQL text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.engines.local.engine import LocalEngine
from holdfast.plan.scan.request import Request, known_columns
from holdfast.verbs.open.engine import LOCAL
from holdfast.verbs.open.handle import Handle, Metadata, Timestamp, Version
from holdfast.verbs.open.spark_values import stated_or_none, stated_without_spark
from holdfast.verbs.read.explain import Explanation

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


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
    engine, opened = handle.on_spark(), handle.open(version, timestamp)
    condition = handle.condition(value, opened.snapshot, metadata)
    return opened.scan(Request(columns, condition, metadata), engine)


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
    return opened.scan(Request(columns, condition, metadata), LOCAL)


def explain(
    handle: Handle,
    columns: Sequence[str] | None,
    where: str | Column | None,
    version: Version,
    timestamp: Timestamp,
    metadata: Metadata,
) -> Explanation:
    """What a scan would read, and why."""
    value, engine = stated_or_none(where, "explain(where=)"), handle.engine
    if isinstance(engine, LocalEngine):
        value = stated_without_spark(where, "explain(where=) without a session")
    opened = handle.open(version, timestamp)
    condition = None if value is None else engine.condition(value, known_columns(opened.snapshot, metadata))
    return opened.explain(Request(columns, condition, metadata), engine)
