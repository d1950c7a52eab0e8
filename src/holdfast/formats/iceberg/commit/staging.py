"""Converts staged data files to the `data_file` structs of manifest entries.

1. The description of a staged file suffices: the file itself is not read again.
2. A partition tuple has the fields of the spec that the file was written with; the path is below the table's location.
3. Partitions of staged files and of a table's files are compared by the tuples of the current spec; null equals null. A
   table with files of another spec is refused: their tuples do not tell which rows belong to a partition.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Invalid
from holdfast.formats.iceberg.commit.avro_schemas import decimal_bytes, safe_name
from holdfast.formats.iceberg.metadata.manifests import DATA_FILE
from holdfast.formats.iceberg.metadata.partition_groups import pair_codes, value_codes
from holdfast.formats.iceberg.metadata.partition_spec import PartitionSpec
from holdfast.formats.iceberg.metadata.row_id_metrics import row_id_metrics
from holdfast.formats.iceberg.metadata.single_values import decode_partition_values
from holdfast.formats.iceberg.metadata.types import DECIMAL
from holdfast.formats.iceberg.state import IcebergState
from holdfast.model.files import PARTITION
from holdfast.parquet.partition_transforms import PartitionTransform, unscaled
from holdfast.schema.types import Struct


def placed_by(spec: PartitionSpec, schema: Struct) -> tuple[PartitionTransform, ...]:
    """The partition fields of a spec for writers; void fields are left out."""
    columns = dict(_by_id(schema))
    return tuple(
        PartitionTransform(*columns[f.source_id], f.transform.kind, f.transform.parameter, str(f.field_id), f.name)
        for f in spec.fields
        if f.transform.kind != "void"
    )


def missing_source(spec: PartitionSpec, schema: Struct) -> str | None:
    """The name of a partition field whose source column is no longer in the schema."""
    columns = dict(_by_id(schema))
    return next((f.name for f in spec.fields if f.transform.kind != "void" and f.source_id not in columns), None)


def data_files(
    staged: pa.Table, spec: PartitionSpec, sources: Mapping[int, str], location: str, *, with_ids: bool
) -> Iterator[dict[str, Any]]:
    """The `data_file` struct of each staged file, in order; `with_ids` adds metrics of the row ids that it stores."""
    for row in staged.to_pylist():  # one per file
        yield {
            "content": DATA_FILE,
            "file_path": f"{location}/{row['key']}",
            "file_format": "PARQUET",
            "partition": _tuple_of(spec, sources, dict(row["partition_values"] or ())),
            "record_count": row["num_records"],
            "file_size_in_bytes": row["size"],
            "sort_order_id": 0,
            **_metrics({**json.loads(row["stats"] or "{}"), **(row_id_metrics(row) if with_ids else {})}),
        }


def _tuple_of(spec: PartitionSpec, sources: Mapping[int, str], texts: Mapping[str, str | None]) -> dict[str, Any]:
    """A partition tuple in Avro's types, by field name."""
    return {
        safe_name(f.name): value_of(texts.get(str(f.field_id)), f.transform.result(sources[f.source_id]))
        for f in spec.fields
    }


def _metrics(stats: Mapping[str, list[Any]]) -> dict[str, Any]:
    def pairs(at: int) -> list[dict[str, Any]]:
        return [{"key": int(field_id), "value": one[at]} for field_id, one in stats.items() if one[at] is not None]

    def blobs(at: int) -> list[dict[str, Any]]:
        return [{"key": pair["key"], "value": bytes.fromhex(pair["value"])} for pair in pairs(at)]

    return {
        "value_counts": pairs(0),
        "null_value_counts": pairs(1),
        "nan_value_counts": pairs(4),
        "lower_bounds": blobs(2),
        "upper_bounds": blobs(3),
    }


def value_of(text: str | None, spelled: str) -> str | bytes | float | None:
    """A partition value in Avro's type, from its text."""
    if text is None:
        return None
    if match := DECIMAL.fullmatch(spelled):
        precision, scale = int(match[1]), int(match[2])
        (whole,) = unscaled(pa.array([text]).cast(pa.decimal256(76, scale)))
        assert whole is not None, "a text is a number"
        return whole.to_bytes(decimal_bytes(precision), "big", signed=True)
    match spelled:
        case "string":
            return text
        case "boolean":
            return text == "true"
        case "binary":
            return bytes.fromhex(text)
        case "float":
            return float(struct.unpack("<f", struct.pack("<i", int(text)))[0])
        case "double":
            return float(struct.unpack("<d", struct.pack("<q", int(text)))[0])
        case _:
            return int(text)


def in_same_partitions(state: IcebergState, staged: pa.Table) -> pa.BooleanArray:
    """Which of a table's files are in a partition that a staged file is in."""
    files, types = state.snapshot.files.table, state.contents.types
    spec, where = types.specs[state.metadata.default_spec_id], state.metadata.location
    if spec.is_unpartitioned:
        raise Invalid(f"dynamic partition overwrite needs a partitioned table, and {where} is none")
    if not files.num_rows:
        return pa.array([], pa.bool_())
    if not pc.all(pc.equal(files["spec_id"], spec.spec_id)).as_py():
        raise Invalid(
            f"some files of {where} are placed by an older partition spec, so rows of a partition may be in any of "
            "them: overwrite with replaceWhere instead"
        )
    field_ids = {f.field_id for f in spec.fields if f.transform.kind != "void"}
    codes = np.zeros(files.num_rows + staged.num_rows, np.int64)
    texts = [dict(row or ()) for row in staged["partition_values"].to_pylist()]  # one per new file
    for f in types.unified:
        if f.field_id in field_ids:
            raw = pa.array([value_of(text.get(str(f.field_id)), f.spelled) for text in texts])
            own = pc.struct_field(files[PARTITION].combine_chunks(), f.name)
            codes = pair_codes(codes, value_codes([own, decode_partition_values(raw, f.spelled, f.type)]))
    return pa.array(np.isin(codes[: files.num_rows], codes[files.num_rows :]))


def _by_id(
    schema: Struct, top: str = "", above: tuple[int, ...] = ()
) -> Iterator[tuple[int, tuple[str, tuple[int, ...]]]]:
    """Every field outside lists and maps by id: its top-level column, and the indices that lead down to it."""
    for at, f in enumerate(schema.fields):
        name, path = (f.name, ()) if not top else (top, (*above, at))
        if f.field_id is not None:
            yield f.field_id, (name, path)
        if isinstance(f.type, Struct):
            yield from _by_id(f.type, name, path)
