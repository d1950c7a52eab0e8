"""Which files of indexes hold entries of given rows: a key in an entry is a value of the row it was made from.

1. Every file below the directory of indexes is looked at, whether an index still refers to it or not.
2. What cannot be read, or is of a kind that does not list its rows one by one, is told as soon as it may hold any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.errors import TableError
from holdfast.index.segment import META, META_BYTES, Meta
from holdfast.parquet.index_runs import ROW_ID, ROW_IDS
from holdfast.parquet.source import open_source
from holdfast.storage.error_mapping import MALFORMED, json_record
from holdfast.storage.location import Location


def holding(location: Location, keys: Sequence[str], ids: BitMap64) -> Mapping[str, int]:
    """Files, as file keys, that hold entries of rows with these ids; and of how many, as far as that can be told."""
    wanted = np.frombuffer(ids.to_array(), np.uint64).astype(np.int64)
    found = {key: _held(location, key, ids, wanted) for key in keys}  # one per file of an index
    return {key: count for key, count in found.items() if count}


def _held(location: Location, key: str, ids: BitMap64, wanted: NDArray[np.int64]) -> int:
    name = key.rpartition("/")[2]
    try:
        if name == META:
            return 0 if _lists_rows(location, key) else _within(location, key, wanted)
        if not name.startswith(("run-", "part-")):
            return 0
        file = pq.ParquetFile(open_source(location.store, location.key(key), None))
        if ROW_IDS in file.schema_arrow.names:
            bitmaps = file.read([ROW_IDS]).column(0).to_pylist()
            return sum(BitMap64.deserialize(data).intersection_cardinality(ids) for data in bitmaps)
        return int(np.isin(file.read([ROW_ID]).column(0).to_numpy(), wanted).sum())
    except (TableError, OSError):
        return len(ids)
    except MALFORMED:
        return len(ids)


def _lists_rows(location: Location, key: str) -> bool:
    """Whether the rows of a segment are in its runs, which are looked at themselves."""
    return "runs" in _meta(location, key).extra


def _within(location: Location, key: str, wanted: NDArray[np.int64]) -> int:
    meta = _meta(location, key)
    return int(((wanted >= meta.low_id) & (wanted <= meta.high_id)).sum())


def _meta(location: Location, key: str) -> Meta:
    path = f"{location.store.url}/{location.key(key)}"
    return json_record(
        location.store.get(location.key(key), META_BYTES), Meta, path=path, what="is no meta of a segment"
    )
