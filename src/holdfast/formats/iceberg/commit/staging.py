"""Files that were written and that no manifest lists yet, as manifests will say them.

1. A staged file is told by its description alone: nothing of it is read again.
2. Its tuple is of the spec it was placed by; its path is spelled below the table's own location.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from holdfast.formats.iceberg.commit.avro_schemas import decimal_bytes, safe_name
from holdfast.formats.iceberg.metadata.manifests import DATA_FILE
from holdfast.formats.iceberg.metadata.partition_spec import PartitionSpec
from holdfast.formats.iceberg.metadata.row_id_metrics import row_id_metrics
from holdfast.parquet.partition_transforms import PartitionTransform, unscaled
from holdfast.schema.types import Struct

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


def placed_by(spec: PartitionSpec, schema: Struct) -> tuple[PartitionTransform, ...]:
    """How rows are placed by a spec; a void field says nothing of where they go."""
    found = dict(_by_id(schema))
    return tuple(
        PartitionTransform(*found[f.source_id], f.transform.kind, f.transform.parameter, str(f.field_id), f.name)
        for f in spec.fields
        if f.transform.kind != "void"
    )


def missing_source(spec: PartitionSpec, schema: Struct) -> str | None:
    """The name of a partition field that has no column any more."""
    found = dict(_by_id(schema))
    return next((f.name for f in spec.fields if f.transform.kind != "void" and f.source_id not in found), None)


def data_files(
    staged: pa.Table, spec: PartitionSpec, sources: Mapping[int, str], location: str, *, with_ids: bool
) -> Iterator[dict[str, Any]]:
    """What manifests say of each staged file, in their order; `with_ids` also of the row ids that it carries."""
    for row in staged.to_pylist():  # one per file
        yield {
            "content": DATA_FILE,
            "file_path": f"{location}/{row['key']}",
            "file_format": "PARQUET",
            "partition": tuple_of(spec, sources, dict(row["partition_values"] or ())),
            "record_count": row["num_records"],
            "file_size_in_bytes": row["size"],
            "sort_order_id": 0,
            **_metrics({**json.loads(row["stats"] or "{}"), **(row_id_metrics(row) if with_ids else {})}),
        }


def tuple_of(spec: PartitionSpec, sources: Mapping[int, str], texts: Mapping[str, str | None]) -> dict[str, Any]:
    """A tuple as Avro holds it, by the names of its fields."""
    return {
        safe_name(f.name): value_of(texts.get(str(f.field_id)), f.transform.result(sources[f.source_id]))
        for f in spec.fields
    }


def _metrics(told: Mapping[str, list[Any]]) -> dict[str, Any]:
    def pairs(at: int) -> list[dict[str, Any]]:
        return [{"key": int(number), "value": one[at]} for number, one in told.items() if one[at] is not None]

    def blobs(at: int) -> list[dict[str, Any]]:
        return [{"key": pair["key"], "value": bytes.fromhex(pair["value"])} for pair in pairs(at)]

    return {
        "value_counts": pairs(0),
        "null_value_counts": pairs(1),
        "nan_value_counts": pairs(4),
        "lower_bounds": blobs(2),
        "upper_bounds": blobs(3),
    }


def value_of(text: str | None, spelled: str) -> Any:
    """A partition value as Avro holds it."""
    if text is None:
        return None
    if found := _DECIMAL.fullmatch(spelled):
        precision, scale = int(found[1]), int(found[2])
        return _unscaled(text, scale).to_bytes(decimal_bytes(precision), "big", signed=True)
    match spelled:
        case "string":
            return text
        case "boolean":
            return text == "true"
        case "binary":
            return bytes.fromhex(text)
        case "float":
            return struct.unpack("<f", struct.pack("<i", int(text)))[0]
        case "double":
            return struct.unpack("<d", struct.pack("<q", int(text)))[0]
        case _:
            return int(text)


def _unscaled(text: str, scale: int) -> int:
    (whole,) = unscaled(pa.array([text]).cast(pa.decimal256(76, scale)))
    assert whole is not None, "a text is a number"
    return whole


def _by_id(schema: Struct) -> Iterator[tuple[int, tuple[str, tuple[int, ...]]]]:
    """Every field that a spec can speak of: its top column, and the way down to it."""

    def inside(struct_: Struct, top: str, way: tuple[int, ...]) -> Iterator[tuple[int, tuple[str, tuple[int, ...]]]]:
        for at, f in enumerate(struct_.fields):
            name, path = (f.name, ()) if not top else (top, (*way, at))
            if f.field_id is not None:
                yield f.field_id, (name, path)
            if isinstance(f.type, Struct):
                yield from inside(f.type, name, path)

    return inside(schema, "", ())
