"""The Avro schemas of manifests and manifest lists, in versions 2 and 3, with the field ids of the spec.

1. A partition tuple has the types of its spec's fields, all nullable.
2. `equality_ids` are ints, and delete files have no first row id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.formats.iceberg.avro.writer import AvroSchema
from holdfast.formats.iceberg.metadata.partition_spec import PartitionSpec
from holdfast.formats.iceberg.metadata.types import DECIMAL, FIXED

_PLAIN: dict[str, AvroSchema] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "time": {"type": "long", "logicalType": "time-micros"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    "timestamptz": {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
}


def tuple_schema(spec: PartitionSpec, sources: Mapping[int, str]) -> dict[str, Any]:
    """The record of a spec's partition tuples; `sources` are the Iceberg types of columns by field id."""
    types = [_avro(f.transform.result(sources[f.source_id]), f.field_id) for f in spec.fields]
    fields = [_optional(f.field_id, safe_name(f.name), type_) for f, type_ in zip(spec.fields, types, strict=True)]
    return {"type": "record", "name": "r102", "fields": fields}


def entry_schema(tuples: Mapping[str, Any], version: int) -> dict[str, Any]:
    """A manifest entry with these partition tuples."""
    pairs = [
        ("column_sizes", 108, 117, 118, "long"),
        ("value_counts", 109, 119, 120, "long"),
        ("null_value_counts", 110, 121, 122, "long"),
        ("nan_value_counts", 137, 138, 139, "long"),
        ("lower_bounds", 125, 126, 127, "bytes"),
        ("upper_bounds", 128, 129, 130, "bytes"),
    ]
    files = [
        _field(134, "content", "int"),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", {**tuples, "name": "r102"}),
        _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"),
        *(_optional(number, name, _pairs(key, value, type_)) for name, number, key, value, type_ in pairs),
        _optional(131, "key_metadata", "bytes"),
        _optional(132, "split_offsets", _list(133, "long")),
        _optional(135, "equality_ids", _list(136, "int")),
        _optional(140, "sort_order_id", "int"),
        *([_optional(142, "first_row_id", "long")] if version >= 3 else []),
        _optional(143, "referenced_data_file", "string"),
    ]
    if version >= 3:
        files += [_optional(144, "content_offset", "long"), _optional(145, "content_size_in_bytes", "long")]
    fields = [
        _field(0, "status", "int"),
        _optional(1, "snapshot_id", "long"),
        _optional(3, "sequence_number", "long"),
        _optional(4, "file_sequence_number", "long"),
        _field(2, "data_file", {"type": "record", "name": "r2", "fields": files}),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def list_schema(version: int) -> dict[str, Any]:
    """An entry of a manifest list."""
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            _field(509, "contains_null", "boolean"),
            _optional(518, "contains_nan", "boolean"),
            _optional(510, "lower_bound", "bytes"),
            _optional(511, "upper_bound", "bytes"),
        ],
    }
    fields = [
        _field(500, "manifest_path", "string"),
        _field(501, "manifest_length", "long"),
        _field(502, "partition_spec_id", "int"),
        _field(517, "content", "int"),
        _field(515, "sequence_number", "long"),
        _field(516, "min_sequence_number", "long"),
        _field(503, "added_snapshot_id", "long"),
        *(_field(504 + at, f"{kind}_files_count", "int") for at, kind in enumerate(("added", "existing", "deleted"))),
        *(_field(512 + at, f"{kind}_rows_count", "long") for at, kind in enumerate(("added", "existing", "deleted"))),
        _optional(507, "partitions", {"type": "array", "items": summary, "element-id": 508}),
        _optional(519, "key_metadata", "bytes"),
        *([_optional(520, "first_row_id", "long")] if version >= 3 else []),
    ]
    return {"type": "record", "name": "manifest_file", "fields": fields}


def _avro(spelled: str, field_id: int) -> AvroSchema:
    """The Avro type of a partition field; a type name occurs once in a schema, so the field id is part of it."""
    if spelled in _PLAIN:
        return _PLAIN[spelled]
    if spelled == "uuid":
        return {"type": "fixed", "name": f"uuid_fixed_{field_id}", "size": 16, "logicalType": "uuid"}
    if match := DECIMAL.fullmatch(spelled):
        precision, scale = int(match[1]), int(match[2])
        return {
            "type": "fixed",
            "name": f"decimal_{precision}_{scale}_{field_id}",
            "size": decimal_bytes(precision),
            "logicalType": "decimal",
            "precision": precision,
            "scale": scale,
        }
    if match := FIXED.fullmatch(spelled):
        return {"type": "fixed", "name": f"fixed_{match[1]}_{field_id}", "size": int(match[1])}
    raise AssertionError(f"no column of {spelled} is partitioned by")


def decimal_bytes(precision: int) -> int:
    """The number of bytes that hold every decimal of a precision."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 8) // 8


def _field(field_id: int, name: str, type_: AvroSchema) -> dict[str, Any]:
    return {"name": name, "type": type_, "field-id": field_id}


def _optional(field_id: int, name: str, type_: AvroSchema) -> dict[str, Any]:
    return {"name": name, "type": ["null", type_], "default": None, "field-id": field_id}


def _pairs(key: int, value: int, type_: str) -> dict[str, Any]:
    fields = [_field(key, "key", "int"), _field(value, "value", type_)]
    record = {"type": "record", "name": f"k{key}_v{value}", "fields": fields}
    return {"type": "array", "logicalType": "map", "items": record}


def _list(element: int, type_: str) -> dict[str, Any]:
    return {"type": "array", "items": type_, "element-id": element}


def safe_name(name: str) -> str:
    """A name that Avro allows, escaped as every Iceberg writer does."""
    letters = []
    for at, letter in enumerate(name):
        plain = letter == "_" or (letter.isascii() and (letter.isalpha() or (letter.isdigit() and at > 0)))
        letters.append(letter if plain else f"_{letter}" if letter.isdigit() else f"_x{ord(letter):X}")
    return "".join(letters)
