"""Defines the data source `holdfast`: a small class that Spark pickles and that calls the installed Holdfast.

Spark makes readers and writers of the class in processes of its own, on the driver's machine and in tasks. The class is
pickled by value, so it unpacks anywhere; its methods import the modules that do the work when they are called, there.

1. Only these few lines are pickled; no credential is, unless it is given as an option.
2. A process without Holdfast, or with a PySpark that is too old, says so, and what to install where.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)
from pyspark.sql.types import StructType

from holdfast.engines.spark.session.local_session import LOCAL
from holdfast.engines.spark.session.local_session import session as started
from holdfast.errors import Unavailable

if TYPE_CHECKING:
    from holdfast.verbs.stream.reader import TaskReader
    from holdfast.verbs.stream.sink import TaskWriter

FORMAT = "holdfast"

cloudpickle.register_pickle_by_value(sys.modules["holdfast"])


def register(spark: SparkSession) -> None:
    """Make `spark.readStream.format("holdfast")`, `spark.read` and `writeStream` with it known to a session."""
    spark.dataSource.register(HoldfastSource)


def session(app_name: str = "holdfast", *, master: str = LOCAL, **conf: str | int | bool) -> SparkSession:
    """The active SparkSession, or a new one on this machine, with the data source `holdfast` registered.

    With `master="sc://host"` it is one of a Spark Connect server. Settings are keywords:
    `session(**{"spark.sql.shuffle.partitions": 8})`.
    """
    spark = started(app_name, master=master, **conf)
    register(spark)
    return spark


class HoldfastSource(DataSource):
    """Delta tables as streams and tables of Spark."""

    @classmethod
    def name(cls) -> str:
        return "holdfast"

    def schema(self) -> StructType:
        with needing_holdfast():
            from holdfast.verbs.stream.reader import schema_of
        return schema_of(dict(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        with needing_holdfast():
            from holdfast.verbs.stream.reader import BatchReader
        return BatchReader(dict(self.options), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        with needing_holdfast():
            from holdfast.verbs.stream.reader import StreamReader
        return StreamReader(dict(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        with needing_holdfast():
            from holdfast.verbs.stream.sink import stream_writer
        return stream_writer(dict(self.options), schema, overwrite)


def task_reader(schema: StructType) -> TaskReader:
    """The reader of a task: what a reader becomes when Spark pickles it."""
    with needing_holdfast():
        from holdfast.verbs.stream.reader import TaskReader
    return TaskReader(schema)


def task_writer(task: bytes) -> TaskWriter:
    """The writer of a task: what a writer becomes when Spark pickles it."""
    with needing_holdfast():
        from holdfast.verbs.stream.sink import TaskWriter
    return TaskWriter(task)


@contextmanager
def needing_holdfast() -> Iterator[None]:
    """An import in a process of Spark's, which may lack what it needs."""
    try:
        yield
    except ImportError as error:
        raise Unavailable(
            f"the format holdfast runs in Python processes of Spark, and {sys.executable} of this one lacks what it "
            f"needs ({error}): install holdfast, and pyspark 4.2 or newer, on Spark's driver (with Spark Connect: the "
            "server) and its workers"
        ) from None
