"""The metrics of a data file by field id (counts, nulls, bounds, NaNs), from which Iceberg's manifests are written.

Spark tasks pickle this module by value: it imports only Arrow, numpy and modules of lower layers.

1. Every value lies within its bounds, which are bytes: numbers little-endian, decimals big-endian and in as few bytes
   as possible, strings as a UTF-8 prefix. A truncated maximum has its last character raised by one.
2. A bound that is not known is left out: a maximum beside NaN, a prefix that nothing sorts above.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import pyarrow.parquet as pq

from holdfast.parquet.partition_transforms import shortest
from holdfast.parquet.stats import RawBound, StatsGatherer
from holdfast.schema.stats_leaves import LeafPath
from holdfast.schema.types import DataType, Decimal, Primitive

_PACKED = {
    "integer": "<i",
    "date": "<i",
    "long": "<q",
    "timestamp": "<q",
    "timestamp_ntz": "<q",
    "float": "<f",
    "double": "<d",
}
_FLOATS = (Primitive("float"), Primitive("double"))
_HIGHEST, _SURROGATES, _ABOVE_SURROGATES = 0x10FFFF, 0xD800, 0xE000


def field_metrics(
    gatherer: StatsGatherer, footer: pq.FileMetaData, ids: Mapping[LeafPath, int], *, string_prefix: int
) -> str:
    """JSON that has per field id the values, nulls, lower and upper bound in hex, and NaNs; null where not known."""
    metrics: dict[str, list[Any]] = {}
    for leaf, nulls, bounds, has_nan in gatherer.leaves(footer):
        number = ids.get(leaf.path)
        if number is None:
            continue
        low = None if bounds is None else _bound(bounds[0], leaf.type, string_prefix, is_maximum=False)
        high = None if bounds is None or has_nan else _bound(bounds[1], leaf.type, string_prefix, is_maximum=True)
        nans = 0 if leaf.type in _FLOATS and not has_nan else None
        metrics[str(number)] = [footer.num_rows, nulls, *(None if b is None else b.hex() for b in (low, high)), nans]
    return json.dumps(metrics, separators=(",", ":"))


def _bound(raw: RawBound, type_: DataType, prefix: int, *, is_maximum: bool) -> bytes | None:
    match type_:
        case Decimal():
            return shortest(int(raw))
        case Primitive("string"):
            text = raw.decode()
            return text.encode() if len(text) <= prefix else _cut(text[:prefix], is_maximum=is_maximum)
        case Primitive("float" | "double") if math.isnan(raw):
            return None
        case Primitive(name) if name in _PACKED:
            return struct.pack(_PACKED[name], raw)
        case _:
            return None


def _cut(text: str, *, is_maximum: bool) -> bytes | None:
    """A prefix as a bound; in a maximum the last character that can be is raised by one. None: there is no bound."""
    if not is_maximum:
        return text.encode()
    for at in range(len(text) - 1, -1, -1):
        point = ord(text[at])
        if point < _HIGHEST:
            above = _ABOVE_SURROGATES if point + 1 == _SURROGATES else point + 1
            return (text[:at] + chr(above)).encode()
    return None
