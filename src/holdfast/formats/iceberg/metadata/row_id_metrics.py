"""Metrics of the row ids that data files store, in the reserved column `_row_id`.

A row that was moved, changed or published stores its id in its file. The bounds of these ids and the number of nulls
tell which files can hold a row id. Other readers do not have the column in their schema and ignore its metrics.

1. Metrics are written for every file that its writer has measured: where no row stores an id, all values are null.
2. Metrics of other writers count as well, if both bounds and the null count are there; otherwise the file is read.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.formats.iceberg.metadata.metrics import metric_of
from holdfast.formats.iceberg.metadata.single_values import decode_bounds
from holdfast.rows.rowmap import ROW_IDS, checksum
from holdfast.schema.types import LONG

ROW_ID_FIELD, ROW_ID_COLUMN = 2147483540, "_row_id"


def row_id_metrics(staged: Mapping[str, Any]) -> dict[str, list[int | str | None]]:
    """Metrics of a staged file's row ids by field id: value count, null count, bounds as hex, NaN count."""
    rows, stored_ids = staged["num_records"], staged["carried"]
    if stored_ids is None:
        return {}
    if not stored_ids:
        return {str(ROW_ID_FIELD): [rows, rows, None, None, None]}
    _, low, high, nulls = stored_ids.split(",")[:4]
    bounds = [struct.pack("<q", int(end)).hex() for end in (low, high)]
    return {str(ROW_ID_FIELD): [rows, int(nulls), *bounds, None]}


def row_id_tags(entries: pa.Table) -> pa.Array:
    """The tags by which a search for row ids chooses files; null where there are no metrics."""
    nulls = metric_of(entries["null_value_counts"], ROW_ID_FIELD).cast(pa.int64())
    if nulls.null_count == len(nulls):
        return pa.nulls(len(nulls), pa.map_(pa.string(), pa.string()))
    low, high = (
        decode_bounds(metric_of(entries[name], ROW_ID_FIELD), "long", LONG).cast(pa.string())
        for name in ("lower_bounds", "upper_bounds")
    )
    sizes = entries["file_size_in_bytes"].combine_chunks().cast(pa.string())
    carries = pc.binary_join_element_wise(
        sizes, pa.scalar(f"{checksum(ROW_ID_COLUMN):08x}"), low, high, nulls.cast(pa.string()), ","
    )
    bare = pc.equal(nulls, entries["record_count"].combine_chunks())
    return _tags(pc.if_else(bare, sizes, carries))


def _tags(notes: pa.Array) -> pa.Array:
    """Maps from ROW_IDS to each note; null where the note is."""
    valid = notes.is_valid()
    offsets = np.concatenate([[0], np.cumsum(valid.to_numpy(zero_copy_only=False))]).astype(np.int32)
    keys = pa.repeat(ROW_IDS, int(offsets[-1]))
    tags = pa.MapArray.from_arrays(pa.array(offsets), keys, notes.drop_null())
    return pc.if_else(valid, tags, pa.scalar(None, tags.type))
