"""Live files without row ids, with what it takes to add them again: everything the log says of them, and a row count.

1. Nothing but the row count is ever made up: paths, partition values, vectors, tags and texts stay as they were.
2. A text that has a row count is kept as it is; only one that lacks it is written anew, with the count in it.
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
from holdfast.formats.delta.stats.render import texts_of
from holdfast.model.files import FileTable
from holdfast.model.mutation import RESTAMPED
from holdfast.schema.properties import ENABLE_ROW_TRACKING, ROW_TRACKING_SUSPENDED, truth
from holdfast.storage.arrays import longs, mask, strings, truths
from holdfast.storage.error_mapping import MALFORMED_JSON

_NEEDED = frozenset(("rowTracking", "domainMetadata"))


class Tracking(Enum):
    """How far a table is on its way to row ids."""

    NONE = "new files get no ids"
    SUSPENDED = "new files get no ids, though the table knows how"
    SUPPORTED = "new files get ids, older ones may have none"
    ENABLED = "every file has ids"


def tracking_of(state: DeltaState) -> Tracking:
    """How far a table is."""
    properties = state.metadata.properties
    if not writer_features(state.protocol) >= _NEEDED:
        return Tracking.NONE
    if truth(properties.get(ROW_TRACKING_SUSPENDED)):
        return Tracking.SUSPENDED
    return Tracking.ENABLED if truth(properties.get(ENABLE_ROW_TRACKING)) else Tracking.SUPPORTED


def unstamped(state: DeltaState, limit: int) -> tuple[pa.Table, int]:
    """The first files without ids with the columns of RESTAMPED, and how many there are in all.

    `num_records` is null where the log does not say it.
    """
    files = state.snapshot.files
    missing = np.flatnonzero(truths(pc.is_null(files.column("base_row_id"))))
    chosen = np.zeros(len(files), bool)
    chosen[missing[:limit]] = True
    batch = files.filter(mask(chosen))
    return described(batch), len(missing)


def described(files: FileTable) -> pa.Table:
    """Files with everything the log says of them, with the columns of RESTAMPED."""
    if not len(files):
        return RESTAMPED.empty_table()
    texts = pa.chunked_array([texts_of(slab.stats) for slab in files.slabs], pa.string())
    counts = JsonStats(texts).read({}).num_records
    return files.table.append_column("num_records", counts).append_column("stats", texts).cast(RESTAMPED)


def with_counts(files: pa.Table, counts: Mapping[str, int]) -> pa.Table:
    """Files of `unstamped` with the row counts they lack, by file key, in the column and in the texts."""
    if not files.column("num_records").null_count:
        return files
    keys, told = files.column("key").to_pylist(), files.column("num_records").to_pylist()
    found = [counts[key] if count is None else count for key, count in zip(keys, told, strict=True)]
    texts = [
        _said(text, whole) if count is None else text
        for text, count, whole in zip(files.column("stats").to_pylist(), told, found, strict=True)
    ]
    at = files.column_names.index
    return files.set_column(at("num_records"), "num_records", longs(found)).set_column(
        at("stats"), "stats", strings(texts)
    )


def recounted(files: pa.Table, counts: Mapping[str, int]) -> pa.Table:
    """Files with these row counts, by file key, in the place of what the log says, in the column and in the texts."""
    keys, told = files.column("key").to_pylist(), files.column("num_records").to_pylist()
    found = [counts.get(key, count) for key, count in zip(keys, told, strict=True)]
    texts = [
        _said(text, whole) if whole is not None and whole != count else text
        for text, count, whole in zip(files.column("stats").to_pylist(), told, found, strict=True)
    ]
    at = files.column_names.index
    return files.set_column(at("num_records"), "num_records", longs(found)).set_column(
        at("stats"), "stats", strings(texts)
    )


def _said(text: str | None, count: int) -> str:
    """A text of statistics with a row count; one that cannot be read has nothing worth keeping."""
    try:
        old = msgspec.json.decode(text or "{}")
    except MALFORMED_JSON:
        old = {}
    kept = old if isinstance(old, dict) else {}
    return msgspec.json.encode({**kept, "numRecords": count}).decode()
