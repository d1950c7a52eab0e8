"""Small answers about rows that this process reads: counts per file, row ids, a column's furthest value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from holdfast.engines.local.scan import scan_batches, scan_table
from holdfast.model.snapshot import HiddenRows
from holdfast.plan.dml.change import CHANGE, TouchedRows
from holdfast.plan.scan.request import ScanPlan
from holdfast.plan.scan.search import FILE_COLUMN, ID_COLUMN, INDEX_COLUMN, RowSearch
from holdfast.rows.columns import ROW_ID
from holdfast.storage.arrays import mask

_TOUCHED = pa.schema([(ROW_ID, pa.int64()), (CHANGE, pa.string())])


def touched_ids(parts: Sequence[TouchedRows]) -> pa.Table:
    """The row ids of touched rows, each with the kind of change."""
    tables = [_TOUCHED.empty_table()]
    for part in parts:
        rows = scan_table(part.plan, part.hidden)
        tables.append(rows.append_column(CHANGE, pa.repeat(pa.scalar(part.change), rows.num_rows)))
    return pa.concat_tables(tables)


def id_bitmap(plan: ScanPlan, hidden: HiddenRows, column: str) -> BitMap64:
    """The distinct values of a plan's column of row ids."""
    batches = scan_batches(plan, hidden)
    return BitMap64().union(*(BitMap64(batch.column(column).to_numpy().astype(np.uint64)) for batch in batches))


def furthest(plan: ScanPlan, hidden: HiddenRows, *, upward: bool) -> int | None:
    """The greatest value of a plan's only column, or the least; None where there is none."""
    extreme = pc.max if upward else pc.min
    values = [extreme(batch.column(0)).as_py() for batch in scan_batches(plan, hidden)]
    value: int | None = extreme(pa.array(values, pa.int64())).as_py()
    return value


def rows_by_file(searches: Sequence[RowSearch], hidden: HiddenRows) -> Mapping[str, int]:
    """How many rows of each file at least one search finds, by the file's URI."""
    positions: dict[str, BitMap64] = {}
    for search in searches:
        ids = None if search.ids is None else np.fromiter(search.ids, np.int64, len(search.ids))
        for batch in scan_batches(search.plan, hidden):
            rows = batch if ids is None else batch.filter(mask(np.isin(batch.column(ID_COLUMN).to_numpy(), ids)))
            for uri in pc.unique(rows.column(FILE_COLUMN)).to_pylist():  # one batch is of one file
                of_file = rows.filter(pc.equal(rows.column(FILE_COLUMN), uri)).column(INDEX_COLUMN).to_numpy()
                positions.setdefault(uri, BitMap64()).update(of_file.astype(np.uint64))
    return {uri: len(rows) for uri, rows in positions.items()}
