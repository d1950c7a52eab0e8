"""Read data files with Arrow inside Spark tasks, where Spark has no file system for the table's store.

Slower than Spark's own reader: rows cross from Python to the JVM. What runs in a task is pickled by value, so workers
need pyarrow, numpy, pyroaring and obstore, and no Holdfast. The store travels inside the task function, credentials
and all, and appears in no plan.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields

import pyarrow as pa
from pyroaring import BitMap64
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast.errors import Unsupported
from holdfast.model.snapshot import HiddenRows
from holdfast.parquet.read import FileTask, ReadSpec, read_batches
from holdfast.parquet.source import open_source
from holdfast.plan.scan import ScanPlan
from holdfast.plan.tasks import planned_files, read_spec
from holdfast.schema.types import Field
from holdfast.spark.types import spark_struct
from holdfast.storage.base import ObjectStore

try:
    from py4j.protocol import Py4JError
except ImportError:  # a Connect-only installation has no gateway
    Py4JError = PySparkException

cloudpickle.register_pickle_by_value(holdfast)

_NO_CONNECTOR = ("No FileSystem for scheme", "ClassNotFoundException", "NoClassDefFoundError")
_TASKS_AT_MOST = 10_000


def has_connector(spark: SparkSession, url: str) -> bool:
    """Whether this session has a file system for a URL; where it has none the store is not touched to find out."""
    scheme = url.partition(":")[0]
    if scheme in ("file", "memory"):
        return scheme == "file"
    try:
        _ = spark.read.schema("x int").parquet(f"{url}/_holdfast/no-such-file").schema
    except (PySparkException, Py4JError) as error:
        return not any(sign in str(error) for sign in _NO_CONNECTOR)
    return True


def scan_by_arrow(spark: SparkSession, plan: ScanPlan, hidden: HiddenRows, outputs: Iterable[Field]) -> DataFrame:
    """The rows of a plan, each file read whole by one task; `outputs` are the plan's columns and metadata columns."""
    location = plan.snapshot.location
    if location.store.url.startswith("memory:"):
        raise Unsupported(f"{location.url} is in this process's memory, which Spark cannot read; use toArrow()")
    tasks = [_packed(location.store_key(f.key), f.task) for f in planned_files(plan, hidden)]  # one per file
    df = spark.createDataFrame(pa.table({"task": pa.array(tasks, pa.binary())}))
    df = df.repartition(max(1, min(len(tasks), _TASKS_AT_MOST)))
    return df.mapInArrow(_reader(location.store, read_spec(plan)), spark_struct(outputs))


def _packed(key: str, task: FileTask) -> bytes:
    """A task as plain values, so that unpacking it needs no class of ours."""
    hidden = task.hidden.serialize() if isinstance(task.hidden, BitMap64) else task.hidden
    values = {f.name: getattr(task, f.name) for f in fields(task)}
    return pickle.dumps((key, values | {"partition": dict(task.partition), "hidden": hidden}))


def _reader(store: ObjectStore, spec: ReadSpec) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does: open each file it was given and read it."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for pickled in batch.column("task").to_pylist():
                key, values = pickle.loads(pickled)
                task = FileTask(**values)
                yield from read_batches(open_source(store, key, task.size), spec, task)

    return read
