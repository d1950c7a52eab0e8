"""Collects row ids as one bitmap; each task returns a compressed bitmap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame

from holdfast.engines.spark.session.carry import by_value
from holdfast.engines.spark.session.failing import jobs
from holdfast.engines.spark.types import named

_ANSWER = pa.schema([("bits", pa.binary())])


def id_bitmap(ids: DataFrame, column: str) -> BitMap64:
    """The distinct values of a column of ids."""
    gather = by_value(_gathered, ("pyarrow", "numpy", "pyroaring"), work="gather row ids")
    with jobs():
        answers = ids.select(named(column)).mapInArrow(gather, "bits binary").toArrow()
    return BitMap64.union(BitMap64(), *map(BitMap64.deserialize, answers.column("bits").to_pylist()))


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    ids = BitMap64()
    for batch in batches:
        ids |= BitMap64(batch.column(0).to_numpy())
    yield pa.RecordBatch.from_arrays([pa.array([ids.serialize()], pa.binary())], schema=_ANSWER)
