"""Keeps one row per key of a DataFrame: the first or the last by a column."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from holdfast.engines.spark.types import named

_RANK = "__hf_rank"


def one_per_key(rows: DataFrame, keys: Sequence[tuple[str, bool]], order_by: str, *, last: bool) -> DataFrame:
    """Rows with the same keys become one. A key is a column and whether null equals null: where it does not, a row
    with a null key equals no other and stays."""
    order = named(order_by).desc_nulls_last() if last else named(order_by).asc_nulls_last()
    window = Window.partitionBy(*(named(name) for name, _ in keys)).orderBy(order)
    alone = [named(name).isNull() for name, null_safe in keys if not null_safe]
    first = named(_RANK) == 1
    ranked = rows.withColumn(_RANK, F.row_number().over(window))
    return ranked.where(reduce(or_, alone, first)).drop(_RANK)
