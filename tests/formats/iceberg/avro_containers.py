"""Writes Avro object container files from dictionaries, as far as manifests in tests need it."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

SYNC = b"0123456789abcdef"


def container(
    schema: Any, records: Iterable[Mapping[str, Any]], notes: Mapping[str, str], *, codec: str = "deflate"
) -> bytes:
    """The bytes of a file; a block holds three records, so that files have several."""
    head = {"avro.schema": json.dumps(schema), "avro.codec": codec, **notes}
    out = bytearray(b"Obj\x01" + _long(len(head)))
    for name, value in head.items():
        out += _bytes(name.encode()) + _bytes(value.encode())
    out += b"\0" + SYNC
    rows = list(records)
    for start in range(0, len(rows), 3):
        block = rows[start : start + 3]
        body = b"".join(_value(schema, row) for row in block)
        if codec == "deflate":
            packer = zlib.compressobj(wbits=-15)
            body = packer.compress(body) + packer.flush()
        out += _long(len(block)) + _bytes(body) + SYNC
    return bytes(out)


def _value(schema: Any, value: Any) -> bytes:
    if isinstance(schema, list):
        if value is None:
            return _long(schema.index("null"))
        other = next(i for i, s in enumerate(schema) if s != "null")
        return _long(other) + _value(schema[other], value)
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "int" | "long":
            return _long(int(value))
        case "string":
            return _bytes(value.encode())
        case "bytes":
            return _bytes(value)
        case "fixed":
            return bytes(value)
        case "boolean":
            return b"\1" if value else b"\0"
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "record":
            return b"".join(_value(f["type"], value.get(f["name"])) for f in schema["fields"])
        case "array":
            if not value:
                return b"\0"
            return _long(len(value)) + b"".join(_value(schema["items"], v) for v in value) + b"\0"
        case _:
            raise AssertionError(f"no way to write {kind}")


def _long(value: int) -> bytes:
    number = (value << 1) ^ (value >> 63)
    out = bytearray()
    while number & ~0x7F:
        out.append((number & 0x7F) | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value
