"""Computes the range of source values that a partition value can come from.

1. Every value whose transform gives the partition value lies in the range, both ends included.
2. A null partition value has no range; a transform that keeps no order (bucket, void) never has one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.formats.iceberg.metadata.partition_spec import Transform
from holdfast.schema.types import DataType, Decimal, Primitive

_UNITS = {"year": "Y", "month": "M", "day": "D", "hour": "h"}


def source_bounds(values: pa.Array, transform: Transform, type_: DataType) -> tuple[pa.Array, pa.Array] | None:
    """The lowest and the highest source value of each partition value; None where the transform implies no range."""
    match transform.kind:
        case "identity":
            return (values, values) if _has_order(type_) else None
        case "year" | "month" | "day" | "hour":
            return _calendar(values, _UNITS[transform.kind], type_)
        case "truncate" if transform.parameter:
            return _truncated(values, transform.parameter, type_)
        case _:
            return None


def _has_order(type_: DataType) -> bool:
    return isinstance(type_, Decimal) or (
        isinstance(type_, Primitive)
        and type_.name in {"integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string"}
    )


def _calendar(values: pa.Array, unit: str, type_: DataType) -> tuple[pa.Array, pa.Array] | None:
    if not isinstance(type_, Primitive) or type_.name not in ("date", "timestamp", "timestamp_ntz"):
        return None
    whole = values.cast(pa.int32()).cast(pa.int64()) if pa.types.is_date(values.type) else values.cast(pa.int64())
    numbers = whole.fill_null(0).to_numpy(zero_copy_only=False)
    absent = values.is_null().to_numpy(zero_copy_only=False)
    to = "D" if type_.name == "date" else "us"
    if to == "D" and unit == "h":
        return None
    # Early writers rounded towards 1970, so a partition value before 1970 may stand for the unit before it.
    first = numbers if unit == to else np.where(numbers <= 0, numbers - 1, numbers)
    low, below = _starts(first, unit, to)
    after, beyond = _starts(numbers + 1, unit, to)
    return _moments(low, absent | below, type_), _moments(after - 1, absent | beyond, type_)


def _starts(numbers: NDArray[np.int64], unit: str, to: str) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """When units begin, and which of them begin outside the range of the type."""
    furthest = 2**31 - 1 if to == "D" else 2**62  # numpy's conversions overflow near the end of int64
    ends = np.array([1 - furthest, furthest]).astype(f"datetime64[{to}]").astype(f"datetime64[{unit}]")
    first, last = ends.astype(np.int64).tolist()
    outside = (numbers <= first) | (numbers > last)
    inside = np.where(outside, 0, numbers)
    return inside.astype(f"datetime64[{unit}]").astype(f"datetime64[{to}]").astype(np.int64), outside


def _moments(numbers: NDArray[np.int64], absent: NDArray[np.bool_], type_: Primitive) -> pa.Array:
    if type_.name == "date":
        return pa.array(numbers.astype(np.int32), mask=absent).cast(pa.date32())
    return pa.array(numbers, mask=absent).view(pa.timestamp("us", tz="UTC" if type_.name == "timestamp" else None))


def _truncated(values: pa.Array, width: int, type_: DataType) -> tuple[pa.Array, pa.Array] | None:
    match type_:
        case Primitive("integer" | "long"):
            largest = pa.scalar(2**31 - 1 if type_.name == "integer" else 2**63 - 1, values.type)
            room = pc.less_equal(values, pc.subtract(largest, pa.scalar(width - 1, values.type)))
            # Writers wrap around below the smallest integer, so a value near the largest has no lower bound.
            low = pc.if_else(room, values, pa.scalar(None, values.type))
            return low, pc.if_else(room, pc.add(values, pa.scalar(width - 1, values.type)), largest)
        case Primitive("string"):
            # A string is not below its prefix; it may be arbitrarily far above.
            return values, pa.nulls(len(values), pa.string())
        case _:
            return None
