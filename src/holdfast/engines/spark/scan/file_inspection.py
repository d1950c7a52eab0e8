"""Reads the footers of many data files in Spark tasks.

1. The answer has a row per file: a count, and a compressed bitmap where the file carries row ids.
2. This process looks at files in another store than the table's own (a shallow clone's) and at files in its memory:
   it alone can reach them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.engines.spark.session.carry import by_value, carried
from holdfast.engines.spark.session.progress import tasks
from holdfast.engines.spark.types import spark_struct
from holdfast.parquet.inspect import INSPECTED, FooterRequest, inspect_file
from holdfast.plan.indexing import TaskFunction
from holdfast.plan.maintain.check import Asks
from holdfast.schema.types import LONG, STRING, Field, Primitive
from holdfast.storage.base import ObjectStore
from holdfast.storage.remote import RemoteStore

_ASKED = pa.schema(
    [
        ("number", pa.int64()),
        ("key", pa.string()),
        ("size", pa.int64()),
        ("base", pa.int64()),
        ("hidden", pa.binary()),
    ]
)
_ANSWER = (
    Field("number", LONG),
    Field("rows", LONG),
    Field("ids", Primitive("binary")),
    Field("live", LONG),
    Field("trouble", STRING),
)
_MOST_TASKS = 1000


def inspect_files(spark: SparkSession, asks: Asks) -> pa.Table:
    """What the files say, with the columns of INSPECTED."""
    shared = None if asks.store.url.startswith("memory:") else asks.store
    own = [ask for store, ask in asks.files if store is shared]
    others = [asdict(inspect_file(store, ask, asks.id_column)) for store, ask in asks.files if store is not shared]
    answers = [pa.Table.from_pylist(others, INSPECTED)]
    if own:
        answers.append(_in_tasks(spark, asks, own))
    return pa.concat_tables(answers)


def _in_tasks(spark: SparkSession, asks: Asks, own: list[FooterRequest]) -> pa.Table:
    store = carried(asks.store)
    needs = ("numpy", "pyroaring", *(("obstore",) if isinstance(store, RemoteStore) else ()))
    task = by_value(_looking(store, asks.id_column), needs, work="look at data files")
    listed = spark.createDataFrame(pa.Table.from_pylist([asdict(ask) for ask in own], _ASKED))
    spread = listed.repartition(min(len(own), _MOST_TASKS))
    with tasks(spark, "looking at files"):
        return spread.mapInArrow(task, spark_struct(_ANSWER)).toArrow().cast(INSPECTED)  # one row per file


def _looking(store: ObjectStore, id_column: str | None) -> TaskFunction:
    """What a task does."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen = [
                asdict(inspect_file(store, FooterRequest(**row), id_column)) for row in batch.to_pylist()
            ]  # one per file
            yield pa.RecordBatch.from_pylist(seen, INSPECTED)

    return run
