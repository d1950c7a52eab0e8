"""Collects the row ids in a user's DataFrame."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegralType

from holdfast.engines.spark.scan.id_bitmap import id_bitmap
from holdfast.engines.spark.types import named
from holdfast.errors import Invalid


def ids_of(frame: DataFrame) -> NDArray[np.int64]:
    """The distinct ids of a DataFrame of one column, ascending; as many bytes reach this process as a bitmap takes."""
    fields = frame.schema.fields
    if len(fields) != 1 or not isinstance(fields[0].dataType, IntegralType):
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in fields)
        raise Invalid(f"row ids come as a DataFrame of one column of whole numbers, not of {columns or 'none'}")
    name = fields[0].name
    ids = frame.select(named(name).cast("bigint").alias("id")).where("id >= 0")  # null is none, and no row's is less
    return np.frombuffer(id_bitmap(ids, "id").to_array(), np.uint64).astype(np.int64)
