"""Finds live files without row ids, with the fields and row counts that it takes to add them again with ids.

1. Only the row count is new: paths, partition values, deletion vectors, tags and statistics stay as they are.
2. A statistics text with a row count is kept; one without it is rewritten with the count.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.formats.delta.protocol.features import writer_features
from holdfast.formats.delta.state import DeltaState
from holdfast.formats.delta.stats.reader import JsonStats
from holdfast.formats.delta.stats.render import decode_stats, texts_of
from holdfast.model.files import FileTable
from holdfast.model.mutation import RESTAMPED
from holdfast.schema.properties import ENABLE_ROW_TRACKING, ROW_TRACKING_SUSPENDED, truth
from holdfast.storage.arrays import longs, mask, strings, truths

_FEATURES = frozenset(("rowTracking", "domainMetadata"))


class Tracking(Enum):
    """Whether a table assigns row ids."""

    NONE = "new files get no ids"
    SUSPENDED = "new files get no ids, though the table knows how"
    SUPPORTED = "new files get ids, older ones may have none"
    ENABLED = "every file has ids"


def tracking_of(state: DeltaState) -> Tracking:
    """Whether a table assigns row ids."""
    properties = state.metadata.properties
    if not writer_features(state.protocol) >= _FEATURES:
        return Tracking.NONE
    if truth(properties.get(ROW_TRACKING_SUSPENDED)):
        return Tracking.SUSPENDED
    return Tracking.ENABLED if truth(properties.get(ENABLE_ROW_TRACKING)) else Tracking.SUPPORTED


def unstamped(state: DeltaState, limit: int) -> tuple[pa.Table, int]:
    """The first files without row ids, with the columns of RESTAMPED, and the number of all such files.

    `num_records` is null where the log has no row count.
    """
    files = state.snapshot.files
    missing = np.flatnonzero(truths(pc.is_null(files.column("base_row_id"))))
    chosen = np.zeros(len(files), bool)
    chosen[missing[:limit]] = True
    return described(files.filter(mask(chosen))), len(missing)


def described(files: FileTable) -> pa.Table:
    """Files with all fields of their `add` actions, with the columns of RESTAMPED."""
    if not len(files):
        return RESTAMPED.empty_table()
    texts = pa.chunked_array([texts_of(slab.stats) for slab in files.slabs], pa.string())
    counts = JsonStats(texts).read({}).num_records
    return files.table.append_column("num_records", counts).append_column("stats", texts).cast(RESTAMPED)


def with_counts(files: pa.Table, counts: Mapping[str, int]) -> pa.Table:
    """Files of `unstamped` with their missing row counts, by file key, in the column and in the statistics."""
    if not files.column("num_records").null_count:
        return files
    stored = zip(files.column("key").to_pylist(), files.column("num_records").to_pylist(), strict=True)
    return recounted(files, {key: counts[key] for key, count in stored if count is None})


def recounted(files: pa.Table, counts: Mapping[str, int]) -> pa.Table:
    """Files with these row counts, by file key, instead of the stored ones, in the column and in the statistics."""
    keys, stored = files.column("key").to_pylist(), files.column("num_records").to_pylist()
    new = [counts.get(key, count) for key, count in zip(keys, stored, strict=True)]
    texts = [
        _with_count(text, count) if count is not None and count != old else text
        for text, old, count in zip(files.column("stats").to_pylist(), stored, new, strict=True)
    ]
    at = files.column_names.index
    files = files.set_column(at("num_records"), "num_records", longs(new))
    return files.set_column(at("stats"), "stats", strings(texts))


def _with_count(text: str | None, count: int) -> str:
    return msgspec.json.encode({**decode_stats(text), "numRecords": count}).decode()
