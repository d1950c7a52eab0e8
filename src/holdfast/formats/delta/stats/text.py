"""Parses the JSON statistics of many `add` actions into Arrow columns.

Arrow's JSON reader parses texts in slices, directly from the buffer of the array. Texts that it refuses (numbers as
strings, repeated keys, other structures) are decoded one by one, together with others of their slice. So are few
texts, because that reader is slow to start.

1. One row per text, in order, with the columns of the schema; null where a text has no such value.
2. A text that is no JSON object gives nulls, and so does a value of the wrong type; neither raises.
3. A `tightBounds` that is not a boolean counts as false.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, localcontext
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from holdfast.storage.error_mapping import MALFORMED_JSON

SLICE_BYTES = 1 << 20
_WORKERS = min(8, os.cpu_count() or 1)
# Arrow's reader accepts consecutive objects, so each text must be exactly one: after a closing brace only more of the
# enclosing object may follow. A brace inside a string may match too; such a text is decoded by itself.
_SECOND_VALUE = r"\}\s*[^\s,}\]]"
_NOT_A_NUMBER = r'"-?(NaN|Infinity)"'
_FEW = 64  # texts too few to try Arrow's reader again
_FEWEST = 16  # texts too few to try Arrow's reader at all


def read_texts(texts: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    """The columns of `schema`, one row per text: structs of integers, floats, decimals, booleans and strings."""
    slices = [piece for chunk in texts.chunks for piece in _slices(chunk)]
    if len(slices) < 2:
        tables = [_read_slice(piece, schema) for piece in slices]
    else:
        with ThreadPoolExecutor(_WORKERS) as pool:
            tables = list(pool.map(lambda piece: _read_slice(piece, schema), slices))
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _slices(texts: pa.Array) -> Iterator[pa.Array]:
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4) if len(texts) else None
    start = 0
    while offsets is not None and start < len(texts):
        end = int(np.searchsorted(offsets, int(offsets[start]) + SLICE_BYTES, side="right")) - 1
        end = min(max(end, start + 1), len(texts))
        yield texts.slice(start, end - start)
        start = end


def _read_slice(texts: pa.Array, schema: pa.Schema) -> pa.Table:
    if len(texts) <= _FEWEST:
        return _decode_each(texts, schema)
    is_empty = pc.fill_null(pc.equal(pc.binary_length(texts), 0), True)
    plain = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    unsafe = f"{_SECOND_VALUE}|{_NOT_A_NUMBER}" if _has_floats(schema) else _SECOND_VALUE
    plain = pc.fill_null(pc.and_not(plain, pc.match_substring_regex(texts, unsafe)), False)
    if plain.true_count == len(texts):
        return _read_with_arrow(texts, schema)
    others = pc.invert(pc.or_(plain, is_empty))
    rows = pa.concat_tables([_read_with_arrow(texts.filter(plain), schema), _decode_each(texts.filter(others), schema)])
    indices = np.zeros(len(texts), np.int64)
    indices[plain.to_numpy(zero_copy_only=False)] = np.arange(plain.true_count)
    indices[others.to_numpy(zero_copy_only=False)] = plain.true_count + np.arange(others.true_count)
    return rows.take(pa.array(indices, mask=is_empty.to_numpy(zero_copy_only=False)))


def _read_with_arrow(texts: pa.Array, schema: pa.Schema) -> pa.Table:
    if not len(texts):
        return schema.empty_table()
    _, offset_buffer, data = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(texts) + 1, texts.offset * 4)
    start, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    try:
        table = pa.json.read_json(
            pa.BufferReader(data.slice(start, size)),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=size + 1),
            parse_options=pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        table = None
    if table is not None and table.num_rows == len(texts):
        return table
    if len(texts) <= _FEW:
        return _decode_each(texts, schema)
    middle = len(texts) // 2
    halves = texts.slice(0, middle), texts.slice(middle)
    return pa.concat_tables([_read_with_arrow(half, schema) for half in halves])


def _decode_each(texts: pa.Array, schema: pa.Schema) -> pa.Table:
    decoder = msgspec.json.Decoder(float_hook=Decimal)
    decoded = [_decoded(decoder, text) for text in texts.cast(pa.binary()).to_pylist()]
    return pa.table([_column(decoded, field) for field in schema], schema=schema)


def _decoded(decoder: msgspec.json.Decoder[Any], text: bytes | None) -> object:
    try:
        return None if text is None else decoder.decode(text)
    except MALFORMED_JSON:
        return None


def _has_floats(schema: pa.Schema | pa.DataType) -> bool:
    return any(
        _has_floats(field.type) if pa.types.is_struct(field.type) else pa.types.is_floating(field.type)
        for field in schema
    )


def _column(rows: Sequence[object], field: pa.Field) -> pa.Array:
    values = [row.get(field.name) if isinstance(row, Mapping) else None for row in rows]
    if pa.types.is_struct(field.type):
        inner = [_column(values, child) for child in field.type]
        missing = pa.array([not isinstance(value, Mapping) for value in values], pa.bool_())
        return pa.StructArray.from_arrays(inner, fields=list(field.type), mask=missing)
    read = _leaf(field)
    return pa.array([None if value is None else read(value) for value in values], field.type)


def _leaf(field: pa.Field) -> Callable[[object], object]:
    if field.name == "tightBounds":
        return lambda value: value is True
    if pa.types.is_integer(field.type):
        return _as_integer
    if pa.types.is_floating(field.type):
        return _as_float
    if pa.types.is_decimal(field.type):
        return lambda value: _as_decimal(value, field.type)
    kind = bool if pa.types.is_boolean(field.type) else str
    return lambda value: value if isinstance(value, kind) else None


def _as_integer(value: object) -> int | None:
    if isinstance(value, Decimal) and value.is_finite() and abs(value) < 2**63 and value == value.to_integral_value():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return value
    return None


def _as_float(value: object) -> float | None:
    if isinstance(value, str):
        return {"Infinity": math.inf, "-Infinity": -math.inf}.get(value)
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _as_decimal(value: object, type_: pa.DataType) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    with localcontext(prec=100):
        exact = Decimal(value)
        if not exact.is_finite() or abs(exact) >= Decimal(10) ** (type_.precision - type_.scale):
            return None
        scaled = exact.scaleb(type_.scale)
        whole = scaled.to_integral_value()
        return whole.scaleb(-type_.scale) if whole == scaled else None
