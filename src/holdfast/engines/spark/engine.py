"""The engine that reads and writes rows on a Spark session, classic or Connect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast.engines.spark import changefeed, publish
from holdfast.engines.spark.conditions import below, condition
from holdfast.engines.spark.dml import change
from holdfast.engines.spark.dml.follow import follow, ids
from holdfast.engines.spark.dml.incoming import SparkRows
from holdfast.engines.spark.dml.write import write_frame
from holdfast.engines.spark.indexing import SparkWorkers, map_frame
from holdfast.engines.spark.scan import file_inspection, native, search
from holdfast.engines.spark.scan.id_bitmap import id_bitmap
from holdfast.engines.spark.scan.take import ids_of
from holdfast.engines.spark.session.progress import is_remote
from holdfast.engines.spark.types import named
from holdfast.errors import Invalid
from holdfast.model.snapshot import HiddenRows
from holdfast.parquet.write import WriteSpec
from holdfast.plan.changefeed.query import ChangesPlan
from holdfast.plan.dml.change import Done, Expression, Inserted, Insertion, Positions, TouchedRows, Work
from holdfast.plan.dml.follow import Followed, LocatedRows
from holdfast.plan.indexing import WorkerTask
from holdfast.plan.maintain.check import Asks
from holdfast.plan.publish.rows import Arriving, ChangedIds, Storage
from holdfast.plan.scan.request import Condition, ScanPlan
from holdfast.plan.scan.search import RowSearch
from holdfast.predicate.records import Predicate
from holdfast.predicate.render import render
from holdfast.rows.columns import ROW_ID
from holdfast.schema.types import Struct
from holdfast.storage.location import Location
from holdfast.terminal import phase


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """A Spark session and its workers."""

    parallel_bins: ClassVar[int] = 8  # a bin of one file keeps one core busy
    failures: ClassVar[tuple[type[Exception], ...]] = (PySparkException,)

    spark: SparkSession

    @property
    def workers(self) -> SparkWorkers:
        return SparkWorkers(self.spark)

    def scan(self, plan: ScanPlan, hidden: HiddenRows) -> DataFrame:
        return native.scan_frame(self.spark, plan, hidden)

    def describe(self, plan: ScanPlan) -> tuple[str, ...]:
        return native.describe(self.spark, plan)

    def condition(self, where: Expression, columns: Struct) -> Condition:
        return condition(self.spark, where, columns)

    def understands(self, predicate: Predicate) -> bool:
        return True

    def changes(self, plan: ChangesPlan) -> DataFrame:
        return changefeed.changes(self.spark, plan)

    def touched_ids(self, parts: Sequence[TouchedRows]) -> DataFrame:
        return search.touched_ids(self.spark, parts)

    def touched_bitmap(self, parts: Sequence[TouchedRows]) -> BitMap64:
        return id_bitmap(search.touched_ids(self.spark, parts), ROW_ID)

    def first_row(self, plan: ScanPlan, hidden: HiddenRows) -> pa.Table:
        return native.scan_frame(self.spark, plan, hidden).limit(1).toArrow()

    def furthest(self, plan: ScanPlan, hidden: HiddenRows, *, upward: bool) -> int | None:
        return search.furthest(self.spark, plan, hidden, upward=upward)

    def id_bitmap(self, plan: ScanPlan, hidden: HiddenRows, column: str) -> BitMap64:
        return id_bitmap(native.scan_frame(self.spark, plan, hidden), column)

    def rows_by_file(self, searches: Sequence[RowSearch], hidden: HiddenRows) -> Mapping[str, int]:
        return search.rows_by_file(self.spark, searches, hidden)

    def inspect_files(self, asks: Asks) -> pa.Table:
        return file_inspection.inspect_files(self.spark, asks)

    def source(self, rows: object) -> SparkRows:
        if isinstance(rows, pa.Table):
            return SparkRows(self.spark.createDataFrame(rows))
        if not isinstance(rows, DataFrame):
            raise Invalid(f"a source is a DataFrame or an Arrow table, not {type(rows).__name__}")
        return SparkRows(rows)

    def change(self, work: Work) -> Done:
        return change.change(self.spark, work)

    def insert(self, work: Insertion) -> Inserted:
        return change.insert(self.spark, work)

    def colliding(self, work: Work, limit: int) -> Sequence[str]:
        return change.colliding(self.spark, work, limit)

    def follow(self, old: LocatedRows, new: LocatedRows) -> Followed:
        return follow(self.spark, old, new)

    def some_ids(self, place: LocatedRows, limit: int) -> Sequence[int]:
        return ids(self.spark, place, limit)

    def write_changes(self, plan: ChangesPlan, spec: WriteSpec, location: Location) -> pa.Table:
        return write_frame(changefeed.changes(self.spark, plan), spec, location)

    def changed_ids(self, plan: ChangesPlan) -> ChangedIds:
        return publish.changed_ids(self.spark, plan)

    def locate(self, place: LocatedRows, ids: BitMap64) -> Positions:
        return publish.locate(self.spark, place, ids)

    def publish(self, rows: Arriving, storage: Storage) -> pa.Table:
        return publish.publish(self.spark, rows, storage)

    def column_condition(self, predicate: Predicate) -> Condition:
        """A predicate over top-level columns as a condition that Spark evaluates without parsing it."""
        return Condition(below(predicate, named), render(predicate), predicate)

    def frame_ids(self, row_ids: object) -> NDArray[np.int64] | None:
        """The distinct row ids in a DataFrame; None for any other value."""
        return ids_of(row_ids) if isinstance(row_ids, DataFrame) else None

    def map_frame(self, frame: DataFrame, task: WorkerTask) -> pa.Table:
        """The answers of a task over the rows of a DataFrame."""
        return map_frame(frame, task)

    def progress(self, what: str) -> AbstractContextManager[None]:
        return nullcontext() if is_remote(self.spark) else phase(what)
