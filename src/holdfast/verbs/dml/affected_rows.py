"""The ids of the rows a change touched, read when they are asked for.

Rows that were updated or deleted are read at their old addresses, in the version before; inserted ones in the files
the change added. Only those rows are read, and of them only what gives their ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engines.local.scan import LocalRunner
from holdfast.engines.spark.scan.native import SparkRunner
from holdfast.errors import NoRowIdentity, Unsupported
from holdfast.model.files import FileTable, hiding
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.plan.dml.change import Positions
from holdfast.plan.scan.request import Request, ScanPlan, plan_scan
from holdfast.rows.columns import ROW_ID
from holdfast.schema.constraints import quoted
from holdfast.verbs.dml.strategy import Effect
from holdfast.verbs.open.dialect import Dialect, TableState

CHANGE = "_change_type"


def row_ids(
    before: TableState, effect: Effect, version: int | None, spark: SparkSession | None, dialect: Dialect
) -> DataFrame | pa.Table:
    """One row per touched row: `_row_id`, and whether it was an update, a delete or an insert."""
    if before.snapshot.identity is None:
        raise NoRowIdentity(f"the table at {before.snapshot.location.url} does not track rows, so they have no ids")
    parts = list(_parts(before, effect, version, dialect))
    if spark is None:
        empty = pa.table({ROW_ID: pa.array([], pa.int64()), CHANGE: pa.array([], pa.string())})
        tables = [LocalRunner().scan(plan, hidden) for _, plan, hidden in parts]
        told = [
            table.append_column(CHANGE, pa.repeat(pa.scalar(change), table.num_rows))
            for table, (change, _, _) in zip(tables, parts, strict=True)
        ]
        return pa.concat_tables([empty, *told])
    if not parts:
        return spark.createDataFrame([], f"{quoted(ROW_ID)} bigint, {quoted(CHANGE)} string")
    runner = SparkRunner(spark)
    frames = [runner.scan(plan, hidden).withColumn(CHANGE, F.lit(change)) for change, plan, hidden in parts]
    return reduce(DataFrame.unionAll, frames)


def _parts(
    before: TableState, effect: Effect, version: int | None, dialect: Dialect
) -> Iterator[tuple[str, ScanPlan, HiddenRows]]:
    old = before.snapshot
    updated, deleted = effect.taken
    for change, positions in (("update", updated), ("delete", deleted)):
        if positions:
            files = old.files.among(positions)
            yield change, _plan(old, hiding(files)), HiddenRows(_others(files, positions))
    unread = [s.key for s in effect.strategies if s.key not in updated and s.key not in deleted]
    if unread:
        files = old.files.among(unread)
        yield "delete", _plan(old, files), dialect.load_hidden(old.location, files)
    if effect.new_keys and version is not None:
        new = dialect.at(before, version).snapshot
        yield "insert", _plan(new, new.files.among(effect.new_keys)), HiddenRows()


def _plan(snapshot: Snapshot, files: FileTable) -> ScanPlan:
    return replace(plan_scan(snapshot, Request(columns=(), metadata=[ROW_ID])), files=files)


def _others(files: FileTable, positions: Positions) -> dict[str, BitMap64]:
    """Every position of a file but these."""
    found = {}
    for key, rows in zip(files.column("key").to_pylist(), files.num_records.to_pylist(), strict=True):
        if rows is None:
            raise Unsupported(f"the log does not say how many rows {key} has, so the ids of some cannot be listed")
        found[key] = positions[key].flip(0, rows)
    return found
