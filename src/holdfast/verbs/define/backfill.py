"""Makes the commits that give ids to the rows that a table has already.

    new files get ids  ->  files without ids are added again, in batches  ->  the table states that all have ids

The table alone decides which commit comes next, so anybody can continue a backfill that stopped half way.

1. Files are added again as they are, with `data_change` false: readers of changes see none.
2. The last commit stands on a version in which every file has ids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.model.mutation import ENABLES_ROW_TRACKING, AllRows, Mutation, TableDefinition
from holdfast.parquet.pages.footer import read_footer
from holdfast.schema.properties import ENABLE_ROW_TRACKING
from holdfast.storage.location import Location

BATCH_FILES = 22_000
_READERS = 16  # footers are small and far away


def supported(shape: TableDefinition) -> Mutation:
    """From here on every new file gets ids."""
    return Mutation(
        "UPGRADE PROTOCOL",
        {"newFeatures": json.dumps(["domainMetadata", "rowTracking"])},
        reads=AllRows(),
        shape=replace(shape, features=shape.features | {"rowTracking"}),
    )


def restamped(files: pa.Table, batch: int) -> Mutation:
    """Give ids to files that have none."""
    return Mutation(
        "ROW TRACKING BACKFILL", {"batchId": json.dumps(batch)}, restamped=files, data_change=False, reads=AllRows()
    )


def enabled(shape: TableDefinition) -> Mutation:
    """Say that every row has an id."""
    return Mutation(
        "SET TBLPROPERTIES",
        {"properties": json.dumps({ENABLE_ROW_TRACKING: "true"})},
        reads=AllRows(),
        shape=replace(shape, properties={**shape.properties, ENABLE_ROW_TRACKING: "true"}),
        tags={ENABLES_ROW_TRACKING: "true"},
    )


def row_counts(location: Location, files: pa.Table, known: Mapping[str, int]) -> Mapping[str, int]:
    """The row counts of files whose `num_records` is null, by key, from their footers; `known` ones are not read."""
    silent = files.filter(pc.is_null(files.column("num_records"))).select(["key", "size"]).to_pylist()
    unread = {row["key"]: row["size"] for row in silent if row["key"] not in known}  # one per file

    def rows_in(key: str) -> int:
        return int(read_footer(location.store, location.store_key(key), unread[key]).num_rows)

    with ThreadPoolExecutor(_READERS) as pool:
        return {**known, **dict(zip(unread, pool.map(rows_in, unread), strict=True))}
