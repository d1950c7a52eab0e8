"""Rows that a user hands over as a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame

from holdfast.engines.spark.dml.constraints import prepare
from holdfast.engines.spark.dml.dedupe import one_per_key
from holdfast.engines.spark.dml.write import as_session_says, write_frame
from holdfast.engines.spark.session.called import is_called
from holdfast.engines.spark.session.progress import tasks
from holdfast.engines.spark.types import spark_to_struct
from holdfast.errors import Unsupported
from holdfast.model.snapshot import Snapshot
from holdfast.parquet.write import WriteSpec
from holdfast.plan.dml.change import PinnedSource
from holdfast.schema.constraints import Demand
from holdfast.schema.enforce import Fit, refuse_doubles
from holdfast.schema.types import Struct
from holdfast.storage.location import Location


@dataclass(frozen=True)
class SparkRows:
    """A DataFrame, stored by Spark tasks."""

    repeatable: ClassVar[bool] = False

    frame: DataFrame

    @property
    def names(self) -> Sequence[str]:
        return self.frame.columns

    def schema(self) -> Struct:
        return spark_to_struct(self.frame.schema, where="the rows")

    def is_called(self, name: str) -> bool:
        return is_called(self.frame, name)

    def input_files(self) -> Sequence[str]:
        return self.frame.inputFiles()

    def one_per_key(self, keys: Sequence[tuple[str, bool]], order_by: str, *, last: bool) -> SparkRows:
        return SparkRows(one_per_key(self.frame, keys, order_by, last=last))

    def pin(self, prefix: str, target: Snapshot) -> PinnedSource:
        schema = spark_to_struct(self.frame.schema, where="the source")
        refuse_doubles(schema)
        if not schema.fields:
            raise Unsupported("a source without columns cannot be merged")
        spec = WriteSpec(fields=schema.fields, prefix=prefix, codec="snappy")
        with tasks(self.frame.sparkSession, "reading the source"):
            return PinnedSource(schema, write_frame(self.frame, spec, target.location))

    def store(
        self, fitted: Fit, wanted: tuple[Demand, ...], spec: WriteSpec, location: Location
    ) -> tuple[pa.Table, Mapping[str, int]]:
        prepared = prepare(self.frame, fitted, wanted)
        spec = as_session_says(spec, self.frame.sparkSession)
        with tasks(self.frame.sparkSession, "writing"):
            staged = write_frame(prepared.frame, spec, location)
        return staged, prepared.marks()
