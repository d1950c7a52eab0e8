"""Defines the data source `holdfast`: a small class that Spark pickles and that calls the installed Holdfast.

Spark makes readers and writers of the class in processes of its own, on the driver's machine and in tasks. The class is
pickled by value, so it unpacks anywhere; it names the module that does the work, and imports it in that process.

1. Only these few lines are pickled; no credential is, unless it is given as an option.
2. A process without Holdfast, or with a PySpark that is too old, says so, and what to install where.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter
from pyspark.sql.types import StructType

import holdfast
from holdfast.engines.spark.session.local_session import LOCAL
from holdfast.engines.spark.session.local_session import session as started
from holdfast.errors import Unavailable

FORMAT = "holdfast"

cloudpickle.register_pickle_by_value(holdfast)


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
        answer: StructType = there("holdfast.verbs.stream.reader", "schema_of", dict(self.options))
        return answer

    def reader(self, schema: StructType) -> DataSourceReader:
        answer: DataSourceReader = there("holdfast.verbs.stream.reader", "BatchReader", dict(self.options), schema)
        return answer

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        answer: DataSourceStreamReader = there(
            "holdfast.verbs.stream.reader", "StreamReader", dict(self.options), schema
        )
        return answer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        answer: DataSourceStreamWriter = there(
            "holdfast.verbs.stream.sink", "stream_writer", dict(self.options), schema, overwrite
        )
        return answer


def there(module: str, name: str, *arguments: Any) -> Any:
    """Call a function of Holdfast in the process this runs in."""
    try:
        loaded = importlib.import_module(module)
    except ImportError as error:
        raise Unavailable(
            f"the format holdfast runs in Python processes of Spark, and {sys.executable} of this one lacks what it "
            f"needs ({error}): install holdfast, and pyspark 4.2 or newer, on Spark's driver (with Spark Connect: the "
            "server) and its workers"
        ) from None
    return getattr(loaded, name)(*arguments)


def at_batch(module: str, name: str, *arguments: Any) -> Callable[[Any, int], None]:
    """A function for foreachBatch that calls one of Holdfast with its arguments, the rows and the batch's id.

    What the function keeps from batch to batch goes into a dictionary that it is given first.
    """
    kept: dict[str, Any] = {}

    def run(rows: Any, batch: int) -> None:
        there(module, name, kept, *arguments, rows, batch)

    return run
