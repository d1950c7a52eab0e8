"""Avro object containers as Arrow columns: manifests and manifest lists, whatever their writer put into them.

Fields are decoded one after another by pyiceberg's compiled decoder and land in columns at once, so that a manifest of
many files never becomes an object per file. A field nobody asked for is stepped over.

1. A column has a value per record, in the order of the file; what the writer's schema lacks is absent from the result.
2. Fields are known by their names, and carry the field ids of the writer's schema where it has some.
3. Bytes that are no Avro, or end too early, are Damaged and name the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from holdfast.errors import Damaged, Unsupported
from holdfast.iceberg.extra import Decoder, new_decoder

FIELD_ID = b"field-id"
_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16

_Read: TypeAlias = Callable[[Decoder], None]


@dataclass(frozen=True)
class Container:
    """What an object container holds: the writer's notes, and its records as a struct array."""

    notes: Mapping[str, bytes]
    records: pa.StructArray


def read_container(data: bytes, *, wanted: Collection[str] | None = None, where: str) -> Container:
    """The records of a file. `wanted` are names of fields to decode, with all that is inside them; None: all."""
    if data[:4] != _MAGIC:
        raise Damaged(f"{where} is no Avro file; restore it", path=where, expected=repr(_MAGIC), found=repr(data[:4]))
    try:
        return _read(data, wanted, where)
    except (
        EOFError,
        IndexError,
        zlib.error,
        UnicodeDecodeError,
        msgspec.DecodeError,
        OverflowError,
        KeyError,
    ) as error:
        raise Damaged(f"{where} cannot be read as Avro: {error!r}; restore it", path=where) from error


def _read(data: bytes, wanted: Collection[str] | None, where: str) -> Container:
    decoder = new_decoder(data)
    decoder.skip(len(_MAGIC))
    notes = _notes(decoder)
    decoder.skip(_SYNC_BYTES)
    unpack = _codec(notes.get("avro.codec", b"null").decode(), where)
    column = _column(msgspec.json.decode(notes["avro.schema"]), wanted, where)
    count = 0
    while decoder.tell() < len(data):
        records, packed = decoder.read_int(), decoder.read_bytes()
        decoder.skip(_SYNC_BYTES)
        inside = new_decoder(unpack(packed))
        for _ in range(records):
            column.read(inside)
        count += records
    made = column.made(count)
    if not isinstance(made, pa.StructArray):
        raise Damaged(f"{where} holds {made.type}, not records", path=where)
    return Container(notes, made)


def _notes(decoder: Decoder) -> dict[str, bytes]:
    notes = {}
    while count := decoder.read_int():
        if count < 0:
            count = -count
            decoder.read_int()
        for _ in range(count):
            name = decoder.read_utf8()
            notes[name] = decoder.read_bytes()
    return notes


def _codec(name: str, where: str) -> Callable[[bytes], bytes]:
    match name:
        case "null":
            return lambda packed: packed
        case "deflate":
            return lambda packed: zlib.decompress(packed, -15)
        case "zstandard":
            return lambda packed: bytes(pa.input_stream(pa.BufferReader(packed), compression="zstd").read())
        case "snappy":
            return lambda packed: _unsnapped(packed[:-4])
        case _:
            raise Unsupported(f"{where} is compressed by {name!r}, which Holdfast does not read")


def _unsnapped(packed: bytes) -> bytes:
    """Raw snappy says its own size first, as a varint; the CRC after it is cut off already."""
    size = shift = 0
    for byte in packed:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return bytes(pa.Codec("snappy").decompress(packed, decompressed_size=size))


class _Column(Protocol):
    """Where the values of one field go."""

    read: _Read

    def made(self, count: int) -> pa.Array:
        """The values read, of which there are `count`."""

    def null(self) -> None:
        """Take a null."""


def _column(schema: Any, wanted: Collection[str] | None, where: str) -> _Column:
    nullable, inner = _unwrapped(schema, where)
    column = _plain(inner, wanted, where)
    return _Nullable(column, null_first=schema[0] == "null") if nullable else column


def _unwrapped(schema: Any, where: str) -> tuple[bool, Any]:
    if not isinstance(schema, list):
        return False, schema
    others = [s for s in schema if s != "null"]
    if len(schema) != 2 or len(others) != 1:
        raise Unsupported(f"{where} has a field that is one of {len(schema)} types, which no manifest has")
    return True, others[0]


def _plain(schema: Any, wanted: Collection[str] | None, where: str) -> _Column:
    kind = schema["type"] if isinstance(schema, dict) else schema
    if isinstance(kind, dict | list):
        return _column(kind, wanted, where)
    match kind:
        case "int" | "long":
            return _Values(pa.int64(), lambda d: d.read_int())
        case "string":
            return _Values(pa.string(), lambda d: d.read_utf8())
        case "bytes":
            return _Values(pa.binary(), lambda d: d.read_bytes())
        case "boolean":
            return _Values(pa.bool_(), lambda d: d.read_boolean())
        case "float":
            return _Values(pa.float32(), lambda d: d.read_float())
        case "double":
            return _Values(pa.float64(), lambda d: d.read_double())
        case "fixed":
            size = schema["size"]
            return _Values(pa.binary(), lambda d: d.read(size))
        case "record":
            return _Record(schema["fields"], wanted, where)
        case "array":
            return _array(schema["items"], where)
        case "map":
            pair = [{"name": "key", "type": "string"}, {"name": "value", "type": schema["values"]}]
            return _List(_Record(pair, None, where))
        case _:
            raise Unsupported(f"{where} has a field of type {kind!r}, which no manifest has")


def _array(items: Any, where: str) -> _Column:
    if isinstance(items, dict) and items.get("type") == "record":
        types = [f["type"] for f in items["fields"]]
        names = [f["name"] for f in items["fields"]]
        if names == ["key", "value"] and types == ["int", "long"]:
            return _Numbers(2)
        if names == ["key", "value"] and types == ["int", "bytes"]:
            return _Blobs()
    if items in ("int", "long"):
        return _Numbers(1)
    return _List(_column(items, None, where))


class _Values:
    """Single values."""

    def __init__(self, type_: pa.DataType, take: Callable[[Decoder], Any]) -> None:
        values: list[Any] = []
        add = values.append

        def read(decoder: Decoder) -> None:
            add(take(decoder))

        self.read: _Read = read
        self._values, self._type = values, type_

    def null(self) -> None:
        self._values.append(None)

    def made(self, count: int) -> pa.Array:
        return pa.array(self._values, self._type)


class _Nullable:
    """Values of which each says first whether it is there."""

    def __init__(self, inner: _Column, *, null_first: bool) -> None:
        there, take, null = int(null_first), inner.read, inner.null

        def read(decoder: Decoder) -> None:
            if decoder.read_int() == there:
                take(decoder)
            else:
                null()

        self.read: _Read = read
        self._inner = inner

    def null(self) -> None:
        self._inner.null()

    def made(self, count: int) -> pa.Array:
        return self._inner.made(count)


class _Record:
    """Records: a column per field that is wanted."""

    def __init__(self, fields: list[dict[str, Any]], wanted: Collection[str] | None, where: str) -> None:
        self._kept: list[tuple[dict[str, Any], _Column]] = []
        reads: list[_Read] = []
        for f in fields:
            kept = _is_wanted(f, wanted)
            if not kept and (skip := _skip(f["type"])) is not None:
                reads.append(skip)
                continue
            column = _column(f["type"], None if wanted is None or f["name"] in wanted else wanted, where)
            reads.append(column.read)
            if kept:
                self._kept.append((f, column))
        self._present: list[bool] = []
        present = self._present.append

        def read(decoder: Decoder) -> None:
            for each in reads:
                each(decoder)
            present(True)

        self.read: _Read = read

    def null(self) -> None:
        for _, column in self._kept:
            column.null()
        self._present.append(False)

    def made(self, count: int) -> pa.Array:
        arrays = [c.made(count) for _, c in self._kept]
        fields = [_field(f["name"], f.get("field-id"), a.type) for (f, _), a in zip(self._kept, arrays, strict=True)]
        absent = ~np.array(self._present, np.bool_)
        if not arrays:
            return pa.Array.from_buffers(pa.struct([]), count, [None])
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=pa.array(absent) if absent.any() else None)


@lru_cache(maxsize=4096)
def _field(name: str, field_id: int | None, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, metadata=None if field_id is None else {FIELD_ID: str(field_id).encode()})


def _is_wanted(field: Mapping[str, Any], wanted: Collection[str] | None) -> bool:
    """Records are looked into, whatever their names, those that may be null too, as BigQuery has them."""
    inner = field["type"]
    if isinstance(inner, list):
        inner = next((one for one in inner if one != "null"), None)
    return wanted is None or field["name"] in wanted or (isinstance(inner, dict) and inner.get("type") == "record")


def _skip(schema: Any) -> _Read | None:
    """A way to step over a field, where that is quicker than reading it."""
    if isinstance(schema, list) and len(schema) == 2 and schema[0] == "null" and (inner := _skip(schema[1])):

        def maybe(decoder: Decoder) -> None:
            if decoder.read_int():
                inner(decoder)

        return maybe
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "int" | "long":
            return lambda d: d.skip_int()
        case "string" | "bytes":
            return lambda d: d.skip_bytes()
        case "array":
            items = schema["items"]
            fields = items["fields"] if isinstance(items, dict) and items.get("type") == "record" else []
            types = [f["type"] for f in fields] or [items]
            if all(t in ("int", "long") for t in types):
                return _skip_numbers(len(types))
    return None


def _skip_numbers(per: int) -> _Read:
    def skip(decoder: Decoder) -> None:
        while count := decoder.read_int():
            if count < 0:
                decoder.skip(decoder.read_int())
            else:
                decoder.read_ints(count * per)

    return skip


class _Numbers:
    """Lists of whole numbers, or of pairs of them."""

    def __init__(self, per: int) -> None:
        flat: list[int] = []
        ends: list[int] = [0]
        extend, end = flat.extend, ends.append

        def read(decoder: Decoder) -> None:
            while count := decoder.read_int():
                if count < 0:
                    count = -count
                    decoder.skip_int()
                extend(decoder.read_ints(count * per))
            end(len(flat))

        self.read: _Read = read
        self._per, self._flat, self._ends = per, flat, ends
        self._absent: list[int] = []

    def null(self) -> None:
        self._absent.append(len(self._ends) - 1)
        self._ends.append(self._ends[-1])

    def made(self, count: int) -> pa.Array:
        flat = np.array(self._flat, np.int64)
        if self._per == 1:
            return _lists(self._ends, pa.array(flat), self._absent)
        inside = pa.StructArray.from_arrays([pa.array(flat[0::2]), pa.array(flat[1::2])], ["key", "value"])
        return _lists([at // 2 for at in self._ends], inside, self._absent)


class _Blobs:
    """Lists of pairs of a number and some bytes."""

    def __init__(self) -> None:
        keys: list[int] = []
        values: list[bytes] = []
        ends: list[int] = [0]
        add_keys, add_values, end = keys.extend, values.extend, ends.append

        def read(decoder: Decoder) -> None:
            while count := decoder.read_int():
                if count < 0:
                    count = -count
                    decoder.skip_int()
                pairs: dict[int, bytes] = {}
                decoder.read_int_bytes_dict(count, pairs)
                add_keys(pairs)
                add_values(pairs.values())
            end(len(keys))

        self.read: _Read = read
        self._keys, self._values, self._ends = keys, values, ends
        self._absent: list[int] = []

    def null(self) -> None:
        self._absent.append(len(self._ends) - 1)
        self._ends.append(self._ends[-1])

    def made(self, count: int) -> pa.Array:
        keys = pa.array(np.array(self._keys, np.int64))
        inside = pa.StructArray.from_arrays([keys, pa.array(self._values, pa.binary())], ["key", "value"])
        return _lists(self._ends, inside, self._absent)


class _List:
    """Lists of anything else."""

    def __init__(self, inner: _Column) -> None:
        ends: list[int] = [0]
        self._inner, self._ends = inner, ends
        self._absent: list[int] = []
        take, end = inner.read, ends.append

        def read(decoder: Decoder) -> None:
            size = ends[-1]
            while count := decoder.read_int():
                if count < 0:
                    count = -count
                    decoder.skip_int()
                for _ in range(count):
                    take(decoder)
                size += count
            end(size)

        self.read: _Read = read

    def null(self) -> None:
        self._absent.append(len(self._ends) - 1)
        self._ends.append(self._ends[-1])

    def made(self, count: int) -> pa.Array:
        return _lists(self._ends, self._inner.made(self._ends[-1]), self._absent)


def _lists(ends: list[int], inside: pa.Array, absent: list[int]) -> pa.ListArray:
    mask = None
    if absent:
        gone = np.zeros(len(ends) - 1, np.bool_)
        gone[absent] = True
        mask = pa.array(gone)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), inside, mask=mask)
