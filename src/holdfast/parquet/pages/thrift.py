"""Reads and writes Thrift's compact protocol, in which Parquet stores footers, page headers and page indexes.

1. A record is read into its fields by number; unknown numbers are kept.
2. Malformed bytes raise ValueError or IndexError; nothing is read beyond the given bytes.
3. A count larger than the bytes that follow raises ValueError, so that time and memory are in proportion to the bytes.
4. Written records are canonical: fields in ascending order, numbers in their shortest form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
_UUID = 13
_DEEPEST = 32  # no record of Parquet is deeper; a crafted one must not exhaust the stack

Value: TypeAlias = "int | bool | bytes | list[Value] | dict[int, Value]"


def record(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Value], int]:
    """The fields of the record at an offset, and where it ends; maps and doubles are returned as bytes."""
    if depth > _DEEPEST:
        raise ValueError("a record is too deep")
    fields: dict[int, Value] = {}
    number = 0
    while True:
        number, kind, at = _header(data, at, number)
        if not kind:
            return fields, at
        fields[number], at = _value(data, at, kind, depth)


def spans(data: bytes, at: int) -> tuple[list[tuple[int, int, int]], int]:
    """The number, start and end of each field's value in a record, and where the record ends."""
    fields: list[tuple[int, int, int]] = []
    number = 0
    while True:
        number, kind, at = _header(data, at, number)
        if not kind:
            return fields, at
        end = skip(data, at, kind)
        fields.append((number, at, end))
        at = end


def skip(data: bytes, at: int, kind: int, depth: int = 0) -> int:
    """Where a value ends."""
    if depth > _DEEPEST:
        raise ValueError("a record is too deep")
    if kind in (I16, I32, I64):
        while data[at] & 0x80:
            at += 1
        return at + 1
    if kind == STRUCT:
        number = 0
        while True:
            number, inner, at = _header(data, at, number)
            if not inner:
                return at
            at = skip(data, at, inner, depth + 1)
    if kind in (LIST, SET):
        count, inner, at = sequence_header(data, at)
        for _ in range(count):
            at = at + 1 if inner in (TRUE, FALSE) else skip(data, at, inner, depth + 1)
        return at
    return _value(data, at, kind, depth)[1]


def sequence_header(data: bytes, at: int) -> tuple[int, int, int]:
    """The number and kind of a list's values, and the offset of the first one."""
    count, kind, at = data[at] >> 4, data[at] & 0x0F, at + 1
    if count == 15:
        count, at = varint(data, at)
    if count > len(data) - at:  # a value has one byte at least
        raise ValueError("a list is longer than what holds it")
    return count, kind, at


def varints(data: NDArray[np.uint8], at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The signed numbers at many offsets, and the offsets behind them."""
    value = np.zeros(len(at), np.uint64)
    at = at.copy()
    going = np.arange(len(at))
    for shift in range(0, 70, 7):
        byte = data[at[going]]
        value[going] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(shift)
        at[going] += 1
        going = going[byte >= 0x80]
        if not len(going):
            return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64), at
    raise ValueError("a number is too long")


def number(value: int) -> bytes:
    """A signed number."""
    return unsigned(value << 1 if value >= 0 else (-value << 1) - 1)


def unsigned(value: int) -> bytes:
    """An unsigned number."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def sequence(kind: int, values: Iterable[bytes]) -> bytes:
    """A list of encoded values."""
    encoded = list(values)
    few = len(encoded) < 15
    head = bytes([len(encoded) << 4 | kind]) if few else bytes([0xF0 | kind]) + unsigned(len(encoded))
    return head + b"".join(encoded)


def struct(*fields: tuple[int, int, bytes]) -> bytes:
    """A record of fields (number, kind, encoded value) in ascending order, none 16 or more after another."""
    out = bytearray()
    last = 0
    for at, kind, encoded in fields:
        out.append(at - last << 4 | kind)
        out += encoded
        last = at
    out.append(0)
    return bytes(out)


def _header(data: bytes, at: int, last: int) -> tuple[int, int, int]:
    """The number of a field, its kind (0 where the record ends), and the offset of its value."""
    byte = data[at]
    if not byte:
        return 0, 0, at + 1
    step, kind = byte >> 4, byte & 0x0F
    if step:
        return last + step, kind, at + 1
    number, at = signed(data, at + 1)
    return number, kind, at


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Value, int]:
    if kind in (TRUE, FALSE):
        return kind == TRUE, at
    if kind in (I16, I32, I64):
        return signed(data, at)
    if kind == STRUCT:
        return record(data, at, depth + 1)
    if kind in (LIST, SET):
        return _list(data, at, depth)
    if kind == BINARY:
        length, at = varint(data, at)
        return _bytes(data, at, length)
    if kind == MAP:
        return _map(data, at, depth)
    width = {BYTE: 1, DOUBLE: 8, _UUID: 16}.get(kind)
    if width is None:
        raise ValueError(f"there is no kind {kind} of value")
    return _bytes(data, at, width)


def _list(data: bytes, at: int, depth: int) -> tuple[list[Value], int]:
    count, kind, at = sequence_header(data, at)
    values: list[Value] = []
    for _ in range(count):
        value, at = (data[at] == TRUE, at + 1) if kind in (TRUE, FALSE) else _value(data, at, kind, depth + 1)
        values.append(value)
    return values, at


def _map(data: bytes, start: int, depth: int) -> tuple[bytes, int]:
    count, at = varint(data, start)
    if not count:
        return data[start:at], at
    kinds, at = (data[at] >> 4, data[at] & 0x0F), at + 1
    if count > (len(data) - at) // 2:  # a key and a value have one byte each at least
        raise ValueError("a map is longer than what holds it")
    for _ in range(count):
        for kind in kinds:
            at = at + 1 if kind in (TRUE, FALSE) else skip(data, at, kind, depth + 1)
    return data[start:at], at


def _bytes(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    if length > len(data) - at:
        raise ValueError("a text is longer than what holds it")
    return data[at : at + length], at + length


def signed(data: bytes, at: int) -> tuple[int, int]:
    """The signed number at an offset, and the offset behind it."""
    value, at = varint(data, at)
    return value >> 1 ^ -(value & 1), at


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned number at an offset, and the offset behind it."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return byte, at
    value, shift = byte & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")
