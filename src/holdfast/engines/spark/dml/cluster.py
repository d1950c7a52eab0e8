"""Sorts rows along a curve on Spark: a small sample places the curve, and one shuffle brings rows to their parts.

1. The sample is read of the ordering columns alone; what comes to this process is bounded by SAMPLE_ROWS.
2. Only these columns go through Python to learn a row's place; everything else stays in Spark until it is written.
3. Parts are given by number and not by Spark's own range partitioning, which would read all rows twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from holdfast.engines.spark.session.failing import jobs
from holdfast.engines.spark.types import named
from holdfast.plan.dml.change import Order
from holdfast.plan.maintain.curve import PLACE_BITS, SAMPLE_ROWS, Curve, curve_of

_PLACE, _KEYS = "__hf_place", "__hf_keys"
_SEED = 7  # the same rows give the same curve
_MORE = 1.2  # than the rows wanted, because a sample is as large only on average


def in_order(frame: DataFrame, order: Order, rows: int) -> DataFrame:
    """The rows, about so many, in the parts of a curve and in its order within each."""
    columns = [_column(path) for path in order.columns]
    curve = _curve(frame, columns, order, rows)
    placed = _placed(frame, columns, curve)
    if curve.parts == 1:
        return placed.coalesce(1).sortWithinPartitions(_PLACE)
    part = F.shiftright(named(_PLACE), PLACE_BITS).cast("int")
    by_id: Any = getattr(placed, "repartitionById", placed.repartitionByRange)  # PySpark 4.0 has only the latter
    parted: DataFrame = by_id(curve.parts, part)
    return parted.sortWithinPartitions(_PLACE)


def _curve(frame: DataFrame, columns: list[Column], order: Order, rows: int) -> Curve:
    sample = frame.select(*(c.alias(f"c{i}") for i, c in enumerate(columns)))
    if rows > SAMPLE_ROWS:
        sample = sample.sample(fraction=_MORE * SAMPLE_ROWS / rows, seed=_SEED)
    with jobs():
        values = sample.limit(2 * SAMPLE_ROWS).toArrow()  # whatever the log says of how many rows there are
    return curve_of([c.combine_chunks() for c in values.columns], order.along, order.parts)


def _placed(frame: DataFrame, columns: list[Column], curve: Curve) -> DataFrame:
    """The rows with their places; Holdfast is pickled with the function that tells them (see `carry`)."""
    arrow_udf: Any = getattr(F, "arrow_udf", None)
    if arrow_udf is not None:

        def place(rows: pa.Array) -> pa.Array:
            return pa.array(curve.place(rows.flatten()))

        return frame.withColumn(_PLACE, arrow_udf(place, "bigint")(F.struct(*columns)))

    def place_all(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            places = pa.array(curve.place(batch.column(batch.num_columns - 1).flatten()))
            names = [*batch.schema.names[:-1], _PLACE]
            yield pa.RecordBatch.from_arrays([*batch.columns[:-1], places], names=names)

    # PySpark 4.0: all columns go through Python, which costs more and gives the same.
    schema = StructType([*frame.schema.fields, StructField(_PLACE, LongType())])
    return frame.select("*", F.struct(*columns).alias(_KEYS)).mapInArrow(place_all, schema)


def _column(path: tuple[str, ...]) -> Column:
    column = named(path[0])
    for name in path[1:]:
        column = column.getField(name)
    return column
