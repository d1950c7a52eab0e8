"""Searches files of any version for rows with certain ids or values.

1. Every row of a file is read, hidden ones too, unless the caller says which to leave out.
2. A row that has one of the ids and satisfies the condition counts once.
3. A file without a base row id, from before its table tracked rows, is searched by the condition only.
4. A file of no version is searched for the ids it carries itself; one that cannot be read may hold anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engines.local.scan import LocalRunner
from holdfast.engines.spark.conditions import condition as spark_condition
from holdfast.engines.spark.scan.id_bitmap import id_bitmap
from holdfast.engines.spark.scan.native import SparkRunner
from holdfast.errors import Damaged, MissingFile, Unsupported
from holdfast.model.files import FileTable
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.parquet.source import open_source
from holdfast.plan.scan.request import Condition, Request, ScanPlan, known_columns, plan_scan, refuse_unknown
from holdfast.predicate.parse import parse, unknown_names
from holdfast.predicate.records import has_opaque
from holdfast.rows.columns import FILE, ROW_ID, ROW_INDEX
from holdfast.storage.arrays import mask
from holdfast.storage.location import Location
from holdfast.verbs.dml.assignments import Value
from holdfast.verbs.dml.delete_update import ExecutionContext

_READERS = 16
_FILE, _ID, _INDEX = "__hf_file", "__hf_row_id", "__hf_row_index"


@dataclass(frozen=True)
class Sought:
    """Rows that are looked for: those with any of the ids, and those that satisfy the condition."""

    ids: BitMap64 = field(default_factory=BitMap64)
    where: Condition | None = None


def understood(snapshot: Snapshot, condition: Value, caller: ExecutionContext) -> Condition:
    """A condition, as files of any age can be asked for it."""
    columns = known_columns(snapshot, ())
    if caller.spark is not None:
        return spark_condition(caller.spark, condition, columns)
    if not isinstance(condition, str):
        raise Unsupported(f"without Spark nobody can look for rows with the Column {condition}: write it as SQL text")
    refuse_unknown(unknown_names(condition, columns), columns)
    predicate = parse(condition, columns, zone=caller.zone)
    if has_opaque(predicate):
        raise Unsupported(
            f"without Spark nobody can look for rows with {condition} in files of old versions: compare columns with "
            "literals, or open the table with a session"
        )
    return Condition(condition, condition, predicate)


def holders(
    snapshot: Snapshot,
    files: FileTable,
    sought: Sought,
    spark: SparkSession | None,
    *,
    hidden: HiddenRows | None = None,
) -> Mapping[str, int]:
    """How many of the rows each file holds; files without any are absent."""
    ways = list(_ways(snapshot, files, sought))
    if not ways:
        return {}
    keys = files.column("key").to_pylist()  # one per file
    by_uri = dict(zip(map(snapshot.location.spark_uri, keys), keys, strict=True))
    left_out = hidden or HiddenRows()
    counts = _locally(ways, left_out) if spark is None else _on_spark(ways, left_out, spark)
    return {by_uri[uri]: rows for uri, rows in counts.items()}


def ids_where(snapshot: Snapshot, files: FileTable, where: Condition, spark: SparkSession | None) -> BitMap64:
    """The ids of rows in some files that satisfy a condition, hidden ones too; files without ids give none."""
    tracked = files.filter(pc.is_valid(files.column("base_row_id")).combine_chunks()) if len(files) else files
    if not len(tracked):
        return BitMap64()
    plan = replace(plan_scan(snapshot, Request((), where, {ROW_ID: _ID})), files=tracked)
    if spark is not None:
        return id_bitmap(SparkRunner(spark).scan(plan, HiddenRows()), _ID)
    batches = LocalRunner().scan_batches(plan, HiddenRows())
    return BitMap64().union(*(BitMap64(batch.column(_ID).to_numpy().astype(np.uint64)) for batch in batches))


def carriers(location: Location, keys: Sequence[str], column: str | None, ids: BitMap64) -> list[str]:
    """Those of some files that no version has which carry one of these ids, or cannot be read."""
    wanted = _array(ids)

    def carries(key: str) -> bool:
        try:
            file = pq.ParquetFile(open_source(location.store, location.key(key), None))
            if column is None or column not in file.schema_arrow.names:
                return False
            own = file.read([column]).column(0).drop_null().to_numpy()
        except MissingFile:
            return False
        except (Damaged, pa.ArrowException, OSError):
            return True
        return bool(np.isin(own, wanted).any())

    with ThreadPoolExecutor(_READERS) as pool:
        return [key for key, carries_one in zip(keys, pool.map(carries, keys), strict=True) if carries_one]


def _ways(snapshot: Snapshot, files: FileTable, sought: Sought) -> Iterator[tuple[ScanPlan, BitMap64 | None]]:
    """The scans to be made; with ids where rows are to be told by them."""
    if not len(files):
        return
    if sought.where is not None:
        request = Request((), sought.where, {FILE: _FILE, ROW_INDEX: _INDEX})
        yield replace(plan_scan(snapshot, request), files=files), None
    tracked = files.filter(pc.is_valid(files.column("base_row_id")).combine_chunks())
    if sought.ids and len(tracked):
        request = Request((), None, {FILE: _FILE, ROW_INDEX: _INDEX, ROW_ID: _ID})
        yield replace(plan_scan(snapshot, request), files=tracked), sought.ids


def _on_spark(
    ways: list[tuple[ScanPlan, BitMap64 | None]], hidden: HiddenRows, spark: SparkSession
) -> Mapping[str, int]:
    frames = []
    for plan, ids in ways:
        df = SparkRunner(spark).scan(plan, hidden)
        if ids is not None:
            df = df.join(spark.createDataFrame(pa.table({_ID: _array(ids)})), _ID, "leftsemi")
        frames.append(df.select(_FILE, _INDEX))
    rows = reduce(DataFrame.unionAll, frames)
    if len(frames) > 1:
        rows = rows.distinct()
    counted = rows.groupBy(_FILE).agg(F.count("*").alias("rows")).collect()  # one per file
    return {row[_FILE]: row["rows"] for row in counted}


def _locally(ways: list[tuple[ScanPlan, BitMap64 | None]], hidden: HiddenRows) -> Mapping[str, int]:
    positions_by_file: dict[str, BitMap64] = {}
    for plan, ids in ways:
        wanted = None if ids is None else _array(ids)
        for batch in LocalRunner().scan_batches(plan, hidden):
            some = batch if wanted is None else batch.filter(mask(np.isin(batch.column(_ID).to_numpy(), wanted)))
            for uri in pc.unique(some.column(_FILE)).to_pylist():  # one batch is of one file
                positions = some.filter(pc.equal(some.column(_FILE), uri)).column(_INDEX).to_numpy()
                positions_by_file.setdefault(uri, BitMap64()).update(positions.astype(np.uint64))
    return {uri: len(positions) for uri, positions in positions_by_file.items()}


def _array(ids: BitMap64) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.fromiter(ids, np.int64, len(ids))
