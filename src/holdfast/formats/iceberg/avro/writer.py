"""Writes Avro object container files: manifests and manifest lists, as every Iceberg reader accepts them.

1. A record is a mapping by field names; a field that it lacks is null, where the schema allows it.
2. The schema is compiled once, so that a record costs no more than its values.
3. Blocks hold up to `BLOCK_RECORDS` records, deflated; the caller gives the sync marker.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeAlias

BLOCK_RECORDS = 1000
SYNC_BYTES = 16
AvroSchema: TypeAlias = str | list[Any] | Mapping[str, Any]
_Write: TypeAlias = Callable[[bytearray, Any], None]


def write_container(
    schema: AvroSchema, records: Iterable[Mapping[str, Any]], header: Mapping[str, str], *, sync: bytes
) -> bytes:
    """The bytes of a file; `header` is metadata for its header beyond schema and codec."""
    assert len(sync) == SYNC_BYTES, "a sync marker has sixteen bytes"
    head = {"avro.schema": json.dumps(schema), "avro.codec": "deflate", **header}
    out = bytearray(b"Obj\x01")
    _long(out, len(head))
    for name, value in head.items():
        _blob(out, name.encode())
        _blob(out, value.encode())
    out += b"\0" + sync
    write = _writer(schema, {})
    rows = iter(records)
    while block := list(islice(rows, BLOCK_RECORDS)):
        body = bytearray()
        for record in block:
            write(body, record)
        _long(out, len(block))
        _blob(out, zlib.compress(body, wbits=-15))
        out += sync
    return bytes(out)


def _writer(schema: AvroSchema, named: dict[str, AvroSchema]) -> _Write:
    """The function that writes values of a type; `named` are the named types defined so far."""
    if isinstance(schema, list):
        return _optional(schema, named)
    definition: Mapping[str, Any] = {"type": schema} if isinstance(schema, str) else schema
    kind = definition["type"]
    if "name" in definition:
        named[definition["name"]] = definition
    match kind:
        case "record":
            fields = [(f["name"], _writer(f["type"], named)) for f in definition["fields"]]
            return lambda out, value: _record(out, value, fields)
        case "array":
            item = _writer(definition["items"], named)
            return lambda out, value: _array(out, value, item)
        case "int" | "long":
            return _long
        case "string":
            return lambda out, value: _blob(out, value.encode())
        case "bytes":
            return _blob
        case "fixed":
            return lambda out, value: out.extend(value)
        case "boolean":
            return lambda out, value: out.append(1 if value else 0)
        case "float" | "double":
            layout = "<f" if kind == "float" else "<d"
            return lambda out, value: out.extend(struct.pack(layout, value))
        case "null":
            return lambda out, value: None
        case dict() | list():
            return _writer(kind, named)
        case _ if kind in named:
            return _writer(named[kind], named)
        case _:
            raise AssertionError(f"no manifest has a field of {kind}")


def _optional(schema: list[Any], named: dict[str, AvroSchema]) -> _Write:
    null = schema.index("null")
    inner = _writer(next(s for s in schema if s != "null"), named)

    def write(out: bytearray, value: object) -> None:
        if value is None:
            _long(out, null)
        else:
            _long(out, 1 - null)
            inner(out, value)

    return write


def _record(out: bytearray, value: Mapping[str, Any], fields: list[tuple[str, _Write]]) -> None:
    for name, write in fields:
        write(out, value.get(name))


def _array(out: bytearray, values: list[Any], item: _Write) -> None:
    if values:
        _long(out, len(values))
        for value in values:
            item(out, value)
    out.append(0)


def _long(out: bytearray, value: int) -> None:
    number = (value << 1) ^ (value >> 63)
    while number & ~0x7F:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    out.append(number)


def _blob(out: bytearray, value: bytes) -> None:
    _long(out, len(value))
    out += value
