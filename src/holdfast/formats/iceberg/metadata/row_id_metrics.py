"""What manifests say of the row ids that data files carry: metrics of the reserved column, as of any other.

A row that was moved, changed or published keeps its id in a column of its file. Between which ids these lie, and how
many rows have none there, tells who looks for a row which files to open. Other readers have no such column in their
schema and pass over its metrics.

1. Metrics are written of every file that its writer knows: where no row carries an id, all values are null.
2. What others wrote counts as well, where both bounds and the number of nulls are said; else the file has to be asked.
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
from holdfast.storage.arrays import strings

ROW_ID_FIELD, ROW_ID_COLUMN = 2147483540, "_row_id"


def row_id_metrics(staged: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Metrics of a staged file's row ids: values, nulls, both bounds as hex, and none that are no numbers."""
    rows, told = staged["num_records"], staged["carried"]
    if told is None:
        return {}
    if not told:
        return {str(ROW_ID_FIELD): [rows, rows, None, None, None]}
    _, low, high, missing = told.split(",")[:4]
    bounds = [struct.pack("<q", int(end)).hex() for end in (low, high)]
    return {str(ROW_ID_FIELD): [rows, int(missing), *bounds, None]}


def row_id_tags(entries: pa.Table) -> pa.Array:
    """What is noted of each file for whoever looks for rows by id, as tags; null where nothing is known."""
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
    """A map of one note for each that there is."""
    known = notes.is_valid().to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(known)]).astype(np.int32)
    keys = pa.DictionaryArray.from_arrays(pa.array(np.zeros(int(known.sum()), np.int32)), strings([ROW_IDS])).cast(
        pa.string()
    )
    made = pa.MapArray.from_arrays(pa.array(offsets), keys, notes.drop_null())
    return pc.if_else(pa.array(known), made, pa.scalar(None, made.type))
