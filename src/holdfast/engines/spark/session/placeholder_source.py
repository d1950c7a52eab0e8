"""Defines the data source `delta` that catalog entries name; it reads nothing and says what reads the table.

Spark keeps no table of a provider it does not know. This one is known, and reads and writes nothing: the drop-in reads
such tables before Spark looks at the entry. Whoever gets here came another way, inside of Spark.

1. It never answers with rows; what it raises is one sentence with what to do instead.
2. It is known to a session once, when the first table is entered there.
"""

from __future__ import annotations

from typing import Any, NoReturn
from weakref import WeakSet

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

_SENTENCE = (
    "Spark itself cannot read or write this Delta table, because there is no Delta JAR in it: a permanent view, CACHE "
    "TABLE or another session got here. Use it from Python in a session where holdfast.enable(spark) was called: "
    "spark.table, spark.read, df.write, spark.sql, or a temporary view of the DataFrame"
)
_KNOWN = "DATA_SOURCE_ALREADY_EXISTS"
_registered_in: WeakSet[SparkSession] = WeakSet()


class Refusal(DataSource):
    """Tables that Spark may hold and not touch."""

    @classmethod
    def name(cls) -> str:
        return "delta"

    def schema(self) -> NoReturn:
        raise RuntimeError(_SENTENCE)

    def reader(self, schema: StructType) -> NoReturn:
        raise RuntimeError(_SENTENCE)

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        raise RuntimeError(_SENTENCE)

    def streamReader(self, schema: StructType) -> NoReturn:
        raise RuntimeError(_SENTENCE)

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        raise RuntimeError(_SENTENCE)


def let_hold(spark: Any) -> None:
    """Make the provider known to a session."""
    if spark in _registered_in:
        return
    try:
        spark.dataSource.register(Refusal)
    except AnalysisException as error:
        if error.getCondition() != _KNOWN:
            raise
        # Spark looks whether there is such a source in the session that is active, which may be another one; making a
        # DataFrame makes this one active.
        spark.createDataFrame([], "nothing INT")
        spark.dataSource.register(Refusal)
    _registered_in.add(spark)
