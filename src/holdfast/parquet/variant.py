"""Reassembles shredded variants, which a file stores partly as typed columns, into their plain encoding.

A shredded variant has, beside its `value`, a `typed_value` for values of the expected type. Fields of a shredded object
are shredded variants themselves. The metadata stays as it is: it lists every field name, shredded or not.

1. A typed value that is present wins; beside a typed object, `value` holds only the fields that are not typed.
2. A field is absent when both its parts are null; anywhere else that means the variant null.
3. Reassembly loops over columns, and within a column over values.
4. Metadata or a value whose counts or offsets point outside of its bytes is Damaged.
"""

from __future__ import annotations

import decimal
import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from holdfast.errors import Damaged, Unsupported
from holdfast.schema.arrow import is_list
from holdfast.storage.arrays import plain_array

NULL = b"\x00"
_OBJECT, _ARRAY = 2, 3
_DECIMALS = ((9, 8, 4), (18, 9, 8), (38, 10, 16))  # precision, type id, bytes


def is_shredded(stored: pa.StructArray) -> bool:
    return bool(stored.type.get_field_index("typed_value") >= 0)


def unshredded(stored: pa.StructArray, *, where: str) -> tuple[pa.Array, pa.Array]:
    """The plain `value` and `metadata` of a shredded column; `where` names it in errors."""
    metadata = _part(stored, "metadata")
    if metadata is None:
        raise Damaged(f"the variant {where} has no metadata", path=where)
    names = [m or b"" for m in metadata.to_pylist()]
    nulls = stored.is_null().to_pylist()
    assembled = _assemble(names, stored, where)
    values = [b"" if is_null else value or NULL for is_null, value in zip(nulls, assembled, strict=True)]
    return pa.array(values, pa.binary()), pa.array(names, pa.binary())


def _assemble(metadata: Sequence[bytes], stored: pa.StructArray, where: str) -> list[bytes | None]:
    """The encoding of each value of a `value`, `typed_value` pair; None where it is absent."""
    value = _part(stored, "value")
    typed = _part(stored, "typed_value")
    rest: list[bytes | None] = [None] * len(stored) if value is None else value.to_pylist()
    if typed is None:
        return rest
    kind = typed.type
    if pa.types.is_struct(kind):
        return _objects(metadata, rest, typed, where)
    encoded = _arrays(metadata, typed, where) if is_list(kind) else _scalars(typed, where)
    return [plain if encoding is None else encoding for encoding, plain in zip(encoded, rest, strict=True)]


def _objects(
    metadata: Sequence[bytes], rest: Sequence[bytes | None], typed: pa.StructArray, where: str
) -> list[bytes | None]:
    names = [field.name for field in typed.type.fields]
    parts = [_assemble(metadata, plain_array(typed.field(i)), f"{where}.{name}") for i, name in enumerate(names)]
    present = typed.is_valid().to_pylist()
    numbers = {listed: _ids(listed, where) for listed in set(metadata)}
    encodings: list[bytes | None] = []
    for row, plain in enumerate(rest):
        if not present[row]:
            encodings.append(plain)
            continue
        fields = [(name, part) for name, column in zip(names, parts, strict=True) if (part := column[row]) is not None]
        if plain is not None:
            fields += [f for f in _fields_of(plain, numbers[metadata[row]], where) if f[0] not in names]
        encodings.append(_object(fields, numbers[metadata[row]], where))
    return encodings


def _arrays(metadata: Sequence[bytes], typed: pa.Array, where: str) -> list[bytes | None]:
    listed = typed.cast(pa.large_list(typed.type.value_field))
    offsets = np.asarray(listed.offsets)
    owners = np.repeat(np.arange(len(listed)), np.diff(offsets)).tolist()
    inside = listed.values.slice(offsets[0], offsets[-1] - offsets[0])
    elements = _assemble([metadata[row] for row in owners], plain_array(inside), where)
    bounds = (offsets - offsets[0]).tolist()
    return [
        _array([element or NULL for element in elements[start:stop]]) if valid else None
        for start, stop, valid in zip(bounds, bounds[1:], listed.is_valid().to_pylist(), strict=False)
    ]


def _scalars(typed: pa.Array, where: str) -> list[bytes | None]:
    kind = typed.type
    if pa.types.is_boolean(kind):
        return [None if v is None else _primitive(1 if v else 2) for v in typed.to_pylist()]
    if pa.types.is_integer(kind):
        return [None if v is None else _integer(v) for v in typed.to_pylist()]
    if pa.types.is_floating(kind):
        code, layout = (14, "<f") if kind == pa.float32() else (7, "<d")
        return [None if v is None else _primitive(code) + struct.pack(layout, v) for v in typed.to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if v is None else _decimal(v) for v in typed.to_pylist()]
    if pa.types.is_date(kind):
        days = typed.cast(pa.date32()).cast(pa.int32()).to_pylist()
        return [None if v is None else _primitive(11) + struct.pack("<i", v) for v in days]
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        code = _clock(kind, where)
        ticks = typed.cast(pa.int64()).to_pylist()
        return [None if v is None else _primitive(code) + struct.pack("<q", v) for v in ticks]
    if kind in (pa.string(), pa.large_string()):
        return [None if v is None else _string(v) for v in typed.cast(pa.binary()).to_pylist()]
    if kind == pa.binary(16):
        return [None if v is None else _primitive(20) + v for v in typed.to_pylist()]
    if kind in (pa.binary(), pa.large_binary()):
        return [None if v is None else _primitive(15) + struct.pack("<I", len(v)) + v for v in typed.to_pylist()]
    raise Unsupported(f"the variant {where} is shredded as {kind}, which Holdfast does not put together")


def _clock(kind: pa.DataType, where: str) -> int:
    if kind == pa.time64("us"):
        return 17
    codes = {("us", True): 12, ("us", False): 13, ("ns", True): 18, ("ns", False): 19}
    code = codes.get((kind.unit, getattr(kind, "tz", None) is not None)) if pa.types.is_timestamp(kind) else None
    if code is None:
        raise Unsupported(f"the variant {where} is shredded as {kind}, which Holdfast does not put together")
    return code


def _primitive(code: int) -> bytes:
    return bytes([code << 2])


def _integer(value: int) -> bytes:
    for code, layout, bits in ((3, "<b", 7), (4, "<h", 15), (5, "<i", 31)):
        if -(1 << bits) <= value < 1 << bits:
            return _primitive(code) + struct.pack(layout, value)
    return _primitive(6) + struct.pack("<q", value)


def _decimal(value: decimal.Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "Arrow's decimals are finite"
    unscaled = int("".join(map(str, digits)))
    for precision, code, width in _DECIMALS:
        if len(digits) <= precision and -exponent <= precision:
            number = (-unscaled if sign else unscaled).to_bytes(width, "little", signed=True)
            return _primitive(code) + bytes([-exponent]) + number
    raise AssertionError("a decimal of Arrow's 128 bits has at most 38 digits")


def _string(value: bytes) -> bytes:
    if len(value) < 64:
        return bytes([len(value) << 2 | 1]) + value
    return _primitive(16) + struct.pack("<I", len(value)) + value


def _object(fields: list[tuple[str, bytes]], ids: dict[str, int], where: str) -> bytes:
    """Encodes an object: values in the given order, ids and offsets in the order of the names."""
    missing = [name for name, _ in fields if name not in ids]
    if missing:
        raise Damaged(f"the metadata of the variant {where} lacks its field {missing[0]!r}", path=where)
    starts: dict[str, int] = {}
    at = 0
    for name, value in fields:
        starts[name] = at
        at += len(value)
    ordered = sorted(starts, key=lambda name: name.encode())
    id_width = _width(max((ids[name] for name in ordered), default=0))
    offset_width = _width(at)
    large = len(ordered) > 255
    header = (large << 4 | (id_width - 1) << 2 | (offset_width - 1)) << 2 | _OBJECT
    return b"".join(
        (
            bytes([header]),
            len(ordered).to_bytes(4 if large else 1, "little"),
            *(ids[name].to_bytes(id_width, "little") for name in ordered),
            *(starts[name].to_bytes(offset_width, "little") for name in ordered),
            at.to_bytes(offset_width, "little"),
            *(value for _, value in fields),
        )
    )


def _array(elements: list[bytes]) -> bytes:
    ends = [0]
    for element in elements:
        ends.append(ends[-1] + len(element))
    width = _width(ends[-1])
    large = len(elements) > 255
    header = (large << 2 | (width - 1)) << 2 | _ARRAY
    count = len(elements).to_bytes(4 if large else 1, "little")
    return b"".join((bytes([header]), count, *(end.to_bytes(width, "little") for end in ends), *elements))


def _fields_of(value: bytes, known: dict[str, int], where: str) -> Iterator[tuple[str, bytes]]:
    """The fields of an encoded object, in the order of their names."""
    if not value or value[0] & 3 != _OBJECT:
        raise Damaged(f"the variant {where} has typed fields beside a value that is no object", path=where)
    header = value[0] >> 2
    offset_width, id_width = (header & 3) + 1, (header >> 2 & 3) + 1
    ids_at = 5 if header >> 4 & 1 else 2
    count = int.from_bytes(value[1:ids_at], "little")
    offsets_at = ids_at + count * id_width
    data_at = offsets_at + (count + 1) * offset_width
    ids = _numbers(value, ids_at, count, id_width, where)
    starts = _numbers(value, offsets_at, count + 1, offset_width, where)
    if max(starts[:-1], default=-1) >= starts[-1] or data_at + starts[-1] > len(value):
        raise Damaged(f"the variant {where} has a field that lies outside of it", path=where)
    following = dict(pairwise(sorted(starts)))
    names = {number: name for name, number in known.items()}
    for number, start in zip(ids, starts, strict=False):
        if number not in names:
            raise Damaged(f"the metadata of the variant {where} lacks its field number {number}", path=where)
        yield names[number], value[data_at + start : data_at + following[start]]


def _ids(metadata: bytes, where: str) -> dict[str, int]:
    """The number of each field name."""
    if not metadata:
        return {}
    width = (metadata[0] >> 6) + 1
    count = int.from_bytes(metadata[1 : 1 + width], "little")
    offsets = _numbers(metadata, 1 + width, count + 1, width, where)
    names = metadata[1 + width * (count + 2) :]
    if offsets[0] != 0 or offsets[-1] > len(names) or any(a > b for a, b in pairwise(offsets)):
        raise Damaged(f"the metadata of the variant {where} has names that lie outside of it", path=where)
    try:
        return {names[a:b].decode(): n for n, (a, b) in enumerate(pairwise(offsets))}
    except UnicodeDecodeError as error:
        raise Damaged(f"the metadata of the variant {where} has a name that is not UTF-8", path=where) from error


def _numbers(data: bytes, at: int, count: int, width: int, where: str) -> list[int]:
    if at + count * width > len(data):
        raise Damaged(f"the variant {where} speaks of {count} numbers where it has {len(data)} bytes", path=where)
    return [int.from_bytes(data[i : i + width], "little") for i in range(at, at + count * width, width)]


def _width(largest: int) -> int:
    return max(1, (largest.bit_length() + 7) // 8)


def _part(stored: pa.StructArray, name: str) -> pa.Array | None:
    index = stored.type.get_field_index(name)
    return None if index < 0 else plain_array(stored.field(index))
