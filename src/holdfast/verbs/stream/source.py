"""The data source `holdfast`, as Spark knows it: a class that travels, and does its work where Holdfast is installed.

Spark pickles the class, and makes readers and writers of it in processes of its own, on the machine of its driver and
in tasks. Holdfast's code is pickled by value, so this class unpacks anywhere; it names the module that does the work
and loads it there. That is no import of this module's: it happens in another process, and says what that one lacks.

1. Nothing of the class but these few lines travels; no credential does, unless it is given as an option.
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
    found = started(app_name, master=master, **conf)
    register(found)
    return found


class HoldfastSource(DataSource):
    """Delta tables as streams and tables of Spark."""

    @classmethod
    def name(cls) -> str:
        return "holdfast"

    def schema(self) -> StructType:
        found: StructType = there("holdfast.verbs.stream.reader", "schema_of", dict(self.options))
        return found

    def reader(self, schema: StructType) -> DataSourceReader:
        found: DataSourceReader = there("holdfast.verbs.stream.reader", "BatchReader", dict(self.options), schema)
        return found

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        found: DataSourceStreamReader = there(
            "holdfast.verbs.stream.reader", "StreamReader", dict(self.options), schema
        )
        return found

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        found: DataSourceStreamWriter = there(
            "holdfast.verbs.stream.sink", "stream_writer", dict(self.options), schema, overwrite
        )
        return found


def there(module: str, name: str, *arguments: Any) -> Any:
    """Call a function of Holdfast in the process this runs in."""
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise Unavailable(
            f"the format holdfast runs in Python processes of Spark, and {sys.executable} of this one lacks what it "
            f"needs ({error}): install holdfast, and pyspark 4.2 or newer, on Spark's driver (with Spark Connect: the "
            "server) and its workers"
        ) from None
    return getattr(found, name)(*arguments)


def at_batch(module: str, name: str, *arguments: Any) -> Callable[[Any, int], None]:
    """A function for foreachBatch that calls one of Holdfast with its arguments, the rows and the batch's id.

    What the function keeps from batch to batch goes into a dictionary that it is given first.
    """
    kept: dict[str, Any] = {}

    def run(rows: Any, batch: int) -> None:
        there(module, name, kept, *arguments, rows, batch)

    return run
