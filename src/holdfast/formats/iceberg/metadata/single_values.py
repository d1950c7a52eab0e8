"""Decodes Iceberg's single values: defaults in JSON, bounds in binary, and partition values in Avro.

1. A bound that cannot be read as its column's type (of an older, wider or unordered type) is null, never wrong.
2. Numbers, dates and times are little-endian, decimals big-endian and as short as possible, strings UTF-8.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import Damaged
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import DataType, Decimal, Primitive
from holdfast.storage.error_mapping import MALFORMED

JsonType: TypeAlias = str | Mapping[str, Any]  # a type in metadata JSON: a primitive's name, or a nested type
_WIDTHS = {  # of the bounds of a type, widest first: files from before a type promotion have the narrower one
    "int": ("<i4",),
    "long": ("<i8", "<i4"),
    "float": ("<f4",),
    "double": ("<f8", "<f4"),
    "date": ("<i4",),
    "timestamp": ("<i8",),
    "timestamptz": ("<i8",),
}


def default_value(raw: object, spelled: JsonType, type_: DataType, kind: str, *, column: str, where: str) -> object:
    """Decodes an `initial-default` or a `write-default` (the `kind`) to a value that Arrow accepts for the type."""
    try:
        value = _value(raw, spelled, kind)
        pa.scalar(value, arrow_type(type_))
    except (*MALFORMED, pa.ArrowException) as error:
        name = spelled if isinstance(spelled, str) else spelled["type"]
        raise Damaged(
            f"the {kind} {raw!r} of the column {column} in {where} is no {name}", path=where, found=repr(raw)
        ) from error
    return value


def _value(raw: Any, spelled: JsonType, kind: str) -> object:
    match spelled:
        case _ if raw is None:
            return None
        case {"type": "struct", "fields": list(fields)}:
            # The default of a struct is empty: each field has its own.
            return {f["name"]: _value(raw.get(str(f["id"]), f.get(kind)), f["type"], kind) for f in fields}
        case {"type": "list", "element": element}:
            return [_value(one, element, kind) for one in raw]
        case {"type": "map", "key": key, "value": value}:
            pairs = zip(raw["keys"], raw["values"], strict=True)
            return [(_value(k, key, kind), _value(v, value, kind)) for k, v in pairs]
        case {"type": inner}:
            return _value(raw, inner, kind)
        case "date":
            return datetime.date.fromisoformat(raw)
        case "time":
            return datetime.time.fromisoformat(raw)
        case "timestamp" | "timestamptz":
            moment = datetime.datetime.fromisoformat(raw)
            return moment.astimezone(datetime.UTC) if moment.tzinfo else moment
        case "binary":
            return bytes.fromhex(raw)
        case "uuid":
            return str(uuid.UUID(raw))
        case str() if spelled.startswith("fixed"):
            return bytes.fromhex(raw)
        case str() if spelled.startswith("decimal"):
            return decimal.Decimal(str(raw))
        case "float" | "double":
            return float(raw)
        case _:
            return raw


def decode_bounds(blobs: pa.Array, spelled: str, type_: DataType) -> pa.Array:
    """Decodes bounds to values of a column's type; `spelled` is the type as Iceberg spells it."""
    target = arrow_type(type_)
    if spelled in _WIDTHS:
        return _numbers(blobs, _WIDTHS[spelled], target)
    if isinstance(type_, Decimal):
        return _decimals(blobs, type_)
    if spelled == "string":
        with suppress(pa.ArrowInvalid):
            return blobs.cast(pa.string())
    return pa.nulls(len(blobs), target)


def decode_partition_values(raw: pa.Array, spelled: str, type_: DataType) -> pa.Array:
    """Converts partition values from their Avro type to the type of the partition field."""
    target = arrow_type(type_)
    if raw.type == target:
        return raw
    if pa.types.is_null(raw.type):
        return pa.nulls(len(raw), target)
    if isinstance(type_, Decimal):
        return _decimals(raw, type_)
    if spelled == "uuid" and pa.types.is_binary(raw.type):
        texts = [None if blob is None else str(uuid.UUID(bytes=blob)) for blob in raw.to_pylist()]
        return pa.array(texts, pa.string())
    match type_:
        case Primitive("date"):
            return raw.cast(pa.int32()).cast(target)
        case Primitive("timestamp" | "timestamp_ntz"):
            return raw.cast(pa.int64()).view(target)
        case Primitive("time"):
            return raw.cast(pa.int64()).view(pa.time64("us")).cast(target)
        case _:
            return raw.cast(target)


def _numbers(blobs: pa.Array, widths: tuple[str, ...], target: pa.DataType) -> pa.Array:
    widest = np.dtype(widths[0])
    values = np.zeros(len(blobs), widest)
    decoded = np.zeros(len(blobs), np.bool_)
    lengths = pc.fill_null(pc.binary_length(blobs), -1).to_numpy(zero_copy_only=False)
    for width in widths:
        dtype = np.dtype(width)
        chosen = lengths == dtype.itemsize
        if chosen.any():
            values[chosen] = _matrix(blobs, chosen, dtype.itemsize).view(dtype).ravel()
            decoded |= chosen
    plain = pa.array(values, mask=~decoded)
    if pa.types.is_date(target):
        return plain.cast(target)
    return plain.view(target) if pa.types.is_timestamp(target) else plain.cast(target)


def _decimals(blobs: pa.Array, type_: Decimal) -> pa.Array:
    """Decodes big-endian integers of up to 16 bytes: right-aligned, and filled with their sign."""
    padded = np.zeros((len(blobs), 16), np.uint8)
    decoded = np.zeros(len(blobs), np.bool_)
    lengths = pc.fill_null(pc.binary_length(blobs), 0).to_numpy(zero_copy_only=False)
    for length in np.unique(lengths[(lengths > 0) & (lengths <= 16)]).tolist():
        chosen = lengths == length
        digits = _matrix(blobs, chosen, length)
        padded[chosen] = np.where(digits[:, :1] & 0x80, 0xFF, 0)
        padded[np.flatnonzero(chosen)[:, None], np.arange(16 - length, 16)[None, :]] = digits
        decoded |= chosen
    validity = pa.py_buffer(np.packbits(decoded, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(padded[:, ::-1]))
    return pa.Array.from_buffers(pa.decimal128(type_.precision, type_.scale), len(blobs), [validity, data])


def _matrix(blobs: pa.Array, chosen: NDArray[np.bool_], width: int) -> NDArray[np.uint8]:
    """The bytes of the chosen blobs, all of one width, as rows of a matrix."""
    _, offsets, data = blobs.buffers()
    starts = np.frombuffer(offsets, np.int32)[blobs.offset : blobs.offset + len(blobs)][chosen]
    raw = np.frombuffer(data, np.uint8)
    return np.ascontiguousarray(raw[starts.astype(np.int64)[:, None] + np.arange(width)[None, :]])
