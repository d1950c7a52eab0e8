"""What a manifest list says of the partition tuples in a manifest, so that readers can leave the manifest alone.

1. Every value of every entry lies within the bounds of its field, and a null or NaN among them is said.
2. Bounds are single values as bytes: numbers little-endian, decimals big-endian and as short as they can be.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.parquet.partition_transforms import shortest

_LAYOUTS = {"int": "<i", "long": "<q", "float": "<f", "double": "<d"}


def summaries(tuples: Mapping[str, Any], values: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A summary per field of these tuples, given as Avro holds them."""
    return [_summary(_plain(f["type"]), [one.get(f["name"]) for one in values]) for f in tuples["fields"]]


def _summary(type_: Any, values: Sequence[Any]) -> dict[str, Any]:
    kind = str(type_["type"] if isinstance(type_, Mapping) else type_)
    known = [value for value in values if value is not None]
    has_nan = False
    if kind in ("float", "double"):
        has_nan = any(math.isnan(value) for value in known)
        known = [value for value in known if not math.isnan(value)]
    if isinstance(type_, Mapping) and type_.get("logicalType") == "decimal":
        numbers = [int.from_bytes(value, "big", signed=True) for value in known]
        ends = [shortest(end(numbers)) for end in (min, max)] if numbers else [None, None]
    else:
        ends = [_bytes(kind, end(known), is_low=end is min) for end in (min, max)] if known else [None, None]
    return {
        "contains_null": None in values,
        "contains_nan": has_nan,
        "lower_bound": ends[0],
        "upper_bound": ends[1],
    }


def _plain(type_: Any) -> Any:
    return next(one for one in type_ if one != "null") if isinstance(type_, list) else type_


def _bytes(kind: str, value: Any, *, is_low: bool) -> bytes:
    match value:
        case bool():
            return b"\x01" if value else b"\x00"
        case str():
            return value.encode()
        case bytes():
            return value
        case float() if value == 0:  # the zeros of a float are two values, and the negative one is the smaller
            return struct.pack(_LAYOUTS[kind], -0.0 if is_low else 0.0)
        case _:
            return struct.pack(_LAYOUTS[kind], value)
