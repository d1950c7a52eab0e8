"""Reads data files with Arrow inside Spark tasks, where Spark has no file system for the table's store.

Slower than Spark's own reader: rows cross from Python to the JVM, and only columns that are asked for by name are left
out.

1. What runs in a task is pickled by value: workers need pyarrow, numpy, pyroaring and obstore, and no Holdfast. One
   that lacks a package says which, and where.
2. Stores travel inside the task function, with the credentials this process has; no plan, log or error shows them.
3. Every column may hold nulls, whatever the table says, as where Spark reads files itself.
4. A file is read whole by one task; small files share tasks.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engines.spark.session.carry import by_value, carried
from holdfast.engines.spark.session.failing import JOB_ERRORS
from holdfast.engines.spark.types import spark_struct
from holdfast.errors import Unsupported
from holdfast.model.snapshot import HiddenRows
from holdfast.parquet.equality_deletes import EqualityDeleteRows
from holdfast.parquet.read import FileTask, ReadSpec, read_batches
from holdfast.parquet.source import open_source
from holdfast.plan.indexing import TaskFunction
from holdfast.plan.scan.request import ScanPlan
from holdfast.plan.scan.tasks import planned_files, read_spec
from holdfast.schema.types import Array, DataType, Field, Map, Struct
from holdfast.storage.base import ObjectStore
from holdfast.storage.open import place

_NO_CONNECTOR = ("No FileSystem for scheme", "ClassNotFoundException", "NoClassDefFoundError")
_WORKERS_NEED = ("numpy", "pyroaring", "obstore")  # pyarrow is Spark's own need
_OPENING_COST = 4 << 20  # bytes that could be read in the time it takes to open a file
_TASK_BYTES = 128 << 20
_TASKS_AT_LEAST = 32  # as long as there are as many files

_known: WeakKeyDictionary[SparkSession, dict[str, bool]] = WeakKeyDictionary()


def has_connector(spark: SparkSession, url: str) -> bool:
    """Whether this session has a file system for a URL; where it has none the store is not touched to find out."""
    scheme = url.partition(":")[0]
    if scheme in ("file", "memory"):
        return scheme == "file"
    known = _known.setdefault(spark, {})
    if url not in known:
        known[url] = _finds_file_system(spark, url)
    return known[url]


def scan_by_arrow(
    spark: SparkSession,
    plan: ScanPlan,
    hidden: HiddenRows,
    outputs: Iterable[Field],
    gone: tuple[EqualityDeleteRows, ...] = (),
) -> DataFrame:
    """The rows of a plan; `outputs` are its columns and metadata columns, `gone` are rows gone by their values."""
    location = plan.snapshot.location
    if location.store.url.startswith("memory:"):
        raise Unsupported(f"{location.url} is in this process's memory, which Spark cannot read; use toArrow()")
    stores = {location.store.url: location.store}
    tasks = []
    for file in planned_files(plan, hidden):
        store, key = place(location, file.key)
        stores.setdefault(store.url, store)
        tasks.append(_packed(store.url, key, file.task))
    slots = _slots(plan.files.column("size").to_numpy(zero_copy_only=False))
    count = int(slots[-1]) + 1
    listed = spark.createDataFrame(pa.table({"id": slots, "task": pa.array(tasks, pa.binary())}))
    # A range has one row per task exactly where a shuffle would leave some tasks empty and others with several files.
    df = spark.range(0, count, 1, count).join(F.broadcast(listed), "id").select("task")
    spec = read_spec(replace(plan, columns=tuple(map(_nullable, plan.columns))), gone=gone)
    spec = replace(spec, partition_fields=tuple(map(_nullable, spec.partition_fields)))
    reader = _reader({url: carried(store) for url, store in stores.items()}, spec)
    return df.mapInArrow(_unpacking(reader, _WORKERS_NEED), spark_struct(map(_nullable, outputs)))


def _finds_file_system(spark: SparkSession, url: str) -> bool:
    try:
        _ = spark.read.schema("x int").parquet(f"{url}/_holdfast/no-such-file").schema
    except JOB_ERRORS as error:
        return not any(sign in str(error) for sign in _NO_CONNECTOR)
    return True


def _slots(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The task of each file, counted from zero: neighbours share one up to a size, which is small for a small table."""
    ends = np.cumsum(sizes.astype(np.int64) + _OPENING_COST)
    share = min(_TASK_BYTES, max(1, int(ends[-1]) // _TASKS_AT_LEAST))
    return np.unique((ends - 1) // share, return_inverse=True)[1].astype(np.int64)


def _nullable(f: Field) -> Field:
    return replace(f, type=_nullable_type(f.type), nullable=True)


def _nullable_type(type_: DataType) -> DataType:
    match type_:
        case Struct(inside):
            return Struct(tuple(map(_nullable, inside)))
        case Array(element, _):
            return Array(_nullable_type(element))
        case Map(key, value, _):
            return Map(_nullable_type(key), _nullable_type(value))
        case _:
            return type_


def _packed(store_url: str, key: str, task: FileTask) -> bytes:
    """A task as plain values, so that unpacking it needs no class of ours."""
    hidden = task.hidden.serialize() if isinstance(task.hidden, BitMap64) else task.hidden
    values = {f.name: getattr(task, f.name) for f in fields(task)}
    return pickle.dumps((store_url, key, values | {"partition": dict(task.partition), "hidden": hidden}))


def _unpacking(reader: TaskFunction, needs: tuple[str, ...]) -> TaskFunction:
    return by_value(reader, needs, work="read this table", otherwise=", or give Spark a file system for the store")


def _reader(stores: dict[str, ObjectStore], spec: ReadSpec) -> TaskFunction:
    """What a task does: open each file it was given and read it."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for pickled in batch.column("task").to_pylist():
                url, key, values = pickle.loads(pickled)
                task = FileTask(**values)
                yield from read_batches(open_source(stores[url], key, task.size), spec, task)

    return read
