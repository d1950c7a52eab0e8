"""Iceberg's single values: defaults as JSON, bounds as bytes, partition values as Avro left them.

1. A bound that cannot be read as its column's type (an older, wider or unordered type) is not known: null, never wrong.
2. Numbers, dates and times are little-endian, decimals big-endian and as short as they can be, texts UTF-8.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import Damaged
from holdfast.schema.arrow import arrow_type
from holdfast.schema.types import DataType, Decimal, Primitive
from holdfast.storage.error_mapping import MALFORMED

_WIDTHS = {  # of a type's bounds, widest first: files older than a promotion have the narrower one
    "int": ("<i4",),
    "long": ("<i8", "<i4"),
    "float": ("<f4",),
    "double": ("<f8", "<f4"),
    "date": ("<i4",),
    "timestamp": ("<i8",),
    "timestamptz": ("<i8",),
}


def default_value(raw: Any, spelled: Any, type_: DataType, kind: str, *, column: str, where: str) -> Any:
    """A default, as what Arrow takes for a value of its column's type; `kind` says which of its two defaults."""
    try:
        value = _value(raw, spelled, kind)
        pa.scalar(value, arrow_type(type_))
    except (*MALFORMED, pa.ArrowException) as error:
        raise Damaged(
            f"the {kind} {raw!r} of the column {column} in {where} is no {_shown(spelled)}", path=where, found=repr(raw)
        ) from error
    return value


def _value(raw: Any, spelled: Any, kind: str) -> Any:
    match spelled:
        case _ if raw is None:
            return None
        case {"type": "struct", "fields": fields}:
            # Only an empty struct is a default: each field then has its own.
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


def _shown(spelled: Any) -> Any:
    return spelled["type"] if isinstance(spelled, dict) else spelled


def decode_bounds(blobs: pa.Array, spelled: str, type_: DataType) -> pa.Array:
    """Bounds as values of a column's type; `spelled` is the type in Iceberg's word."""
    target = arrow_type(type_)
    if spelled in _WIDTHS:
        return _numbers(blobs, _WIDTHS[spelled], target)
    if isinstance(type_, Decimal):
        return _decimals(blobs, type_)
    if spelled == "string":
        try:
            return blobs.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.nulls(len(blobs), target)
    return pa.nulls(len(blobs), target)


def decode_partition_values(raw: pa.Array, spelled: str, type_: DataType) -> pa.Array:
    """Partition values as Avro holds them, as values of their type."""
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
    known = np.zeros(len(blobs), np.bool_)
    lengths = pc.fill_null(pc.binary_length(blobs), -1).to_numpy(zero_copy_only=False)
    for width in widths:
        dtype = np.dtype(width)
        chosen = lengths == dtype.itemsize
        if chosen.any():
            values[chosen] = _matrix(blobs, chosen, dtype.itemsize).view(dtype).ravel()
            known |= chosen
    plain = pa.array(values, mask=~known)
    if pa.types.is_date(target):
        return plain.cast(target)
    return plain.view(target) if pa.types.is_timestamp(target) else plain.cast(target)


def _decimals(blobs: pa.Array, type_: Decimal) -> pa.Array:
    """Big-endian numbers of up to 16 bytes, put into place from the right and filled with their sign."""
    made = np.zeros((len(blobs), 16), np.uint8)
    known = np.zeros(len(blobs), np.bool_)
    lengths = pc.fill_null(pc.binary_length(blobs), 0).to_numpy(zero_copy_only=False)
    for length in np.unique(lengths[(lengths > 0) & (lengths <= 16)]).tolist():
        chosen = lengths == length
        digits = _matrix(blobs, chosen, length)
        made[chosen] = np.where(digits[:, :1] & 0x80, 0xFF, 0)
        made[np.flatnonzero(chosen)[:, None], np.arange(16 - length, 16)[None, :]] = digits
        known |= chosen
    validity = pa.py_buffer(np.packbits(known, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(made[:, ::-1]))
    return pa.Array.from_buffers(pa.decimal128(type_.precision, type_.scale), len(blobs), [validity, data])


def _matrix(blobs: pa.Array, chosen: NDArray[np.bool_], width: int) -> NDArray[np.uint8]:
    """The bytes of the chosen blobs, all of one width, a row each."""
    _, offsets, data = blobs.buffers()
    starts = np.frombuffer(offsets, np.int32)[blobs.offset : blobs.offset + len(blobs)][chosen]
    letters = np.frombuffer(data, np.uint8)
    return np.ascontiguousarray(letters[starts.astype(np.int64)[:, None] + np.arange(width)[None, :]])
