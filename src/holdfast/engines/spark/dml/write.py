"""Writes the rows of a DataFrame into data files of a table, in one Spark job.

1. Tasks write files and give back what they wrote; the answer holds one attempt of each task. What retried or
   speculative attempts leave behind has names nobody knows of: orphans, never duplicates.
2. The job runs exactly once, because its DataFrame is consumed here and handed to nobody.
3. Within a task rows are sorted by partition, so that one file is open at a time.
4. What runs in a task is pickled by value (see `carry`); files are written through the table's own store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from holdfast.engines.spark.session.carry import by_value, carried
from holdfast.engines.spark.types import named, spark_struct
from holdfast.env import system
from holdfast.errors import Unsupported
from holdfast.model.mutation import STAGED
from holdfast.parquet.carried import CarriedIdNotes
from holdfast.parquet.fit import VOID
from holdfast.parquet.write import WriteSpec, file_names, write_batches
from holdfast.plan.indexing import TaskFunction
from holdfast.schema.types import LONG, STRING, Field, Map
from holdfast.storage.location import Location
from holdfast.storage.remote import RemoteStore
from holdfast.storage.sink import FileSink, open_sink

_FILE_ROWS = "spark.sql.files.maxRecordsPerFile"
_ANSWER = (
    Field("key", STRING),
    Field("size", LONG),
    Field("modified_ms", LONG),
    Field("partition_values", Map(STRING, STRING)),
    Field("num_records", LONG),
    Field("stats", STRING),
    Field("carried", STRING),
)


def write_frame(df: DataFrame, spec: WriteSpec, location: Location) -> pa.Table:
    """Write rows below a table's directory; gives the files, with the columns of STAGED.

    The DataFrame has the columns of `spec.input_fields` by name, already of the table's types.
    """
    store = carried(location.store)
    if store.url.startswith("memory:"):
        raise Unsupported(f"{location.url} is in this process's memory, where Spark's workers cannot write")
    # Nothing of a void column is stored, and not every Arrow exchange has a type for it.
    spec = replace(spec, fields=tuple(f for f in spec.fields if f.type != VOID))
    # Columns go by position under plain names: Spark takes a dot in a name apart on the way to Python.
    plain = {f.name: f"c{at}" for at, f in enumerate(spec.input_fields)}
    df = gathered(df, spec) if spec.gathered else df
    rows = df.select(*(named(name).alias(alias) for name, alias in plain.items()))
    if spec.partition_columns:
        rows = rows.sortWithinPartitions(*(plain[name] for name in spec.partition_columns))
    sink = open_sink(replace(location, store=store), system().now_ms)
    needs = ("numpy", "obstore") if isinstance(store, RemoteStore) else ("numpy",)
    notes = None if spec.id_column is None else CarriedIdNotes
    task = by_value(_writer(spec, sink, notes), needs, work="write this table")
    # As many rows as there are files.
    return rows.mapInArrow(task, spark_struct(_ANSWER)).toArrow().cast(STAGED)


def as_session_says(spec: WriteSpec, spark: SparkSession) -> WriteSpec:
    """A spec with what a session says of the rows of a file, where nothing else does."""
    rows = spark.conf.get(_FILE_ROWS, "0") if spec.file_rows is None else None
    return replace(spec, file_rows=int(rows)) if rows and rows.isdigit() else spec


def gathered(df: DataFrame, spec: WriteSpec) -> DataFrame:
    """Rows of a partition brought together, as many to a task as the session's adaptive execution finds right."""
    if (df.sparkSession.conf.get("spark.sql.adaptive.enabled") or "").lower() != "true":
        return df
    return df.hint("rebalance", *spec.partition_columns)


def _writer(spec: WriteSpec, sink: FileSink, notes: type[CarriedIdNotes] | None) -> TaskFunction:
    """What a task does."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        return write_batches(batches, spec, sink, file_names(task, uuid4, spec.codec), notes=notes)

    return write
