"""How manifests and their lists are written: Avro schemas of versions 2 and 3, with the field ids of the format.

1. A tuple has the types of its spec's fields, each nullable; one whose column is gone keeps its stored type.
2. `equality_ids` are ints, a manifest says its schema's id, and delete files have no first row id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holdfast.formats.iceberg.metadata.partition_spec import PartitionSpec

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")
_PLAIN: dict[str, Any] = {
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
    """The record of a spec's tuples; `sources` are the types of columns by field id, in Iceberg's words."""
    fields = [
        _field(
            f.field_id, safe_name(f.name), _avro(f.transform.result(sources[f.source_id]), f.field_id), optional=True
        )
        for f in spec.fields
    ]
    return {"type": "record", "name": "r102", "fields": fields}


def entry_schema(tuples: Mapping[str, Any], version: int) -> dict[str, Any]:
    """An entry of a manifest of data files or delete files, with these tuples."""
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
        *(_field(number, name, _pairs(key, value, type_), optional=True) for name, number, key, value, type_ in pairs),
        _field(131, "key_metadata", "bytes", optional=True),
        _field(132, "split_offsets", _list(133, "long"), optional=True),
        _field(135, "equality_ids", _list(136, "int"), optional=True),
        _field(140, "sort_order_id", "int", optional=True),
        *([_field(142, "first_row_id", "long", optional=True)] if version >= 3 else []),
        _field(143, "referenced_data_file", "string", optional=True),
        *(
            [
                _field(144, "content_offset", "long", optional=True),
                _field(145, "content_size_in_bytes", "long", optional=True),
            ]
            if version >= 3
            else []
        ),
    ]
    fields = [
        _field(0, "status", "int"),
        _field(1, "snapshot_id", "long", optional=True),
        _field(3, "sequence_number", "long", optional=True),
        _field(4, "file_sequence_number", "long", optional=True),
        _field(2, "data_file", {"type": "record", "name": "r2", "fields": files}),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def list_schema(version: int) -> dict[str, Any]:
    """An entry of a list of manifests."""
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            _field(509, "contains_null", "boolean"),
            _field(518, "contains_nan", "boolean", optional=True),
            _field(510, "lower_bound", "bytes", optional=True),
            _field(511, "upper_bound", "bytes", optional=True),
        ],
    }
    counts = [
        ("added_files_count", 504, "int"),
        ("existing_files_count", 505, "int"),
        ("deleted_files_count", 506, "int"),
        ("added_rows_count", 512, "long"),
        ("existing_rows_count", 513, "long"),
        ("deleted_rows_count", 514, "long"),
    ]
    fields = [
        _field(500, "manifest_path", "string"),
        _field(501, "manifest_length", "long"),
        _field(502, "partition_spec_id", "int"),
        _field(517, "content", "int"),
        _field(515, "sequence_number", "long"),
        _field(516, "min_sequence_number", "long"),
        _field(503, "added_snapshot_id", "long"),
        *(_field(number, name, type_) for name, number, type_ in counts),
        _field(507, "partitions", {"type": "array", "items": summary, "element-id": 508}, optional=True),
        _field(519, "key_metadata", "bytes", optional=True),
        *([_field(520, "first_row_id", "long", optional=True)] if version >= 3 else []),
    ]
    return {"type": "record", "name": "manifest_file", "fields": fields}


def _avro(spelled: str, number: int) -> Any:
    """The type of a partition field; a name stands for one type in a schema, so the field's number is part of it."""
    if spelled in _PLAIN:
        return _PLAIN[spelled]
    if spelled == "uuid":
        return {"type": "fixed", "name": f"uuid_fixed_{number}", "size": 16, "logicalType": "uuid"}
    if found := _DECIMAL.fullmatch(spelled):
        precision, scale = int(found[1]), int(found[2])
        return {
            "type": "fixed",
            "name": f"decimal_{precision}_{scale}_{number}",
            "size": decimal_bytes(precision),
            "logicalType": "decimal",
            "precision": precision,
            "scale": scale,
        }
    if found := _FIXED.fullmatch(spelled):
        return {"type": "fixed", "name": f"fixed_{found[1]}_{number}", "size": int(found[1])}
    raise AssertionError(f"no column of {spelled} is partitioned by")


def decimal_bytes(precision: int) -> int:
    """The bytes that hold every number of so many digits."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 8) // 8


def _field(number: int, name: str, type_: Any, *, optional: bool = False) -> dict[str, Any]:
    if optional:
        return {"name": name, "type": ["null", type_], "default": None, "field-id": number}
    return {"name": name, "type": type_, "field-id": number}


def _pairs(key: int, value: int, type_: str) -> dict[str, Any]:
    fields = [_field(key, "key", "int"), _field(value, "value", type_)]
    record = {"type": "record", "name": f"k{key}_v{value}", "fields": fields}
    return {"type": "array", "logicalType": "map", "items": record}


def _list(element: int, type_: str) -> dict[str, Any]:
    return {"type": "array", "items": type_, "element-id": element}


def safe_name(name: str) -> str:
    """A name as Avro allows it, spelled as every writer of Iceberg spells it."""
    made = []
    for at, letter in enumerate(name):
        plain = letter == "_" or (letter.isascii() and (letter.isalpha() or (letter.isdigit() and at > 0)))
        made.append(letter if plain else f"_{letter}" if letter.isdigit() else f"_x{ord(letter):X}")
    return "".join(made)
