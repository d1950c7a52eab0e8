"""What a data file holds of each field, by field id: the text that a format with field ids makes its metrics of.

Runs in this process and inside Spark tasks, where it is pickled by value: it imports only Arrow, numpy and modules
below its own storey.

1. Every value lies within its bounds, and bounds are bytes: numbers little-endian, decimals big-endian and short,
   texts UTF-8 and cut to a prefix, where a cut maximum ends in a character one higher.
2. What cannot be said is left out: a maximum beside NaN, a prefix that nothing sorts above.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import pyarrow.parquet as pq

from holdfast.parquet.stats import StatsGatherer
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


def measured(
    gatherer: StatsGatherer, footer: pq.FileMetaData, ids: Mapping[LeafPath, int], *, string_prefix: int
) -> str:
    """Per field id: values, nulls, lowest and highest as hex, NaNs; null where it is not known."""
    told: dict[str, list[Any]] = {}
    for leaf, nulls, bounds, has_nan in gatherer.leaves(footer):
        number = ids.get(leaf.path)
        if number is None:
            continue
        low = None if bounds is None else _bound(bounds[0], leaf.type, string_prefix, is_maximum=False)
        high = None if bounds is None or has_nan else _bound(bounds[1], leaf.type, string_prefix, is_maximum=True)
        nans = 0 if leaf.type in _FLOATS and not has_nan else None
        told[str(number)] = [footer.num_rows, nulls, *(None if b is None else b.hex() for b in (low, high)), nans]
    return json.dumps(told, separators=(",", ":"))


def _bound(raw: Any, type_: DataType, prefix: int, *, is_maximum: bool) -> bytes | None:
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


def shortest(number: int) -> bytes:
    """Two's complement, the highest byte first, in as few bytes as hold it."""
    bits = (number if number >= 0 else ~number).bit_length() + 1
    return number.to_bytes((bits + 7) // 8, "big", signed=True)


def _cut(text: str, *, is_maximum: bool) -> bytes | None:
    """A prefix; as a maximum, one whose last character that can is one higher."""
    if not is_maximum:
        return text.encode()
    for at in range(len(text) - 1, -1, -1):
        point = ord(text[at])
        if point < _HIGHEST:
            above = _ABOVE_SURROGATES if point + 1 == _SURROGATES else point + 1
            return (text[:at] + chr(above)).encode()
    return None
