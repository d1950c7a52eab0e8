"""What an encoded variant means, so that two encodings of one value compare equal."""

from __future__ import annotations

import decimal
import struct
from itertools import pairwise
from typing import Any


def decoded(value: bytes, metadata: bytes) -> Any:
    """The value as plain Python, each scalar with the name of its kind; integers of all widths are one kind."""
    return _value(value, 0, _names(metadata))


def _names(metadata: bytes) -> list[str]:
    assert metadata[0] & 0x0F == 1, "variant metadata has version 1"
    width = (metadata[0] >> 6) + 1
    count = _number(metadata, 1, width)
    offsets = [_number(metadata, 1 + width * (i + 1), width) for i in range(count + 1)]
    start = 1 + width * (count + 2)
    return [metadata[start + a : start + b].decode() for a, b in pairwise(offsets)]


def _value(data: bytes, at: int, names: list[str]) -> Any:
    kind, header = data[at] & 3, data[at] >> 2
    if kind == 0:
        return _scalar(data, at + 1, header)
    if kind == 1:
        return ("string", data[at + 1 : at + 1 + header])
    if kind == 2:
        offset_width, id_width, wide = (header & 3) + 1, (header >> 2 & 3) + 1, 4 if header >> 4 & 1 else 1
        count = _number(data, at + 1, wide)
        ids = at + 1 + wide
        offsets = ids + count * id_width
        start = offsets + (count + 1) * offset_width
        fields = {
            names[_number(data, ids + i * id_width, id_width)]: _value(
                data, start + _number(data, offsets + i * offset_width, offset_width), names
            )
            for i in range(count)
        }
        assert list(fields) == sorted(fields, key=str.encode), "the fields of a variant object are in order"
        return ("object", tuple(sorted(fields.items())))
    offset_width, wide = (header & 3) + 1, 4 if header >> 2 & 1 else 1
    count = _number(data, at + 1, wide)
    offsets = at + 1 + wide
    start = offsets + (count + 1) * offset_width
    return (
        "array",
        tuple(
            _value(data, start + _number(data, offsets + i * offset_width, offset_width), names) for i in range(count)
        ),
    )


def _scalar(data: bytes, at: int, code: int) -> Any:
    if code in (0, 1, 2):
        return (("null",), ("boolean", True), ("boolean", False))[code]
    layouts = {3: "<b", 4: "<h", 5: "<i", 6: "<q", 7: "<d", 11: "<i", 12: "<q", 13: "<q", 14: "<f"}
    layouts |= {17: "<q", 18: "<q", 19: "<q"}
    if code in layouts:
        return ("integer" if code <= 6 else code, struct.unpack_from(layouts[code], data, at)[0])
    if code in (8, 9, 10):
        width = {8: 4, 9: 8, 10: 16}[code]
        unscaled = int.from_bytes(data[at + 1 : at + 1 + width], "little", signed=True)
        with decimal.localcontext(prec=60):
            return ("decimal", decimal.Decimal(unscaled).scaleb(-data[at]))
    if code in (15, 16):
        size = _number(data, at, 4)
        return ("binary" if code == 15 else "string", data[at + 4 : at + 4 + size])
    assert code == 20, f"variant scalar {code} is known"
    return ("uuid", data[at : at + 16])


def _number(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "little")
