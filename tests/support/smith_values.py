"""How the table builder spells values: types, statistics, partition values, paths and deletion vectors.

Written from the protocol and nothing else: it shares no code with what it is a witness against.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote
from uuid import UUID

import msgspec
import pyarrow as pa
from pyroaring import BitMap64

Json = dict[str, Any]

PRIMITIVES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}
_NO_LIMITS = ("boolean", "binary", "void")
_HIVE_ESCAPED = frozenset(map(chr, range(1, 32))) | set("\"#%'*/:=?\\\x7f{[]^")
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_JSON = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True, slots=True)
class Content:
    """What a data file holds: rows under physical names, and materialized ids and versions where it has them."""

    rows: tuple[Json, ...]
    ids: tuple[int | None, ...]
    versions: tuple[int | None, ...]


def dumps(value: Any) -> str:
    """JSON with decimals as numbers."""
    return _JSON.encode(value).decode()


def arrow_type(type_: Any) -> pa.DataType:
    """The Arrow type of a schema's JSON type, under physical names and with field ids."""
    if isinstance(type_, str):
        if type_.startswith("decimal"):
            precision, scale = type_[8:-1].split(",")
            return pa.decimal128(int(precision), int(scale))
        return PRIMITIVES[type_]
    match type_["type"]:
        case "struct":
            return pa.struct([arrow_field(f) for f in type_["fields"]])
        case "array":
            return pa.list_(pa.field("element", arrow_type(type_["elementType"])))
        case "map":
            return pa.map_(arrow_type(type_["keyType"]), arrow_type(type_["valueType"]))
    raise AssertionError(f"no such type: {type_}")


def arrow_field(field: Json) -> pa.Field:
    at = field["metadata"].get("delta.columnMapping.id")
    metadata = None if at is None else {b"PARQUET:field_id": str(at).encode()}
    return pa.field(physical_name(field), arrow_type(field["type"]), metadata=metadata)


def physical_name(field: Json) -> str:
    return str(field["metadata"].get("delta.columnMapping.physicalName", field["name"]))


def to_physical(value: Any, type_: Any) -> Any:
    """A value with the names inside it made physical."""
    return _renamed(value, type_, lambda f: f["name"], physical_name)


def to_logical(value: Any, type_: Any) -> Any:
    """A value with the names inside it made logical."""
    return _renamed(value, type_, physical_name, lambda f: f["name"])


def _renamed(value: Any, type_: Any, old: Any, new: Any) -> Any:
    if value is None or isinstance(type_, str):
        return value
    match type_["type"]:
        case "struct":
            return {new(f): _renamed(value.get(old(f)), f["type"], old, new) for f in type_["fields"]}
        case "array":
            return [_renamed(v, type_["elementType"], old, new) for v in value]
        case _:
            items = value.items() if isinstance(value, Mapping) else value
            return [
                (_renamed(k, type_["keyType"], old, new), _renamed(v, type_["valueType"], old, new)) for k, v in items
            ]


def statistics(rows: Sequence[Json], fields: Sequence[Json], *, tight: bool | None) -> Json:
    """The statistics of physical rows; `tight` None leaves tightBounds out."""
    low, high, nulls = _limits(rows, fields)
    stats: Json = {"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls}
    return stats if tight is None else {**stats, "tightBounds": tight}


def _limits(rows: Sequence[Json | None], fields: Sequence[Json]) -> tuple[Json, Json, Json]:
    low: Json = {}
    high: Json = {}
    nulls: Json = {}
    for field in fields:
        name, type_ = physical_name(field), field["type"]
        values = [None if row is None else row.get(name) for row in rows]
        if isinstance(type_, Mapping) and type_["type"] == "struct":
            low[name], high[name], nulls[name] = _limits(values, type_["fields"])
            continue
        nulls[name] = sum(value is None for value in values)
        known = [value for value in values if value is not None]
        if known and isinstance(type_, str) and type_ not in _NO_LIMITS:
            order = sorted(known, key=_order)
            low[name], high[name] = _limit(order[0], cut_low), _limit(order[-1], cut_high)
    return low, high, nulls


def _order(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return math.inf
    return value.encode() if isinstance(value, str) else value


def _limit(value: Any, cut: Any) -> Any:
    match value:
        case str():
            return cut(value)
        case datetime():
            text = value.replace(microsecond=value.microsecond // 1000 * 1000, tzinfo=None).isoformat(
                timespec="milliseconds"
            )
            return text if value.tzinfo is None else text + "Z"
        case date():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case _:
            return value


def cut_low(text: str) -> str:
    return text[:32]


def cut_high(text: str) -> str | None:
    for length in range(32, 65):
        if len(text) <= length:
            return text
        if text[length] != "\U0010ffff":
            return text[:length] + ("\x7f" if text[length] < "\x7f" else "\U0010ffff")
    return None


def partition_text(value: Any) -> str | None:
    """A partition value as the log spells it."""
    match value:
        case None | "":
            return None
        case bool():
            return str(value).lower()
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S.%f")
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case bytes():
            return value.decode("latin-1")
        case _:
            return str(value)


def hive_directory(values: Mapping[str, str | None]) -> str:
    """The directories of a partition, decoded once: what stands on disk."""
    return "".join(
        f"{_hive(name)}={'__HIVE_DEFAULT_PARTITION__' if value is None else _hive(value)}/"
        for name, value in values.items()
    )


def _hive(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _HIVE_ESCAPED else c for c in text)


def uri_path(path: str) -> str:
    """A path as the log spells it: URI-encoded, on top of whatever Hive escaped."""
    return quote(path, safe="/!$&'()*+,;=:@-._~")


def z85(data: bytes) -> str:
    out = []
    for (group,) in struct.iter_unpack(">I", data + bytes(-len(data) % 4)):
        digits = []
        for _ in range(5):
            group, digit = divmod(group, 85)
            digits.append(_Z85[digit])
        out += digits[::-1]
    return "".join(out)


def vector_blob(positions: Iterable[int]) -> bytes:
    return struct.pack("<I", 1681511377) + bytes(BitMap64(positions).serialize())


def vector_file(sets: Iterable[Iterable[int]]) -> tuple[bytes, list[tuple[int, int]]]:
    """The bytes of a file of vectors, and the offset and size of each."""
    data = b"\x01"
    places = []
    for positions in sets:
        blob = vector_blob(positions)
        places.append((len(data), len(blob)))
        data += struct.pack(">I", len(blob)) + blob + struct.pack(">I", zlib.crc32(blob))
    return data, places


def mapped(fields: Sequence[Json], uuids: Iterator[UUID], ids: Iterator[int]) -> list[Json]:
    """The fields with an id and a physical name each, at every depth; what has them keeps them."""
    return [_mapped_field(field, uuids, ids) for field in fields]


def _mapped_field(field: Json, uuids: Iterator[UUID], ids: Iterator[int]) -> Json:
    metadata = dict(field["metadata"])
    if "delta.columnMapping.id" not in metadata:
        metadata["delta.columnMapping.id"] = next(ids)
        metadata["delta.columnMapping.physicalName"] = f"col-{next(uuids)}"
    return {**field, "metadata": metadata, "type": _mapped_type(field["type"], uuids, ids)}


def _mapped_type(type_: Any, uuids: Iterator[UUID], ids: Iterator[int]) -> Any:
    if isinstance(type_, str):
        return type_
    if type_["type"] == "struct":
        return {**type_, "fields": mapped(type_["fields"], uuids, ids)}
    inner = ("elementType", "keyType", "valueType")
    return {name: _mapped_type(part, uuids, ids) if name in inner else part for name, part in type_.items()}
